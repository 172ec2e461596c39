package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"weir"
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

type mailFlags struct {
	target
	JSON bool     `name:"json" help:"Print what was done as JSON."`
	IDs  []string `arg:"" optional:"" name:"id" help:"The ids of the messages, as weir queue list shows them."`
}

func (c *mailFlags) Validate() error {
	for _, text := range c.IDs {
		if _, err := mailID(text); err != nil {
			return err
		}
	}
	return nil
}

func (c *mailFlags) ids() (ids []store.MailID) {
	for _, text := range c.IDs {
		if id, _ := mailID(text); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

type allFlags struct {
	mailFlags
	filterFlags
	All    bool `help:"All messages that match what is given. Only recipients that match are acted on."`
	DryRun bool `help:"With --all: show how many messages match, and change nothing."`
}

// check checks the flags of an act that needs a filter, or not.
func (c *allFlags) check(needs bool) error {
	given := c.filterFlags != filterFlags{}
	switch {
	case c.All == (len(c.IDs) > 0) || given && !c.All:
		return errors.New("name messages by their ids, or write --all with --user NAME, --sender TEXT or another filter")
	case c.All && needs && !given:
		return errors.New("which messages? (write --all with --user NAME, --sender TEXT, --state held or another filter)")
	case c.DryRun && !c.All:
		return errors.New("--dry-run goes with --all")
	}
	return cmp.Or(c.filterFlags.Validate(), c.mailFlags.Validate())
}

func (c *allFlags) Validate() error { return c.check(true) }

// act acts on messages by their ids, or on all that match.
func (c *allFlags) act(t *terminal, act, done string,
	call *console.CallOf[console.MailOrder, console.MailResult]) error {
	if !c.All {
		return c.run(t, done, call)
	}
	o := console.BulkOrder{Act: act, MailFilter: c.filter()}
	if o.Dry = c.DryRun; o.Dry {
		done = "would be " + done
	}
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (console.BulkResult, error) {
		progress := func(so console.BulkResult) { fmt.Fprintf(t.err, "%s so far: %s\n", done, count(so.Mails, "message")) }
		if !term.IsTerminal(int(os.Stderr.Fd())) {
			progress = nil
		}
		return client.Bulk(ctx, o, progress)
	}, func(r *console.BulkResult) {
		fmt.Fprintf(t.out, "%s: %s to %s\n", done, count(r.Mails, "message"), count(r.Recipients, "recipient"))
	})
}

type queueReleaseCommand struct{ allFlags }

func (c *queueReleaseCommand) Run(t *terminal) error {
	return c.act(t, "release", "released", console.QueueReleaseCall)
}

type queueDeleteCommand struct {
	allFlags
	Yes bool `short:"y" help:"Do not ask for confirmation."`
}

func (c *queueDeleteCommand) Run(t *terminal) error {
	if !c.Yes && !c.DryRun {
		what := count(len(c.ids()), "message")
		if c.All {
			what = "all held and delayed mail that matches" // --dry-run says how much that is
		}
		if err := t.confirm("delete " + what + "? It cannot be brought back."); err != nil {
			return err
		}
	}
	return c.act(t, "delete", "deleted", console.QueueDeleteCall)
}

type queueRetryCommand struct{ allFlags }

func (c *queueRetryCommand) Validate() error {
	if len(c.IDs) == 0 && !c.All {
		return errors.New("which mail? weir queue list shows them; --all tries everything that waits for another try")
	}
	return c.check(false)
}

func (c *queueRetryCommand) Run(t *terminal) error {
	return c.act(t, "retry", "to be tried now", console.QueueRetryCall)
}

// run gives an order and prints what was done. Messages that are missing are listed, and make the command fail.
func (c *mailFlags) run(t *terminal, done string, call *console.CallOf[console.MailOrder, console.MailResult]) error {
	var missing []store.MailID
	err := ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (console.MailResult, error) {
		r, err := client.Order(ctx, call, console.MailOrder{Mails: c.ids()})
		missing = r.Missing
		return r, err
	}, func(r *console.MailResult) {
		fmt.Fprintf(t.out, "%s: %s to %s\n", done, count(r.Mails, "message"), count(r.Recipients, "recipient"))
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	for _, id := range missing {
		fmt.Fprintf(t.err, "weir: %s is not in the queue, or there is nothing of it to which this could be done\n", id)
	}
	return errTold
}
