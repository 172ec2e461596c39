package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"weir/internal/words"
	"weir/mail/notice"
	"weir/store"
)

// ErrSpent is returned for a command or a form that was used before.
var ErrSpent = errors.New("spool: this was done before")

// maxHelp is how many replies without a command to one notice are answered.
const maxHelp = 5

// An Action is what a user wants done with held messages.
type Action struct {
	Release, Delete       []store.MailID
	ReleaseAll, DeleteAll bool         // all that are held, except those above
	UpTo                  store.MailID // All: up to this message; 0: all there are
	Resume                bool
}

// contradicts reports whether an action would release and delete the same message.
func (a *Action) contradicts() bool {
	return a.ReleaseAll && a.DeleteAll ||
		slices.ContainsFunc(a.Release, func(id store.MailID) bool { return slices.Contains(a.Delete, id) })
}

// A Done is what an action has done.
type Done struct {
	Released, Deleted int // recipients
	Resumed           bool
	Refused           bool // not resumed, because an operator stopped the user
	Held              int  // recipients that still wait for a decision
	Stopped           bool // the user is still stopped, and may let themselves send again
	Flagged           bool // something was released, and the user is still flagged
}

// Command does what a user wrote to the command address of a gate: once for each notice, and only with the user's own
// messages. The registered contact gets an answer: what was done, or, a few times, why nothing was. A forged ticket and
// an automatic reply get none. nil means done and answered. Errors of package notice say that a ticket is forged or too
// old, or that a program wrote the message.
func (d *desk) Command(ctx context.Context, now time.Time, gate, ticket string, reply io.Reader) error {
	g := d.gates.Load().of(gate)
	if g == nil {
		return fmt.Errorf("%w: %q", ErrUnknown, gate)
	}
	nonce, err := d.opts.Signer.Read(notice.ForMail, ticket, time.Unix(0, 0)) // the store says whether it is too old
	if err != nil {
		return err
	}
	r, unclear := notice.ReadReply(reply)
	if errors.Is(unclear, notice.ErrAuto) {
		return unclear
	}
	c := &command{desk: d, now: now, gate: g, nonce: nonce, reply: r, unclear: unclear}
	if err := d.update(ctx, c.run); err != nil {
		return err
	}
	d.afterAction(ctx, now, c.done, c.results)
	return c.outcome
}

type command struct {
	desk  *desk
	now   time.Time
	gate  *Gate
	nonce string
	reply notice.Reply

	unclear error // what it says cannot be done
	user    store.User
	outcome error
	done    Done
	results []result
}

// run carries the command out and writes the answer, in one transaction. It may be run again.
func (c *command) run(tx store.MailTx) error {
	c.outcome, c.done, c.results = nil, Done{}, nil
	ticket, err := tx.Ticket(c.nonce)
	if err == nil {
		c.user, err = c.desk.userOf(tx, ticket.User)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		c.outcome = notice.ErrOld
		return nil
	case err != nil:
		return err
	case ticket.Used:
		c.outcome = ErrSpent
	case c.now.After(ticket.Until):
		c.outcome = notice.ErrOld
	case c.unclear != nil:
		c.outcome = c.unclear
	}
	if c.outcome != nil {
		return c.explain(tx, &ticket)
	}
	a, missing := numbered(&c.reply.Command, ticket.Messages)
	ticket.Used = true
	if err := tx.PutTicket(ticket); err != nil {
		return err
	}
	c.done, c.results, err = c.desk.actFor(tx, c.now, ticket.User+", by mail", &ticket, c.user.Made, a)
	if err != nil {
		return err
	}
	n := notice.Notice{CanResume: c.done.Stopped}
	if c.done.Held > 0 || c.done.Stopped { // this ticket is spent
		held, err := heldMail(tx, ticket.User, c.user.Made, store.MaxTicketMessages)
		if err != nil {
			return err
		}
		n.Recipients, n.List = waitingOf(held), lines(held)
		again := store.Ticket{User: ticket.User, Throttle: ticket.Throttle, Gate: ticket.Gate}
		if err := c.desk.ticket(tx, c.of(&ticket), &n, again, c.now, held); err != nil {
			return err
		}
	}
	return c.answer(tx, &ticket, n, func(l *words.Language) string { return c.done.text(l, missing) })
}

