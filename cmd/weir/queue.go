package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"weir/console"
	"weir/internal/tabular"
	"weir/store"
)

type queueCommand struct {
	List    queueListCommand    `cmd:"" help:"Show the messages that wait." example:"weir queue list --state held"`
	Show    queueShowCommand    `cmd:"" help:"Show one message: its remaining recipients and its header." example:"weir queue show 6GXY1YJ1GEP0C"`
	Release queueReleaseCommand `cmd:"" help:"Send held and delayed messages at once." example:"weir queue release --all --user ann"`
	Delete  queueDeleteCommand  `cmd:"" help:"Delete held and delayed messages. Nobody is told." example:"weir queue delete 6GXY1YJ1GEP0C"`
	Retry   queueRetryCommand   `cmd:"" help:"Try now to deliver messages that wait for another attempt." example:"weir queue retry 6GXY1YJ1GEP0C"`
	Track   queueTrackCommand   `cmd:"" help:"Show what happened to a message, or to mail for an address: what waits, attempts to deliver it, and what people did." example:"weir queue track bob@example.net"`
}

type queueListCommand struct {
	target
	filterFlags
	Limit int  `placeholder:"N" default:"1000" help:"Show at most this many; 0 for all. Default: 1000."`
	JSON  bool `name:"json" help:"Print them as JSON."`
}

func (c *queueListCommand) Validate() error {
	return cmp.Or(checkLimit(c.Limit), c.filterFlags.Validate())
}

func (c *queueListCommand) Run(t *terminal) error {
	q := console.MailQuery{MailFilter: c.filter()}
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (all console.MailPage,
		err error) {
		all.Mails, err = pages(c.Limit, console.MaxMailPage, func(n int) ([]console.MailLine, bool, error) {
			q.Limit = n
			page, err := console.QueueListCall.Ask(ctx, client, q)
			all.Next, q.After = page.Next, page.Next
			return page.Mails, page.Next != 0, err
		})
		return all, err
	}, t.queue)
}

func (t *terminal) queue(all *console.MailPage) {
	if len(all.Mails) == 0 {
		fmt.Fprintln(t.out, "no mail waits")
		return
	}
	rows := table{heads: []string{"mail", "received", "user", "to", "state", "tries", "size", "subject"}}
	for _, m := range all.Mails {
		state, tint := statesOf(m.To)
		rows.row(text(m.ID.String()), text(moment(m.Received)), text(m.Message.User), text(recipients(m)),
			cell{text: state, tint: tint},
			number(tries(m.To)), cell{text: bytesOf(m.Size), right: true}, text(m.Subject))
	}
	t.write(&rows)
	if all.Next != 0 {
		fmt.Fprintln(t.out, "and more (--limit 0 shows all)")
	}
}

// recipients names the first recipient that is not delivered yet, and says how many more there are.
func recipients(m console.MailLine) string {
	switch n := len(m.To) + m.More; {
	case n == 0:
		return ""
	case n == 1:
		return m.To[0].Address
	default:
		return fmt.Sprintf("%s and %d more", m.To[0].Address, n-1)
	}
}

func statesOf(to []store.Addressee) (string, tabular.Tint) {
	var of [16]int
	for _, a := range to {
		of[min(int(a.State), len(of)-1)]++
	}
	var words []string
	for _, s := range store.States {
		switch n := of[s]; {
		case n == len(to):
			words = append(words, s.String())
		case n > 0:
			words = append(words, fmt.Sprintf("%d %s", n, s))
		}
	}
	if of[store.Held]+of[store.Withheld] > 0 {
		return strings.Join(words, ", "), tabular.Warn
	}
	return strings.Join(words, ", "), tabular.Plain
}

func tries(to []store.Addressee) (most int) {
	for _, a := range to {
		most = max(most, a.Attempt)
	}
	return most
}

func bytesOf(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 999_500:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

type queueShowCommand struct {
	target
	JSON bool   `name:"json" help:"Print the message as JSON."`
	ID   string `arg:"" name:"id" help:"The id of the message, as weir queue list shows it."`
}

func (c *queueShowCommand) Validate() error {
	_, err := mailID(c.ID)
	return err
}

func (c *queueShowCommand) Run(t *terminal) error {
	id, _ := mailID(c.ID)
	return ask(t, c.target, c.JSON, console.QueueShowCall.With(console.MailName{ID: id}), t.showMail)
}

func (t *terminal) showMail(m *console.MailView) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t.out, "%-10s %s\n", name+":", printable(value))
		}
	}
	line("mail", m.ID.String())
	line("user", m.Message.User)
	line("sender", cmp.Or(m.Sender, "nobody (the null sender)"))
	line("subject", m.Subject)
	line("gate", m.Gate)
	if m.Source.IsValid() {
		line("from", m.Source.String())
	}
	line("received", moment(m.Received))
	line("size", bytesOf(m.Size))
	fmt.Fprintln(t.out)
	rows := table{heads: []string{"recipient", "state", "due", "tries", "said last"}}
	for _, a := range m.To {
		due := ""
		if a.State == store.Ready || a.State == store.Sending {
			due = moment(a.Due)
		}
		rows.row(text(a.Address), text(a.State.String()), text(due), number(a.Attempt), text(a.Status))
	}
	t.write(&rows)
	if m.More > 0 {
		fmt.Fprintf(t.out, "and %d more\n", m.More)
	}
	for _, part := range []string{m.Header, m.Text} {
		if part == "" {
			continue
		}
		fmt.Fprintln(t.out)
		for l := range strings.Lines(part) {
			io.WriteString(t.out, shown(strings.TrimRight(l, "\r\n"))+"\n")
		}
	}
}

// shown makes a header line safe for a terminal. Tabs stay: they are common and harmless.
func shown(line string) string {
	parts := strings.Split(line, "\t")
	for i, p := range parts {
		parts[i] = printable(p)
	}
	return strings.Join(parts, "\t")
}

func mailID(text string) (store.MailID, error) {
	id, err := store.ParseMailID(text)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not the id of a mail (weir queue list shows them)", text)
	}
	return id, nil
}

func (t *terminal) mail(m *console.MailStatus) {
	if m == nil {
		return
	}
	rows := table{heads: []string{"mail", "waiting", "ready", "sending", "delayed", "held", "withheld", "pooled",
		"accepted", "delivered", "deferred", "bounced"}}
	rows.row(text("recipients"), number(total(m.Recipients)), number(m.Recipients[store.Ready]),
		number(m.Recipients[store.Sending]),
		number(m.Recipients[store.Delayed]), number(m.Recipients[store.Held]), number(m.Recipients[store.Withheld]),
		number(m.Recipients[store.Pooled]), number(m.Accepted), number(m.Delivered), number(m.Deferred),
		number(m.Bounced))
	fmt.Fprintln(t.out)
	t.write(&rows)
	line := count(m.Messages, "message")
	if m.Messages > 0 && !m.Oldest.IsZero() {
		line += ", the oldest of " + moment(m.Oldest)
	}
	stopped := count(m.Stopped, "user") + " stopped"
	if m.Stopped > 0 {
		stopped = t.paint(tabular.Bad, stopped)
	}
	line += "; " + stopped
	if m.Flagged > 0 {
		line += ", " + t.paint(tabular.Bad, fmt.Sprintf("%d flagged", m.Flagged)) + " (weir reach list)"
	}
	fmt.Fprintln(t.out, line)
}

func total(of map[store.State]int) (n int) {
	for _, m := range of {
		n += m
	}
	return n
}
