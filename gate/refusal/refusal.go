package refusal

import (
	"net/http"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"weir"
)

// A Refusal is a problem document (RFC 9457). Its JSON is that of AppendJSON.
type Refusal struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Policy     string `json:"policy,omitempty"`
	Throttle   string `json:"throttle,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Limit      *int64 `json:"limit,omitempty"`
	Unit       string `json:"unit,omitempty"` // of Limit and Remaining
	Remaining  *int64 `json:"remaining,omitempty"`
	RetryAfter int64  `json:"retry_after,omitempty"`
	RequestID  string `json:"request_id,omitempty"`

	about  *weir.Answer // what Detail tells, if it tells of an answer
	why    weir.Reason
	begins string // the JSON up to Unit, where others have it in common; else empty
}

// Of returns the refusal for an answer that is not an admission. own says that the limit is the server's and not the
// client's: that of the stamp taker, or of the lanes to the upstream.
func Of(a *weir.Answer, now time.Time, own bool) Refusal {
	return of(a, now, own, a.Reason)
}

// of is Of with the detail of another reason.
func of(a *weir.Answer, now time.Time, own bool, why weir.Reason) Refusal {
	c := cause{by: a.By, rule: a.Rule, unit: a.Unit, limit: a.Limit, window: a.Window, reason: a.Reason, why: why,
		own: own}
	r := c.common().doc
	r.about, r.why, r.RetryAfter = a, why, RetryAfter(a, now)
	if r.Limit != nil {
		r.Remaining = &a.Remaining
	}
	return r
}

// Problem returns the refusal of a request that cannot be judged.
func Problem(status int, detail string) Refusal {
	return Refusal{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail}
}

// OfUnpayable is Of where clients cannot pay. A challenge is told as the limit behind it: the server's own if the stamp
// taker asks for operations, else the client's.
func OfUnpayable(a *weir.Answer, now time.Time) Refusal {
	if a.Verdict != weir.Challenge {
		return Of(a, now, false)
	}
	own, why := a.Unit == "operations" || a.Limit == 0, weir.OverLimit
	if own {
		why = weir.Overload
	}
	return of(a, now, own, why)
}

// Status is the status of HTTP for an answer. The server's own limits are not the client's fault.
func Status(a *weir.Answer, own bool) int {
	switch a.Reason {
	case weir.NoAccount:
		return http.StatusUnauthorized
	case weir.BadKey:
		return http.StatusBadRequest
	case weir.Banned, weir.Forged, weir.Replayed:
		return http.StatusForbidden
	case weir.Overload, weir.Failure:
		return http.StatusServiceUnavailable
	case weir.NotPaying, weir.TooMany:
		return http.StatusTooManyRequests
	}
	if own {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// Code is the code of gRPC for a status of HTTP. Clients only retry by themselves after errors of the server.
func Code(status int) codes.Code {
	switch status {
	case http.StatusBadRequest:
		return codes.InvalidArgument
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusMethodNotAllowed:
		return codes.Unimplemented
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		return codes.ResourceExhausted
	case http.StatusInternalServerError:
		return codes.Internal
	case http.StatusGatewayTimeout:
		return codes.DeadlineExceeded
	default:
		return codes.Unavailable
	}
}

// Sentence makes a sentence of an error. Errors are told in English.
func Sentence(err error) string {
	s := err.Error()
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:] + "."
}

// WholeSeconds rounds up, so that a client does not come too early.
func WholeSeconds(d time.Duration) int64 { return int64((max(d, 0) + time.Second - 1) / time.Second) }

// RetryAfter returns after how many seconds a refused client may come back, at least 1. 0 means never, or unknown.
func RetryAfter(a *weir.Answer, now time.Time) int64 { return WholeSeconds(Again(a, now)) }

// Again returns how long a refused client should wait: until the time that the answer names, or the reset of the rule
// that decided, whichever is later. Where both are unknown it is a second. 0 means that it is of no use to come again.
func Again(a *weir.Answer, now time.Time) time.Duration {
	switch a.Reason {
	case weir.NoAccount, weir.NoSource, weir.TooCostly, weir.Forged, weir.Replayed, weir.BadKey:
		return 0
	case weir.Banned:
		if a.Until.IsZero() { // forever
			return 0
		}
	case weir.OverLimit:
		if a.Limit == 0 && a.Rule != "" { // nothing is ever allowed
			return 0
		}
	}
	until := a.Until
	if a.Reset.After(until) {
		until = a.Reset
	}
	if until.IsZero() {
		return time.Second
	}
	return max(until.Sub(now), time.Millisecond)
}
