package pages

import (
	"bytes"
	_ "embed"

	"weir/gate/refusal"
	"weir/internal/words"
)

// RefusalPolicy lets the page use nothing but the style and the empty icon that stand in it. Any site may show it in a
// frame: there is nothing to press, and people should be able to read why they were refused.
const RefusalPolicy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action " +
	"'none'"

// The icon is there so that no browser asks for one: a refused client should not be made to ask for more.
//
//go:embed refused.html
var refusedHTML string

var refusedPages = templates("refused", refusedHTML)

// A refused is the page of a refusal.
type refused struct {
	*refusal.Refusal
	Look
	Title, Text string
}

// Refusal returns the page with the facts of a refusal.
func Refusal(doc *refusal.Refusal, look Look) []byte {
	page := refused{Refusal: doc, Look: look}
	page.Title, page.Text = doc.In(look.Language)
	var b bytes.Buffer
	if err := refusedPages[look.Language.Index()].Execute(&b, &page); err != nil {
		return []byte(page.Title + "\n")
	}
	return b.Bytes()
}

// Again says when to come again; empty if that is not known.
func (p *refused) Again() string {
	if p.RetryAfter == 0 {
		return ""
	}
	return p.Language.Say("Please try again {in}.", "in", inTime(p.Language, p.RetryAfter))
}

// Rule names the rule that decided.
func (p *refused) Rule() string {
	if p.Policy == "" || p.Throttle == "" {
		return p.Policy
	}
	return p.Language.Say("{rule} of {throttle}", "rule", p.Policy, "throttle", p.Throttle)
}

// Left says how much is allowed, and how much of that is left; empty if the rule does not count anything.
func (p *refused) Left() string {
	if p.Limit == nil || p.Remaining == nil {
		return ""
	}
	return p.Language.Say("{limit}, {n} left", "limit", refusal.Amount(p.Language, *p.Limit, p.Unit), "n", *p.Remaining)
}

// units are those that a person counts in. They are counted from two on: 119 seconds are no minute.
var units = []struct {
	seconds        int64
	one, other     words.Text
	inOne, inOther words.Text
}{
	{1, "{n} second", "{n} seconds", "in {n} second", "in {n} seconds"},
	{60, "{n} minute", "{n} minutes", "in {n} minute", "in {n} minutes"},
	{60 * 60, "{n} hour", "{n} hours", "in {n} hour", "in {n} hours"},
	{24 * 60 * 60, "{n} day", "{n} days", "in {n} day", "in {n} days"},
}

// inUnits returns how many of which unit a time is. It rounds up, so that nobody comes back too early.
func inUnits(seconds int64) (n int64, unit int) {
	n = seconds
	for i, u := range units[1:] {
		if seconds >= 2*u.seconds {
			n, unit = (seconds-1)/u.seconds+1, i+1
		}
	}
	return n, unit
}

// inWords says how long a time is.
func inWords(l *words.Language, seconds int64) string {
	n, unit := inUnits(seconds)
	return l.Count(n, units[unit].one, units[unit].other)
}

// inTime says that something is so far away.
func inTime(l *words.Language, seconds int64) string {
	n, unit := inUnits(seconds)
	return l.Count(n, units[unit].inOne, units[unit].inOther)
}
