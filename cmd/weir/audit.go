package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"weir"
	"weir/console"
	"weir/store"
)

type auditCommand struct {
	target
	By    string `placeholder:"NAME" help:"Show only what this operator, user or mechanism did."`
	What  string `placeholder:"ACT" help:"Show only this kind of act, as in ban-add."`
	User  string `placeholder:"NAME" help:"Show only what concerns this user or account."`
	Text  string `placeholder:"TEXT" help:"Show only entries with this text in a name, the details or the address."`
	Since string `placeholder:"TIME" help:"Show only what happened since: 2h, 7d, or 2026-03-01, or 2026-03-01T12:00:00Z."`
	Until string `placeholder:"TIME" help:"Show only what happened before."`
	Limit int    `placeholder:"N" default:"100" help:"Show at most this many, the latest first; 0 for all. Default: 100."`
	JSON  bool   `name:"json" help:"Print the entries as JSON."`
	Lines bool   `help:"Print the entries as JSON, one in a line, for other programs."`
}

func (c *auditCommand) Validate() error {
	_, err := c.query(time.Now())
	return cmp.Or(checkLimit(c.Limit), err)
}

func (c *auditCommand) query(now time.Time) (q console.AuditQuery, err error) {
	q = console.AuditQuery{By: c.By, What: c.What, User: c.User, Text: c.Text}
	if q.Since, err = pastTime("--since", c.Since, now); err == nil {
		q.Until, err = pastTime("--until", c.Until, now)
	}
	return q, err
}

// pastTime reads a time, or how long ago it was. Days and times without a zone are those of this machine.
func pastTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	var ago weir.Duration
	if ago.UnmarshalText([]byte(text)) == nil && ago > 0 {
		return now.Add(-time.Duration(ago)), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s: %.40q is not a time (write 2h, 2026-03-01 or 2026-03-01T12:00:00Z)", flag, text)
}

func (c *auditCommand) Run(t *terminal) error {
	q, err := c.query(time.Now())
	if err != nil {
		return err
	}
	if c.Lines {
		return c.lines(t, q)
	}
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (all console.AuditPage,
		err error) {
		all.Entries, err = pages(c.Limit, console.MaxAuditPage, func(n int) ([]store.Entry, bool, error) {
			q.Limit = n
			page, err := console.AuditListCall.Ask(ctx, client, q)
			all.Next, q.Before = page.Next, page.Next
			return page.Entries, page.Next != 0, err
		})
		return all, err
	}, t.audit)
}

// lines prints entries as they come, so that any number fits into memory.
func (c *auditCommand) lines(t *terminal, q console.AuditQuery) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	lines := json.NewEncoder(t.out)
	for n := 0; ; {
		q.Limit = console.MaxAuditPage
		if c.Limit > 0 {
			q.Limit = min(c.Limit-n, console.MaxAuditPage)
		}
		page, err := console.AuditListCall.Ask(context.Background(), client, q)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			if err := lines.Encode(e); err != nil {
				return err
			}
		}
		n += len(page.Entries)
		if q.Before = page.Next; page.Next == 0 || c.Limit > 0 && n >= c.Limit {
			return nil
		}
	}
}

func (t *terminal) audit(all *console.AuditPage) {
	if len(all.Entries) == 0 {
		fmt.Fprintln(t.out, "nothing has happened yet")
		return
	}
	rows := table{heads: []string{"when", "by", "from", "what", "user", "mail", "details"}}
	for _, e := range all.Entries {
		id := ""
		if e.Mail != 0 {
			id = e.Mail.String()
		}
		rows.row(text(moment(e.At)), text(e.By), text(e.From), text(e.What), text(e.User), text(id), text(e.Text))
	}
	t.write(&rows)
	if all.Next != 0 {
		fmt.Fprintln(t.out, "and more (--limit 0 shows all)")
	}
}
