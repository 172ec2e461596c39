package console

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"weir/console/access"
	"weir/store"
)

// MaxAuditPage is how many entries one answer holds.
const MaxAuditPage = 2000

// maxAuditText bounds what entries are searched for.
const maxAuditText = 256

// An AuditQuery asks for a part of the audit log. Fields that are left out match everything.
type AuditQuery struct {
	By     string    `json:"by,omitempty"`     // the operator, user or mechanism
	What   string    `json:"what,omitempty"`   // the kind of act, as in ban-add
	User   string    `json:"user,omitempty"`   // the user or account that it concerns
	Text   string    `json:"text,omitempty"`   // a text in any of these, in the details or in the source
	Since  time.Time `json:"since,omitzero"`   // not before
	Until  time.Time `json:"until,omitzero"`   // before
	Before int64     `json:"before,omitempty"` // the Next of the page before
	Limit  int       `json:"limit,omitempty"`  // at most MaxAuditPage, which is the default
}

// An AuditPage is a part of the audit log, the latest first.
type AuditPage struct {
	Entries []store.Entry `json:"entries"`
	Next    int64         `json:"next,omitempty"` // where the next page begins; left out on the last one
}

var AuditListCall = define(http.MethodGet, "/audit", access.View, "audit",
	"Shows who did what, when, from where, and what changed.",
	func(q *Request, in *AuditQuery) (p AuditPage, err error) {
		p.Entries = []store.Entry{}
		if in.Limit, err = limitOf(in.Limit, MaxAuditPage); err != nil {
			return p, err
		}
		if in.Before < 0 {
			return p, Invalid("before: the number of an entry")
		}
		for what, text := range map[string]string{"by": in.By, "what": in.What, "user": in.User, "text": in.Text} {
			if err := checkLine(what, text, maxAuditText, true); err != nil {
				return p, err
			}
		}
		found, err := q.backend.Entries(q, store.EntryQuery{Before: in.Before, By: in.By, What: in.What, User: in.User,
			Text: in.Text, Since: in.Since, Until: in.Until}, in.Limit)
		p.Entries = append(p.Entries, found...)
		if len(found) > 0 && len(found) >= in.Limit {
			p.Next = found[len(found)-1].ID
		}
		return p, err
	})

//go:embed auditpage.html
var auditHTML string

// auditPageRows is how many entries the page shows at once.
const auditPageRows = 100

// auditPage shows who did what.
func auditPage() *page {
	return newPage(page{path: "audit", name: "Audit", role: access.View, show: showAudit}, auditHTML)
}

// An auditShown is a part of the audit log as the page shows it.
type auditShown struct {
	Query        AuditQuery
	Since, Until string // as they were written
	Filtered     bool
	Entries      []store.Entry
	Next         string // the address of the next page
	Export       string // the same entries from the API
	Command      string // the same entries from the command line
	Wrong        string
}

// timeOf reads what the page's fields for times send, in UTC.
func timeOf(text string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time (write 2026-03-01T12:00)", text)
}

func showAudit(v *visit) (any, error) {
	s := auditShown{Since: v.query.Get("since"), Until: v.query.Get("until")}
	values := url.Values{}
	for _, name := range []string{"by", "what", "user", "text", "since", "until", "before"} {
		text := strings.TrimSpace(v.query.Get(name))
		if text == "" {
			continue
		}
		s.Filtered = s.Filtered || name != "before"
		if name == "since" || name == "until" {
			at, err := timeOf(text)
			if err != nil {
				s.Wrong = name + ": " + err.Error()
				return s, nil
			}
			text = at.Format(time.RFC3339)
		}
		values.Set(name, text)
	}
	err := fill(&s.Query, values)
	if err == nil {
		s.Query.Limit = auditPageRows
		var found AuditPage
		found, err = AuditListCall.on(v.Request, s.Query)
		s.Entries = found.Entries
		if found.Next != 0 {
			next := url.Values{}
			for name, all := range values {
				next[name] = all
			}
			next.Set("before", fmt.Sprint(found.Next))
			s.Next = "audit?" + next.Encode()
		}
	}
	if err != nil {
		s.Wrong = err.Error()
		return s, nil
	}
	values.Del("before")
	s.Command = "weir audit --lines --limit 0"
	for _, name := range []string{"by", "what", "user", "text", "since", "until"} {
		if text := values.Get(name); text != "" {
			s.Command += " --" + name + " " + quoted(text)
		}
	}
	values.Set("limit", fmt.Sprint(MaxAuditPage))
	s.Export = strings.TrimPrefix(Prefix, "/") + AuditListCall.Path + "?" + values.Encode()
	return s, nil
}

// quoted writes a text for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// A changed is one figure or word of what an act changed.
type changed struct{ What, Before, After string }

// auditChanges puts what was there before an act beside what is there after it. What stayed is left out, unless
// everything did.
func auditChanges(before, after store.Detail) []changed {
	was, is := map[string]string{}, map[string]string{}
	flatten("", before, was)
	flatten("", after, is)
	names := slices.Sorted(maps.Keys(was))
	for name := range is {
		if _, known := was[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all, differ []changed
	for _, name := range names {
		c := changed{What: name, Before: was[name], After: is[name]}
		if all = append(all, c); c.Before != c.After {
			differ = append(differ, c)
		}
	}
	if len(differ) > 0 {
		return differ
	}
	return all
}

// auditText is what an entry says, in words also where an order was noted as JSON.
func auditText(text string) string {
	if !strings.HasPrefix(text, "{") || !json.Valid([]byte(text)) {
		return text
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	_, _ = d.Token() // the brace
	var parts []string
	for d.More() { // in the order in which it was written
		key, _ := d.Token()
		var v any
		if err := d.Decode(&v); err != nil {
			return text
		}
		parts = append(parts, fmt.Sprint(strings.ReplaceAll(fmt.Sprint(key), "_", " "), " ", inWords(v)))
	}
	return strings.Join(parts, ", ")
}

// flatten reads JSON as names and words. What is not JSON stays as it is.
func flatten(name string, text store.Detail, into map[string]string) {
	if text == "" {
		return
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		v = string(text)
	}
	spread(name, v, into)
}

// spread notes a value under its name, and the parts of an object each under its own.
func spread(name string, v any, into map[string]string) {
	if parts, ok := v.(map[string]any); ok && len(parts) > 0 {
		for key, part := range parts {
			spread(strings.TrimSpace(name+" "+strings.ReplaceAll(key, "_", " ")), part, into)
		}
		return
	}
	if name == "" {
		name = "value"
	}
	into[name] = inWords(v)
}

// inWords is a value for people.
func inWords(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case []any:
		parts := make([]string, len(v))
		for i, one := range v {
			parts[i] = inWords(one)
		}
		return strings.Join(parts, ", ")
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strings.ReplaceAll(key, "_", " ")+" "+inWords(v[key]))
		}
		return strings.Join(parts, "; ")
	}
	return fmt.Sprint(v)
}