// of is the gate that the notice is about, if there still is one.
func (c *command) of(ticket *store.Ticket) *Gate {
	if known := c.desk.gates.Load().of(ticket.Gate); known != nil {
		return known
	}
	return c.gate
}

// numbered translates the numbers of a notice. All means all messages that were held when the notice was written.
func numbered(c *notice.Command, held []store.MailID) (a *Action, missing []int) {
	a = &Action{Resume: c.Resume}
	pick := func(numbers []int) (ids []store.MailID) {
		for _, n := range numbers {
			if n < 1 || n > len(held) {
				missing = append(missing, n)
				continue
			}
			ids = append(ids, held[n-1])
		}
		return ids
	}
	a.Release, a.Delete = pick(c.Release), pick(c.Delete)
	if c.ReleaseAll { // package notice has refused contradictions
		a.Release = held
	}
	if c.DeleteAll {
		a.Delete = held
	}
	return a, missing
}

// explain answers a message that changed nothing: a few times if it had no command, and once if it came too late.
func (c *command) explain(tx store.MailTx, ticket *store.Ticket) error {
	// Another ticket counts the answers: as ids of messages, which are never 0.
	const help, late = 0, 1
	count := store.Ticket{Nonce: c.nonce + ".answers", User: ticket.User, Until: ticket.Until, Used: true,
		Messages: []store.MailID{1, 1}}
	known, err := tx.Ticket(count.Nonce)
	if err == nil && len(known.Messages) == len(count.Messages) {
		count = known
	} else if err != nil && !isNotFound(err) {
		return err
	}
	which, most, text := help, store.MailID(maxHelp), words.Text("Your message has no command. Nothing was done.")
	var wrong *notice.CommandError
	switch {
	case errors.Is(c.outcome, ErrSpent):
		which, most, text = late, 1, "This notice was answered before. Nothing was done now."
	case errors.Is(c.outcome, notice.ErrOld):
		which, most, text = late, 1, "This notice is too old to be answered. Nothing was done."
	case errors.As(c.outcome, &wrong):
		text = "The commands in your message could not be carried out: {why}. Nothing was done."
	}
	if count.Messages[which] > most {
		c.desk.tell.Bounded(BoundHelp)
		return nil
	}
	count.Messages[which]++
	if err := tx.PutTicket(count); err != nil {
		return err
	}
	n := notice.Notice{}
	if which == help { // the ticket is still good: an answer to this answer is one to the notice
		n.ReplyTo = notice.Detail(c.of(ticket).Command, c.desk.opts.Signer.Sign(notice.ForMail, c.nonce, ticket.Until))
	}
	return c.answer(tx, ticket, n, func(l *words.Language) string {
		said := ""
		if wrong != nil {
			said = wrong.In(l)
		}
		if said = l.Say(text, "why", said); which == help {
			said += "\n\n" + l.Say("Write one of these in a line of its own, above everything else:") + "\n\n" +
				notice.Usage(l) + "\n\n" + l.Say("The numbers are those of the notice.")
		}
		return said
	})
}

// answer writes to the registered contact of the user, if there is one.
func (c *command) answer(tx store.MailTx, ticket *store.Ticket, n notice.Notice,
	text func(*words.Language) string) error {
	if c.user.Contact == "" {
		return nil
	}
	g := c.of(ticket)
	n.Kind, n.Host, n.Now, n.User, n.Language = notice.Answer, g.Host, c.now, ticket.User, g.speaks(&c.user)
	n.InReplyTo, n.Subject, n.Text = c.reply.MessageID, c.reply.Subject, text(n.Language)
	c.results = append(c.results, result{ready: true})
	return c.desk.write(tx, g, &n, c.user.Contact)
}

