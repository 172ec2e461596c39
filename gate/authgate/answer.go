package authgate

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"weir"
	"weir/internal/doorway"
)

// A refusal is what is told about a request that is not to go on: a problem (RFC 9457), with the same facts as at the
// HTTP gate. nginx reads the headers alone; the others hand the body to the client.
type refusal struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Policy     string `json:"policy,omitempty"`
	Throttle   string `json:"throttle,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Limit      *int64 `json:"limit,omitempty"`
	Unit       string `json:"unit,omitempty"` // of limit and remaining
	Remaining  *int64 `json:"remaining,omitempty"`
	RetryAfter int64  `json:"retry_after,omitempty"`
	RequestID  string `json:"request_id"`
}

// Headers of answers. They are written as they are here.
const (
	statusHeader = "X-Weir-Status" // what the client should be told; nginx can be told no more than 401 and 403
	reasonHeader = "X-Weir-Reason"
	byHeader     = "X-Weir-By" // throttle/rule
)

// admit lets the request go on. 200 is what every proxy understands.
func (v *visit) admit(now time.Time) {
	v.answered = true
	doorway.RateLimit(v.w.Header(), v.pass.Answer.Figures, now)
	v.w.WriteHeader(http.StatusOK)
	v.gate.env.Observer.Decided(weir.Admit, v.held)
}

// refuse answers as the verdict wants it.
func (v *visit) refuse(a *weir.Answer) {
	now := v.event.Time.Add(v.held)
	doc := refusal{Status: v.statusOf(a), Detail: detail(a), Policy: a.Rule, Throttle: a.By, Reason: a.Reason.String(),
		RetryAfter: doorway.RetryAfter(a, now)}
	if a.Reason != weir.NoReason {
		doc.Type = "urn:weir:" + doc.Reason
	}
	if a.Unit != "" || a.Limit > 0 { // else the rule is none that counts
		doc.Limit, doc.Unit, doc.Remaining = &a.Limit, a.Unit, &a.Remaining
	}
	h := v.w.Header()
	if doc.Status == http.StatusUnauthorized {
		for _, challenge := range v.setup.accounts.Challenges() {
			h.Add("WWW-Authenticate", challenge)
		}
	}
	doorway.RateLimit(h, v.pass.Answer.Figures, now)
	v.write(&doc)
	v.gate.env.Observer.Decided(a.Verdict, v.held)
}

// problem answers a question that was put before no throttle.
func (v *visit) problem(status int, detail string) { v.write(&refusal{Status: status, Detail: detail}) }

// statusOf is what the client should be told.
func (v *visit) statusOf(a *weir.Answer) int {
	switch a.Reason {
	case weir.NoAccount:
		return http.StatusUnauthorized
	case weir.Banned, weir.Forged, weir.Replayed:
		return http.StatusForbidden
	case weir.Overload, weir.Failure:
		return http.StatusServiceUnavailable
	case weir.NotPaying, weir.TooMany:
		return http.StatusTooManyRequests
	}
	// The server's own limits are not the client's fault.
	if a.By != "" && a.By == v.setup.tillName {
		return http.StatusServiceUnavailable
	}
	return http.StatusTooManyRequests
}

// detail says in a sentence what the client ran into. There is no page here to pay at.
func detail(a *weir.Answer) string {
	if a.Verdict != weir.Challenge {
		return doorway.Detail(a)
	}
	unpaid := *a
	unpaid.Reason = weir.OverLimit
	if a.Unit == "operations" {
		unpaid.Reason = weir.Overload
	}
	return doorway.Detail(&unpaid)
}

// write answers with anything but an admission.
func (v *visit) write(doc *refusal) {
	v.answered = true
	v.named()
	doc.Title, doc.RequestID = http.StatusText(doc.Status), v.event.ID
	if doc.Type == "" {
		doc.Type = "about:blank"
	}
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
	body, _ := json.Marshal(doc)
	body = append(body, '\n')
	h.Set("Content-Length", strconv.Itoa(len(body)))
	status := doc.Status
	if v.dialect == Nginx && status != http.StatusUnauthorized {
		status = http.StatusForbidden
	}
	v.w.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(body) // whoever has left needs no answer
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

// sentence makes one of an error text.
func sentence(err error) string {
	s := err.Error()
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:] + "."
}
