package main

import (
	"context"
	"errors"
	"fmt"

	"weir/console"
	"weir/store"
)

// auditCommand is weir audit.
type auditCommand struct {
	target
	Limit int  `placeholder:"N" default:"100" help:"At most so many, the latest first; 0 for all. Default: 100."`
	JSON  bool `name:"json" help:"Print the entries as JSON."`
}

// Validate is called by the parser.
func (c *auditCommand) Validate() error {
	if c.Limit < 0 {
		return errors.New("--limit: at least 0")
	}
	return nil
}

// Run shows the audit log, page by page.
func (c *auditCommand) Run(t *terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	all := console.AuditPage{Entries: []store.Entry{}}
	for {
		limit := console.MaxAuditPage
		if c.Limit > 0 {
			limit = min(c.Limit-len(all.Entries), limit)
		}
		page, err := client.Audit(context.Background(), all.Next, limit)
		if err != nil {
			return err
		}
		all.Entries, all.Next = append(all.Entries, page.Entries...), page.Next
		if all.Next == 0 || c.Limit > 0 && len(all.Entries) >= c.Limit {
			break
		}
	}
	if c.JSON {
		return t.json(all)
	}
	if len(all.Entries) == 0 {
		fmt.Fprintln(t.out, "nothing has happened yet")
		return nil
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
	return nil
}
