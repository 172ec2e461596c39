package doorway

import (
	"net/http"
	"strconv"
	"time"

	"weir"
)

// RateLimit adds RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) for the rules that a request
// met.
//
// A policy goes by the name of its rule; where two throttles have rules of the same name, the later one by
// throttle/rule. Windows are told in whole seconds, rounded up: a client that takes 5 per 200 ms for 5 per second is on
// the safe side. A level, such as requests at once, has no window. A reset that nobody can tell is left out.
func RateLimit(h http.Header, figures []weir.Figure, now time.Time) {
	if len(figures) == 0 {
		return
	}
	policy, limit := make([]byte, 0, 128), make([]byte, 0, 128)
	for i := range figures {
		f := &figures[i]
		if toldLater(figures, i) {
			continue
		}
		name := f.Rule
		for j := range i {
			if figures[j].Rule == f.Rule && !toldLater(figures, j) {
				name = f.By + "/" + f.Rule
				break
			}
		}
		if len(policy) > 0 {
			policy, limit = append(policy, ", "...), append(limit, ", "...)
		}
		policy = strconv.AppendInt(append(appendString(policy, name), ";q="...), f.Limit, 10)
		if f.Window > 0 {
			policy = strconv.AppendInt(append(policy, ";w="...), wholeSeconds(f.Window.Length()), 10)
		}
		switch f.Unit {
		case "bytes":
			policy = append(policy, `;qu="content-bytes"`...)
		case "at once":
			policy = append(policy, `;qu="concurrent-requests"`...)
		}
		limit = strconv.AppendInt(append(appendString(limit, name), ";r="...), f.Remaining, 10)
		if !f.Reset.IsZero() {
			limit = strconv.AppendInt(append(limit, ";t="...), wholeSeconds(f.Reset.Sub(now)), 10)
		}
	}
	// Header.Add would write them Ratelimit: the same to a program, not to a person.
	h["RateLimit-Policy"] = append(h["RateLimit-Policy"], string(policy))
	h["RateLimit"] = append(h["RateLimit"], string(limit))
}

// toldLater reports whether figure i comes again: a rule may be met when the event is judged and again when it enters.
func toldLater(figures []weir.Figure, i int) bool {
	for j := i + 1; j < len(figures); j++ {
		if figures[j].Rule == figures[i].Rule && figures[j].By == figures[i].By {
			return true
		}
	}
	return false
}

// appendString writes a string of a structured field (RFC 9651, 3.3.3): quoted, ASCII only.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c >= 0x7f:
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// wholeSeconds rounds up, so that what it tells is never too early.
func wholeSeconds(d time.Duration) int64 { return int64((max(d, 0) + time.Second - 1) / time.Second) }

// RetryAfter returns after how many seconds a refused client may come back: not before the time the answer names and
// not before the reset of the rule that decided, at least 1. 0 means that there is no use, or no saying.
func RetryAfter(a *weir.Answer, now time.Time) int64 {
	switch a.Reason {
	case weir.NoAccount, weir.TooCostly, weir.Forged, weir.Replayed:
		return 0
	case weir.Banned:
		if a.Until.IsZero() { // for good
			return 0
		}
	case weir.OverLimit:
		if a.Limit == 0 && a.Rule != "" { // closed for good
			return 0
		}
	}
	until := a.Until
	if a.Reset.After(until) {
		until = a.Reset
	}
	return max(wholeSeconds(until.Sub(now)), 1)
}

// Detail says in a sentence what a client ran into.
func Detail(a *weir.Answer) string {
	limit := limitOf(a)
	// it is not a limit of the client's
	if a.Unit == "waiting" && (a.Reason == weir.LineFull || a.Reason == weir.WaitTooLong) {
		return "The server is busy, and as many requests as may wait are waiting, or have waited too long."
	}
	switch a.Reason {
	case weir.LineFull:
		return limit + " is used up, and as many requests as may wait are waiting."
	case weir.WaitTooLong:
		return limit + " is used up, and the wait would be too long."
	case weir.SharedLimit:
		return limit + " is used up. Accounts that are new to the server share it. Try again soon."
	case weir.NoAccount:
		return "The request does not say which account it belongs to."
	case weir.TooCostly:
		return "The request costs more than its limit will ever allow."
	case weir.Overload:
		return "The server has no room for the request right now."
	case weir.Failure:
		return "The server cannot tell right now whether the request may pass."
	case weir.Banned:
		return "The server does not take requests from this client."
	case weir.Forged:
		return "The stamp that came with the request is not genuine."
	case weir.Replayed:
		return "The stamp that came with the request has been used."
	case weir.NotPaying:
		return "The server is busy. The client was asked for a stamp too often and sent none."
	case weir.TooMany:
		return "The server is busy, and this client has as many requests waiting as one may have."
	case weir.Unpaid:
		if a.Unit == "operations" {
			return "The server is busy. Requests with a stamp go first."
		}
		return limit + " is used up. With a stamp the request goes on."
	}
	return limit + " is used up."
}

// limitOf names the limit that decided.
func limitOf(a *weir.Answer) string {
	if a.Limit <= 0 {
		return "The limit"
	}
	limit := "The limit of "
	switch a.Unit {
	case "":
		limit += strconv.FormatInt(a.Limit, 10)
	case "bytes":
		limit += weir.Size(a.Limit).String()
	default:
		limit += strconv.FormatInt(a.Limit, 10) + " " + a.Unit
	}
	if a.Window > 0 {
		limit += " per " + period(a.Window)
	}
	return limit
}

// period says per how long, in a word where there is one.
func period(w weir.Window) string {
	switch w.Length() {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	}
	return w.String()
}
