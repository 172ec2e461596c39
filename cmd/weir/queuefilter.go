package main

import (
	"errors"
	"fmt"
	"strings"

	"weir"
	"weir/console"
	"weir/store"
)

// filterFlags say which messages are meant.
type filterFlags struct {
	User      string        `placeholder:"NAME" help:"Only messages of this user."`
	State     string        `placeholder:"STATE" help:"Only messages with a recipient in this state: ready, sending, delayed, held, pooled or withheld."`
	Sender    string        `placeholder:"TEXT" help:"Only messages with this text in the sender address; <> for messages without one."`
	Recipient string        `placeholder:"TEXT" help:"Only messages with this text in a recipient address."`
	Domain    string        `placeholder:"DOMAIN" help:"Only messages with a recipient in this domain; .example.com also means what is below."`
	Subject   string        `placeholder:"TEXT" help:"Only messages with this text in the subject."`
	Older     weir.Duration `placeholder:"TIME" help:"Only messages received longer ago: 3d."`
	Newer     weir.Duration `placeholder:"TIME" help:"Only messages received within this time: 2h."`
	Larger    weir.Size     `placeholder:"SIZE" help:"Only messages larger than this: 1MB."`
	Smaller   weir.Size     `placeholder:"SIZE" help:"Only messages smaller than this."`
}

func (c *filterFlags) Validate() error {
	_, err := c.state()
	return err
}

func (c *filterFlags) state() (s store.State, err error) {
	if c.State == "" {
		return 0, nil
	}
	if err := s.UnmarshalText([]byte(c.State)); err != nil {
		names := make([]string, len(store.States))
		for i, s := range store.States {
			names[i] = s.String()
		}
		return 0, fmt.Errorf("--state: %.40q is not a state (one of %s)", c.State, strings.Join(names, ", "))
	}
	return s, nil
}

// filter is what the flags say.
func (c *filterFlags) filter() console.MailFilter {
	f := console.MailFilter{User: c.User, Sender: c.Sender, Recipient: c.Recipient, Domain: c.Domain,
		Subject: c.Subject, Older: c.Older, Newer: c.Newer, Larger: c.Larger, Smaller: c.Smaller}
	f.State, _ = c.state()
	return f
}

type queueTrackCommand struct {
	target
	JSON bool   `name:"json" help:"Print it as JSON."`
	What string `arg:"" name:"id-or-address" help:"The id of a message, here or at the server before or after; its Message-ID; or a part of the address of a recipient, with the @."`
}

func (c *queueTrackCommand) query() (q console.TrackQuery, err error) {
	if q.ID, err = mailID(c.What); err != nil {
		q.Recipient = c.What
	}
	if len(c.What) < 6 && !strings.Contains(c.What, "@") {
		return q, errors.New("name the id of a message, or an address with its @")
	}
	return q, nil
}

func (c *queueTrackCommand) Validate() error {
	_, err := c.query()
	return err
}

func (c *queueTrackCommand) Run(t *terminal) error {
	q, _ := c.query()
	return ask(t, c.target, c.JSON, console.MailTrackCall.With(q), t.track)
}

func (t *terminal) track(all *console.Track) {
	if len(all.Mails) > 0 {
		t.queue(&console.MailPage{Mails: all.Mails})
		fmt.Fprintln(t.out)
	}
	if len(all.Attempts) > 0 {
		rows := table{heads: []string{"when", "mail", "user", "recipient", "result", "id there", "said"}}
		for _, s := range all.Attempts {
			rows.row(text(moment(s.At)), text(s.Mail.String()), text(s.User), text(s.Address), text(s.Result),
				text(s.Queue), text(s.Status))
		}
		t.write(&rows)
		fmt.Fprintln(t.out)
	}
	if len(all.Acts) > 0 {
		t.audit(&console.AuditPage{Entries: all.Acts})
	}
}
