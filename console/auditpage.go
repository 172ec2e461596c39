package console

import (
	_ "embed"
	"fmt"
	"net/url"
	"strings"
	"time"

	"weir/console/access"
	"weir/store"
)

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
