package authgate

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/gate/refusal"
)

// Headers of answers, in the case in which they are sent.
const (
	statusHeader = "X-Weir-Status" // what the client should get; nginx itself understands only 401 and 403
	reasonHeader = "X-Weir-Reason"
	byHeader     = "X-Weir-By" // throttle/rule
)

// admit lets the request go on. 200 is what every proxy understands.
func (v *visit) admit(now time.Time) {
	v.answered = true
	refusal.RateLimit(&refusal.Singles{Of: v.w.Header()}, v.pass.Answer.Figures, now)
	v.w.WriteHeader(http.StatusOK)
	v.gate.env.Observer.Decided(weir.Admit, v.held)
}

// refuse answers with a verdict that is not an admission.
func (v *visit) refuse(a *weir.Answer) {
	now := v.event.Time.Add(v.held)
	doc := refusal.OfUnpayable(a, now)
	h := v.w.Header()
	if doc.Status == http.StatusUnauthorized {
		for _, challenge := range v.setup.accounts.Challenges() {
			h.Add("WWW-Authenticate", challenge)
		}
	}
	refusal.RateLimit(&refusal.Singles{Of: h}, v.pass.Answer.Figures, now)
	v.write(&doc)
	v.gate.env.Observer.Decided(a.Verdict, v.held)
}

// problem answers a question that no throttle has judged.
func (v *visit) problem(status int, detail string) {
	doc := refusal.Problem(status, detail)
	v.write(&doc)
}

// write answers with anything but an admission.
func (v *visit) write(doc *refusal.Refusal) {
	v.answered = true
	v.named()
	doc.RequestID = v.event.ID
	h := v.w.Header()
	h.Set(statusHeader, strconv.Itoa(doc.Status))
	if doc.Reason != "" {
		h.Set(reasonHeader, doc.Reason)
	}
	if by := strings.Trim(doc.Throttle+"/"+doc.Policy, "/"); by != "" {
		h.Set(byHeader, plain(by))
	}
	if doc.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(doc.RetryAfter, 10))
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", "application/problem+json")
	body := append(doc.AppendJSON(nil), '\n')
	h.Set("Content-Length", strconv.Itoa(len(body)))
	status := doc.Status
	if v.dialect == Nginx && status != http.StatusUnauthorized {
		status = http.StatusForbidden
	}
	v.w.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(body) // a proxy that has left needs no answer
	}
}

// plain is a name that fits into a header.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
}

// named gives the event an id for logs and answers, unless the proxy has.
func (v *visit) named() {
	if v.event.ID == "" {
		v.event.ID = strings.ToLower(rand.Text()[:16])
	}
}

// maxID is how long an id may be that a proxy sends.
const maxID = 128

// saneID returns the id that a proxy sent, if it is the only one and fit to be shown and logged.
func saneID(ids []string) string {
	id, ok := only(ids)
	if !ok || len(id) > maxID || strings.ContainsFunc(id, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.ContainsRune("-_.~+=/:@", c))
	}) {
		return ""
	}
	return id
}