func (d *Done) text(l *words.Language, missing []int) string {
	var all []string
	if n := int64(d.Released); n > 0 {
		all = append(all, l.Count(n, "Mail was released for {n} recipient.", "Mail was released for {n} recipients."))
	}
	if n := int64(d.Deleted); n > 0 {
		all = append(all, l.Count(n, "Mail was deleted for {n} recipient.", "Mail was deleted for {n} recipients."))
	}
	if d.Resumed {
		all = append(all, l.Say("You can send mail again."))
	}
	if n := int64(d.Held); n > 0 {
		all = append(all, l.Count(n, "Mail to {n} recipient is still on hold, until you release it or delete it.",
			"Mail to {n} recipients is still on hold, until you release it or delete it."))
	}
	if d.Stopped {
		all = append(all, l.Say("Your account still cannot send mail: that is a command of its own."))
	}
	if d.Flagged {
		all = append(all, l.Say("New mail to people the account never wrote to before may still be held or refused."))
	}
	if d.Refused {
		all = append(all, l.Say("Those who run the mail server have stopped your account. Only they can let it send again."))
	}
	if len(missing) > 0 {
		numbers := strings.Trim(fmt.Sprint(missing[:min(len(missing), 20)]), "[]")
		all = append(all, l.Say("The notice has no number {numbers}.", "numbers", numbers))
	}
	if d.Released+d.Deleted == 0 && !d.Resumed && !d.Refused && len(missing) == 0 {
		all = slices.Insert(all, 0, l.Say("There was nothing left to do: what the notice lists has left already, or was deleted."))
	}
	return strings.Join(all, "\n")
}

// actFor does what the holder of a ticket wants with messages since the user was made: named ones first, then all.
func (d *desk) actFor(tx store.MailTx, now time.Time, by string, ticket *store.Ticket, since time.Time,
	a *Action) (done Done, results []result, err error) {
	do := func(which Selection, v verb) int {
		if err != nil || !which.All && len(which.Mails) == 0 {
			return 0
		}
		var n int
		var r []result
		which.since = since
		n, r, err = d.actIn(tx, now, by, ticket.User, which, v)
		results = append(results, r...)
		return n
	}
	done.Released = do(Selection{Mails: a.Release}, release)
	done.Deleted = do(Selection{Mails: a.Delete}, remove)
	done.Released += do(Selection{All: a.ReleaseAll, UpTo: a.UpTo}, release)
	done.Deleted += do(Selection{All: a.DeleteAll, UpTo: a.UpTo}, remove)
	done.Flagged = done.Released > 0 && d.reach.Flagged(ticket.Gate, ticket.User)
	g := d.gates.Load().throttle(ticket.Throttle)
	if err != nil || g == nil {
		return done, results, err
	}
	t, err := d.queue.openUser(tx, now, g, ticket.User)
	if err != nil {
		return done, results, err
	}
	own := t.mem.state.ByOperator() || t.user.Disabled
	switch _, stopped := t.mem.state.Stopped(); {
	case stopped && a.Resume && !own:
		done.Resumed = true
		err = t.resume(by, false)
	default:
		done.Refused, done.Stopped = stopped && a.Resume, stopped && !own && t.mem.stopped()
		err = t.end(news{})
	}
	if err != nil {
		return done, results, err
	}
	left, err := heldMail(tx, ticket.User, since, maxAct)
	for i := range left {
		done.Held += countOf(left[i].To, heldForGood)
	}
	return done, append(results, t.result), err
}

func (d *desk) afterAction(ctx context.Context, now time.Time, done Done, results []result) {
	d.acted(ctx, now, remove, done.Deleted, nil)
	d.acted(ctx, now, release, done.Released, results)
}

// maxPage is how many messages a page shows.
const maxPage = 500

