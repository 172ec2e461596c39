package refusal

import (
	"strconv"
	"time"

	"weir"
)

// Detail says in a sentence what a client ran into.
func Detail(a *weir.Answer) string {
	limit := limitOf(a)
	// it is not a limit of the client's
	if a.Unit == "waiting" && (a.Reason == weir.LineFull || a.Reason == weir.WaitTooLong) {
		return "The server is busy, and no more requests can wait, or this one has waited too long."
	}
	switch a.Reason {
	case weir.LineFull:
		return limit + " is used up, and no more requests can wait."
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
	case 7 * 24 * time.Hour:
		return "week"
	}
	return w.String()
}
