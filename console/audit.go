package console

import (
	"context"
	"net/http"
	"strconv"

	"weir/store"
)

// MaxAuditPage is how many entries one answer holds.
const MaxAuditPage = 2000

// An AuditPage is a part of the audit log, the latest first.
type AuditPage struct {
	Entries []store.Entry `json:"entries"`
	Next    int64         `json:"next,omitempty"` // where the next page begins; left out on the last one
}

func (c *Control) auditHandlers(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/audit", mailAnswer(c, func(r *http.Request, m Mail, _ *none) (any, error) {
		limit, err := limitOf(r, MaxAuditPage)
		if err != nil {
			return nil, err
		}
		var before int64
		if text := r.URL.Query().Get("before"); text != "" {
			if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
				return nil, Invalid("before: the number of an entry")
			}
		}
		p := AuditPage{Entries: []store.Entry{}}
		found, err := m.Audit(r.Context(), before, limit)
		p.Entries = append(p.Entries, found...)
		if len(found) > 0 && len(found) >= limit {
			p.Next = found[len(found)-1].ID
		}
		return p, err
	}))
}

// Audit returns a part of the audit log, before an entry (0: from the end).
func (c *Client) Audit(ctx context.Context, before int64, limit int) (AuditPage, error) {
	return fetch[AuditPage](ctx, c, http.MethodGet,
		withQuery("/v1/audit", "before", ifSet(before), "limit", ifSet(limit)), nil)
}
