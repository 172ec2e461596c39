package main

import (
	"context"
	"fmt"

	"weir/console"
	"weir/store"
)

type auditCommand struct {
	target
	Limit int  `placeholder:"N" default:"100" help:"Show at most this many, the latest first; 0 for all. Default: 100."`
	JSON  bool `name:"json" help:"Print the entries as JSON."`
}

func (c *auditCommand) Validate() error { return checkLimit(c.Limit) }

func (c *auditCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (all console.AuditPage,
		err error) {
		all.Entries, err = pages(c.Limit, console.MaxAuditPage, func(n int) ([]store.Entry, bool, error) {
			page, err := client.Audit(ctx, all.Next, n)
			all.Next = page.Next
			return page.Entries, page.Next != 0, err
		})
		return all, err
	}, t.audit)
}

func (t *terminal) audit(all *console.AuditPage) {
	if len(all.Entries) == 0 {
		fmt.Fprintln(t.out, "nothing has happened yet")
		return
	}
	rows := table{heads: []string{"when", "by", "what", "user", "mail", "details"}}
	for _, e := range all.Entries {
		id := ""
		if e.Mail != 0 {
			id = e.Mail.String()
		}
		rows.row(text(moment(e.At)), text(e.By), text(e.What), text(e.User), text(id), text(e.Text))
	}
	t.write(&rows)
	if all.Next != 0 {
		fmt.Fprintln(t.out, "and more (--limit 0 shows all)")
	}
}
