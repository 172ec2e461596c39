package console

import (
	"net/http"
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

var AuditListCall = define(Call{Method: http.MethodGet, Path: "/audit", Role: access.View, Commands: []string{"audit"},
	Summary: "Shows who did what, when, from where, and what changed."},
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
