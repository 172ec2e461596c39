package spool

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"weir/internal/shown"
	"weir/internal/words"
	"weir/mail/notice"
	"weir/store"
)

// reviewEvery is how often a user is told of messages that are held for review.
const reviewEvery = time.Hour

// news are what a user may be told at the end of a userTx.
type news struct {
	delayed bool   // a recipient of this message waits
	review  bool   // this message is held for review
	moved   bool   // the user has another contact
	by, why string // who stopped the user, and why; empty: the throttle
}

// inform tells the user, and on a stop the admin, within the transaction.
func (t *userTx) inform(n news) error {
	quiet := t.now.Sub(t.mem.told)
	switch {
	case t.stopped:
		why := n.why
		if t.mem.suspended {
			why = "disabled"
		}
		if err := t.note(cmp.Or(n.by, weirItself), "stopped", why); err != nil {
			return err
		}
		if t.mem.suspended { // the admin did it, and a disabled user cannot answer
			return nil
		}
		t.mem.told, t.untold = t.now, t.user.Contact == ""
		if t.mem.state.ByOperator() {
			return t.tell(notice.Barred, t.gate.Admin, cmp.Or(n.why, "stopped by "+n.by))
		}
		return t.tell(notice.Stopped, t.gate.Admin, "")
	case n.moved && t.mem.stopped() && !t.mem.suspended: // the ticket in the last notice is void
		kind := notice.Stopped
		if t.mem.state.ByOperator() {
			kind = notice.Barred
		}
		return t.tell(kind, "", "")
	case t.shadow || t.was || t.user.Contact == "":
		return nil
	case n.review && quiet >= min(reviewEvery, t.gate.NoticeEvery):
		t.mem.told = t.now
		return t.tell(notice.Review, "", "")
	case n.delayed && quiet >= t.gate.NoticeEvery && t.lasts() >= t.gate.TellAfter:
		t.mem.told = t.now
		return t.tell(notice.Delayed, "", "")
	}
	return nil
}

// lasts is about how long the last one in the delay queue waits.
func (t *userTx) lasts() time.Duration {
	return time.Duration(len(t.mem.state.Waiting())) * t.params.Every
}

// tell writes to the user, where there is an address, and to the admin that the user is stopped.
func (t *userTx) tell(kind notice.Kind, admin, why string) error {
	written, err := t.queue.notify(t.tx, t.now, t.gate, &t.user, notification{kind: kind, adminKind: notice.Admin,
		user: true, admin: admin, Notice: notice.Notice{Text: why, Limit: t.params.Stop,
			Resume: t.mem.state.Due(&t.params)}})
	t.ready = t.ready || written
	return err
}

// A notification is what a user and an admin are told.
type notification struct {
	notice.Notice   // what is special about it
	kind, adminKind notice.Kind
	user            bool   // the user is told, where there is an address
	admin           string // the address of the admin; empty: none
}

// notify writes to a user and to an admin, and reports whether it wrote anything.
func (e *env) notify(tx store.MailTx, now time.Time, g *Gate, user *store.User, m notification) (bool, error) {
	m.user = m.user && user.Contact != ""
	if !m.user && m.admin == "" {
		return false, nil
	}
	held, err := heldMail(tx, user.Name, user.Made, store.MaxTicketMessages)
	if err != nil {
		return false, err
	}
	n := m.Notice
	n.Kind, n.Host, n.Now, n.User, n.Expire, n.Elsewhere = m.kind, g.Host, now, user.Name, g.HeldFor, g.Elsewhere
	n.Recipients, n.List, n.Untold, n.Unknown = waitingOf(held), lines(held), !m.user, user.Made.IsZero()
	n.Password = user.Password != ""
	if m.user {
		told := n
		told.Language = g.speaks(user)
		if told.CanResume = m.kind == notice.Stopped; !told.CanResume { // else it is not stored yet
			if told.CanResume, err = mayResume(tx, g, user); err != nil {
				return false, err
			}
		}
		ticket := store.Ticket{User: user.Name, Throttle: g.Throttle, Gate: g.Name}
		if err := e.ticket(tx, g, &told, ticket, now, held); err != nil {
			return false, err
		}
		if err := e.write(tx, g, &told, user.Contact); err != nil {
			return false, err
		}
	}
	if m.admin == "" {
		return true, nil
	}
	n.Kind = m.adminKind
	return true, e.write(tx, g, &n, m.admin)
}

// speaks is the language that a user reads.
func (g *Gate) speaks(user *store.User) *words.Language {
	if l := words.Find(user.Language); l != nil {
		return l
	}
	return g.Language
}