// A PageView is what the holder of a link sees.
type PageView struct {
	User       string
	Stopped    bool
	Since      time.Time
	ByOperator bool      // the user cannot resume
	Waiting    int       // recipients
	Limit      int       // how many may wait
	Resume     time.Time // when the user is tried again
	Held       []store.Queued
	More       bool         // there is more than is shown
	Last       store.MailID // the latest that is shown: All on this page goes up to it
	Until      time.Time    // until when the link is good

	Elsewhere notice.Elsewhere // what became of messages that were too much
}

// Page returns what a user sees behind the link of a notice, or notice.ErrForged or notice.ErrOld.
func (d *desk) Page(ctx context.Context, now time.Time, ticket string) (PageView, error) {
	return d.pageFor(ctx, now, notice.ForPage, ticket)
}

func (d *desk) pageFor(ctx context.Context, now time.Time, purpose, ticket string) (PageView, error) {
	nonce, err := d.opts.Signer.Read(purpose, ticket, now)
	if err != nil {
		return PageView{}, err
	}
	return read(ctx, d.env, func(tx store.MailTx) (v PageView, err error) {
		t, user, err := d.goodTicket(tx, nonce, now)
		if err != nil {
			return v, err
		}
		held, err := heldMail(tx, t.User, user.Made, maxPage+1)
		if err != nil {
			return v, err
		}
		v = PageView{User: t.User, Until: t.Until, More: len(held) > maxPage}
		held = held[:min(len(held), maxPage)]
		n := waitingOf(held)
		v.Held, v.Waiting = held, n.All()
		if len(held) > 0 {
			v.Last = held[len(held)-1].ID
		}
		if of := d.gates.Load().of(t.Gate); of != nil {
			v.Elsewhere = of.Elsewhere
		}
		g := d.gates.Load().throttle(t.Throttle)
		if g == nil {
			return v, nil
		}
		stand, err := d.queue.peekUser(tx, now, g, t.User)
		if err != nil {
			return PageView{}, err
		}
		if stand.mem.stopped() {
			v.Since, v.Stopped = stand.mem.state.Stopped()
			v.ByOperator = stand.mem.state.ByOperator()
			v.Resume = stand.mem.state.Due(&stand.params)
		}
		v.Limit = stand.params.Stop
		return v, nil
	})
}

// goodTicket returns a ticket that is still good, and its user. A command by mail does not end it for the page.
func (d *desk) goodTicket(tx store.MailTx, nonce string, now time.Time) (t store.Ticket, user store.User, err error) {
	if t, err = tx.Ticket(nonce); err == nil {
		user, err = d.userOf(tx, t.User)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && (now.After(t.Until) || overtaken(&t, &user)) {
		err = notice.ErrOld
	}
	return t, user, err
}

const maxForm = 64

// Act does what a user wants on the page behind a ticket, only with the user's own messages. form names the form, which
// is good once: the second time it returns ErrSpent. The page has to make sure that the form is its own.
func (d *desk) Act(ctx context.Context, now time.Time, ticket, form string, a Action) (done Done, err error) {
	nonce, err := d.opts.Signer.Read(notice.ForPage, ticket, now)
	if err != nil {
		return Done{}, err
	}
	if form == "" || len(form) > maxForm {
		return Done{}, notice.ErrForged
	}
	if a.contradicts() {
		return Done{}, fmt.Errorf("%w: it contradicts itself", notice.ErrNothing)
	}
	var results []result
	err = d.update(ctx, func(tx store.MailTx) error {
		done, results = Done{}, nil
		t, user, err := d.goodTicket(tx, nonce, now)
		if err != nil {
			return err
		}
		sent := store.Ticket{Nonce: "form." + nonce + "." + form, User: t.User, Until: t.Until, Used: true}
		switch _, err := tx.Ticket(sent.Nonce); {
		case err == nil:
			return ErrSpent
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		if err := tx.PutTicket(sent); err != nil {
			return err
		}
		done, results, err = d.actFor(tx, now, t.User+", on the page", &t, user.Made, &a)
		return err
	})
	if err != nil {
		return Done{}, err
	}
	d.afterAction(ctx, now, done, results)
	return done, nil
}
