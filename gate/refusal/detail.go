package refusal

import (
	"net/http"
	"time"

	"weir"
	"weir/internal/words"
)

// Detail says in a sentence what a client ran into.
func Detail(l *words.Language, a *weir.Answer) string { return detail(l, a, a.Reason) }

// detail is Detail as if the reason were another one.
func detail(l *words.Language, a *weir.Answer, why weir.Reason) string {
	// it is not a limit of the client's
	if a.Unit == "waiting" && (why == weir.LineFull || why == weir.WaitTooLong) {
		return l.Say("The server is busy, and no more requests can wait, or this one has waited too long.")
	}
	switch why {
	case weir.NoAccount:
		return l.Say("The request does not say which account it belongs to.")
	case weir.BadKey:
		return l.Say("The request is written in a way that servers read differently, or a part of it is too long.")
	case weir.TooCostly:
		return l.Say("The request costs more than its limit will ever allow.")
	case weir.Overload:
		return l.Say("The server has no room for the request right now.")
	case weir.Failure:
		return l.Say("The server cannot tell right now whether the request may pass.")
	case weir.Banned:
		return l.Say("The server does not take requests from this client.")
	case weir.Forged:
		return l.Say("The stamp that came with the request is not genuine.")
	case weir.Replayed:
		return l.Say("The stamp that came with the request has been used.")
	case weir.NotPaying:
		return l.Say("The server is busy. The client was asked for a stamp too often and sent none.")
	case weir.TooMany:
		return l.Say("The server is busy, and this client has as many requests waiting as one may have.")
	}
	used := words.Text("{limit} is used up.")
	switch why {
	case weir.LineFull:
		used = "{limit} is used up, and no more requests can wait."
	case weir.WaitTooLong:
		used = "{limit} is used up, and the wait would be too long."
	case weir.SharedLimit:
		used = "{limit} is used up. Accounts that are new to the server share it. Try again soon."
	case weir.Unpaid:
		if used = "{limit} is used up. With a stamp the request goes on."; a.Unit == "operations" {
			return l.Say("The server is busy. Requests with a stamp go first.")
		}
	}
	return l.Say(used, "limit", limitOf(l, a))
}

// limitOf names the limit that decided.
func limitOf(l *words.Language, a *weir.Answer) string {
	if a.Limit <= 0 {
		return l.Say("The limit")
	}
	limit := ""
	switch a.Unit {
	case "requests":
		limit = l.Count(a.Limit, "The limit of {n} request", "The limit of {n} requests")
	case "bytes":
		limit = l.Say("The limit of {amount}", "amount", weir.Size(a.Limit).String())
	case "at once":
		limit = l.Count(a.Limit, "The limit of {n} at a time", "The limit of {n} at once")
	case "":
		limit = l.Say("The limit of {amount}", "amount", a.Limit)
	default:
		limit = l.Say("The limit of {n} {unit}", "n", a.Limit, "unit", a.Unit)
	}
	if a.Window <= 0 {
		return limit
	}
	return l.Say(per(a.Window), "limit", limit, "period", a.Window.String())
}

// per says per how long, in a word where there is one.
func per(w weir.Window) words.Text {
	switch w.Length() {
	case time.Second:
		return "{limit} per second"
	case time.Minute:
		return "{limit} per minute"
	case time.Hour:
		return "{limit} per hour"
	case 24 * time.Hour:
		return "{limit} per day"
	case 7 * 24 * time.Hour:
		return "{limit} per week"
	}
	switch w.String() {
	case "day":
		return "{limit} per day"
	case "month":
		return "{limit} per month"
	}
	return "{limit} per {period}"
}

// Amount says how much of what a rule counts, for people.
func Amount(l *words.Language, n int64, unit string) string {
	switch unit {
	case "requests":
		return l.Count(n, "{n} request", "{n} requests")
	case "bytes":
		return weir.Size(n).String()
	case "at once":
		return l.Say("{n} at once", "n", n)
	case "waiting", "waiting requests":
		return l.Say("{n} waiting", "n", n)
	}
	return l.Say("{n} {unit}", "n", n, "unit", unit)
}

// titles are what the statuses of refusals are called in net/http.
var titles = map[int]words.Text{
	http.StatusBadRequest:                  "Bad Request",
	http.StatusUnauthorized:                "Unauthorized",
	http.StatusForbidden:                   "Forbidden",
	http.StatusMethodNotAllowed:            "Method Not Allowed",
	http.StatusRequestTimeout:              "Request Timeout",
	http.StatusRequestEntityTooLarge:       "Request Entity Too Large",
	http.StatusTooManyRequests:             "Too Many Requests",
	http.StatusRequestHeaderFieldsTooLarge: "Request Header Fields Too Large",
	http.StatusBadGateway:                  "Bad Gateway",
	http.StatusServiceUnavailable:          "Service Unavailable",
	http.StatusGatewayTimeout:              "Gateway Timeout",
}

// In returns title and detail in a language, for people. The fields of the document stay in English, for programs.
func (doc *Refusal) In(l *words.Language) (title, text string) {
	if title = doc.Title; titles[doc.Status] != "" {
		title = l.Say(titles[doc.Status])
	}
	if doc.about != nil {
		return title, detail(l, doc.about, doc.why)
	}
	return title, l.Say(words.Text(doc.Detail))
}