// mayResume reports whether the throttle of a gate has stopped a user, who may let themselves send again.
func mayResume(tx store.MailTx, g *Gate, user *store.User) (bool, error) {
	kept, err := tx.Remembered(g.Throttle, user.Name)
	var m memory
	if err != nil || user.Disabled || m.read(kept.State) != nil {
		if isNotFound(err) {
			err = nil
		}
		return false, err
	}
	return m.stopped() && !m.state.ByOperator(), nil
}

// ticket adds to a notice what the user can act with: a new ticket.
func (e *env) ticket(tx store.MailTx, g *Gate, n *notice.Notice, ticket store.Ticket, now time.Time,
	held []store.Queued) error {
	ticket.Nonce, ticket.Until = notice.NewNonce(), now.Add(g.TicketsFor)
	for i := range held {
		ticket.Messages = append(ticket.Messages, held[i].ID)
	}
	n.Until = ticket.Until
	if g.Command != "" {
		n.ReplyTo = notice.Detail(g.Command, e.opts.Signer.Sign(notice.ForMail, ticket.Nonce, ticket.Until))
	}
	if g.PageURL != nil {
		n.Link = g.PageURL(e.opts.Signer.Sign(notice.ForPage, ticket.Nonce, ticket.Until))
	}
	return tx.PutTicket(ticket)
}

// write puts a notice into the store, to be delivered like any message. It is short enough to need no file.
func (e *env) write(tx store.MailTx, g *Gate, n *notice.Notice, to string) error {
	o := e.own(n.Now, g.Name, n.User, n.Heading(), to)
	n.From, n.To, n.MessageID = cmp.Or(g.Command, g.Postmaster), to, o.message.ID.String()+"@"+g.Host
	all := n.List
	for show := min(len(all), notice.MaxLines); ; show /= 2 {
		n.List, n.More = all[:show], len(all)-show
		var b bytes.Buffer
		if err := notice.Write(&b, n); err != nil {
			// An invalid contact must not be the reason to refuse a message.
			e.log.Error("a notice cannot be written", "user", n.User, "to", to, "error", err)
			return nil
		}
		if b.Len() <= store.MaxInline || show == 0 {
			o.text = store.Text{Inline: b.Bytes(), Size: int64(b.Len())}
			o.message.Size = o.text.Size
			break
		}
	}
	o.message.EightBit, o.message.UTF8 = !shown.ASCII(o.text.Inline), !shown.ASCII(to)
	return tx.PutMessage(o.message, o.text, []store.Addressee{o.to})
}

// heldMail returns the held, withheld or delayed messages of a user, the oldest first. Messages of weir itself are left
// out, and so are those from before since: a former user of the same name sent them.
func heldMail(tx store.MailTx, user string, since time.Time, limit int) (all []store.Queued, err error) {
	for _, state := range []store.State{store.Held, store.Delayed, store.Withheld} {
		found, err := tx.Messages(store.MessageQuery{User: user, State: state}, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b store.Queued) int { return cmp.Compare(a.ID, b.ID) })
	all = slices.CompactFunc(all, func(a, b store.Queued) bool { return a.ID == b.ID })
	all = slices.DeleteFunc(all, func(q store.Queued) bool { return q.Own || q.Received.Before(since) })
	return all[:min(len(all), limit)], nil
}

// Waits reports whether an addressee is held, withheld or delayed.
func Waits(a *store.Addressee) bool {
	return a.State == store.Held || a.State == store.Delayed || a.State == store.Withheld
}

// waitingOf counts the recipients that wait, by why they do.
func waitingOf(all []store.Queued) (n notice.Recipients) {
	for _, l := range lines(all) {
		n.Delayed, n.Held, n.New = n.Delayed+len(l.Delayed), n.Held+len(l.Held), n.New+len(l.New)
	}
	return n
}

// lines are messages as notices show them.
func lines(all []store.Queued) []notice.Line {
	list := make([]notice.Line, len(all))
	for i := range all {
		q := &all[i]
		list[i] = notice.Line{ID: q.ID, At: q.Received, Subject: q.Subject, Size: q.Size}
		for k := range q.To {
			switch a := &q.To[k]; a.State {
			case store.Delayed:
				list[i].Delayed = append(list[i].Delayed, a.Address)
			case store.Held:
				list[i].Held = append(list[i].Held, a.Address)
			case store.Withheld:
				list[i].New = append(list[i].New, a.Address)
			}
		}
	}
	return list
}
