package smtpgate

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"weir"
	"weir/identify"
	"weir/mail/notice"
	"weir/mail/spool"
	"weir/store"
)

// decide decides about a message whose text is over. err says why it broke off, or is nil.
func (d *delivery) decide(err error) (receipt spool.Receipt, n *no) {
	if n := d.wrong(err); n != nil {
		return receipt, n
	}
	if d.tx.command {
		return receipt, d.run()
	}
	if n := d.pay(); n != nil {
		return receipt, n
	}
	if n := d.judgeMail(); n != nil && !(n.reply.code < 500 && d.isHeld()) {
		return receipt, n
	}
	if receipt, err = d.gate.env.Spool.Accept(d.gate.Base, d.now(), d.envelope(), d.staged); err != nil {
		return receipt, notTaken(err, &d.tx.who)
	}
	now := d.now()
	if d.tx.pass != nil {
		d.tx.pass.Flow(d.text.size, now) // bytes over the limit make the next message wait
	}
	d.tx.settle(now, true)
	return receipt, nil
}

// wrong returns what is wrong with the text, or nil.
func (d *delivery) wrong(err error) *no {
	switch n := d.text.no; {
	case n != nil && n.reply == nil:
		return notTaken(n.cause, &d.tx.who)
	case n != nil:
		return n
	case err != nil:
		return refuse(MailAborted, 451, 442, "the mail broke off")
	}
	return nil
}

// run carries out a command.
func (d *delivery) run() *no {
	if d.tx.sender.local == "" { // a bounce, which may quote a command
		return refuse(MailStranger, 550, 571, "commands must be written by people")
	}
	err := d.gate.env.Commands(d.gate.Base, d.now(), d.tx.ticket, bytes.NewReader(d.spare.Bytes()))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, notice.ErrForged): // tickets cannot be guessed, so that this is not limited like passwords
		return refuse(MailStranger, 550, 571, "the command is not genuine")
	case errors.Is(err, notice.ErrOld), errors.Is(err, spool.ErrSpent):
		return refuse(MailStranger, 550, 571, "the command is out of date, or was used before")
	case errors.Is(err, notice.ErrAuto):
		return refuse(MailStranger, 550, 571, "commands must be written by people")
	case errors.Is(err, notice.ErrNothing):
		return refuse(MailStranger, 550, 560, "the message has no command")
	}
	return notTaken(err, &d.tx.who)
}

// judgeMail puts the message before the chain, unless all recipients are exempt.
func (d *delivery) judgeMail() *no {
	counted := d.tx.recipients(func(r *recipient) bool { return !r.free })
	if len(counted) == 0 {
		return nil
	}
	ev := d.event(d.tx, counted)
	ev.ID, ev.Bytes = d.id.String(), d.text.size
	after, pass, n := d.judge(d.setup.parts.Throttles, &ev, "messages")
	if n != nil {
		return n
	}
	d.tx.pass = pass
	for i := range d.tx.to {
		if r := &d.tx.to[i]; !r.free && after.After(r.After) {
			r.After = after
		}
	}
	return nil
}

// isHeld reports whether the spool holds a message anyway: another server has taken it, and its user has been stopped
// since. If it were refused, that server would send it again when the user may send.
func (d *delivery) isHeld() bool {
	env := &d.gate.env
	return d.marked(d.tx) && env.Spool.Stopped(env.Name, d.tx.who.name)
}

// pay verifies the stamps of the message. They are spent when the spool takes it.
func (d *delivery) pay() *no {
	o, stamps := d.setup.opts.Stamps, d.setup.parts.Stamps
	if stamps == nil {
		return nil
	}
	load := d.gate.load().Share
	good := map[string]spool.Stamp{}
	if len(d.stamps) > 0 {
		normal := d.tx.recipients(func(*recipient) bool { return true })
		got, forged := stamps.Verify(d.gate.Base, d.now(), load, d.stamps, d.digest.ID(), normal)
		for i := range min(len(got), len(normal)) {
			good[normal[i]] = got[i]
		}
		if forged && o.OnInvalid == FateRefuse {
			if d.head.received == 0 { // else whoever wrote a message that is passed on may have put it in
				ev := d.event(d.tx, normal)
				d.gate.env.Offend(&ev, &weir.Answer{Verdict: weir.Refuse, Reason: weir.Forged, Ban: true})
			}
			return refuse(MailStamp, 550, 571, "a stamp is not genuine, or wrongly solved")
		}
	}
	for i := range d.tx.to {
		r := &d.tx.to[i]
		r.Stamp = good[r.normal]
		if r.free {
			continue
		}
		if o.Required && r.Stamp == (spool.Stamp{}) {
			return unpaid()
		}
		r.Required, r.Pooled = o.Required, load >= o.FromLoad
	}
	return nil
}

func unpaid() *no {
	return refuse(MailStamp, 550, 571,
		"a stamp is required for each recipient: the answer to EHLO says how to make one")
}

// envelope is what the spool is given.
func (d *delivery) envelope() *spool.Envelope {
	e := &spool.Envelope{ID: d.id, Gate: d.gate.env.Name, User: d.tx.who.name, Sender: d.tx.sender.String(),
		Subject: d.head.subject, MessageID: d.head.id, Origin: d.head.origin, Source: d.conn.source, UTF8: d.tx.utf8,
		EightBit: d.tx.eightBit || d.text.eightBit,
		Return:   d.tx.ret, Envelope: d.tx.envelope, To: make([]spool.To, len(d.tx.to)), Diverted: d.marked(d.tx)}
	for i := range d.tx.to {
		e.To[i] = d.tx.to[i].To
	}
	return e
}

// marked reports whether the user of a message is known by a mark alone: another server, where the user logged in, has
// diverted it.
func (s *session) marked(tx *transaction) bool {
	return s.setup.opts.Marks && tx.who.name != "" && !tx.who.authenticated
}

// readMark returns the mark in the first field, and the header without marks. The user may have written those further
// down.
func readMark(text []byte) (mark string, rest []byte) {
	rest = make([]byte, 0, len(text))
	for at := 0; at < len(text); {
		end := fieldEnd(text, at)
		field := text[at:end]
		if !fold(fieldName(field), strings.ToLower(identify.MarkHeader)) {
			rest = append(rest, field...)
		} else if at == 0 {
			_, value, _ := bytes.Cut(field, []byte(":"))
			mark = string(bytes.TrimSpace(value))
		}
		at = end
	}
	return mark, rest
}

// recognize reads from the mark who sends the message. Without a valid mark the answer is temporary, and the other
// server keeps the message.
func (d *delivery) recognize(text []byte) ([]byte, *no) {
	mark, rest := readMark(text)
	if mark == "" {
		return nil, refuse(MailStranger, 451, 471, "there is no mark that tells whose mail this is")
	}
	name, _, err := identify.ReadMark(mark, d.now(), d.gate.env.Marks()...)
	if err != nil {
		return nil, &no{how: MailStranger, reply: reply(451, 471, "the mark does not tell whose mail this is"),
			cause: err}
	}
	env := &d.gate.env
	user, err := env.Spool.User(context.WithoutCancel(d.gate.Base), name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		user = store.User{Name: name}
	case err != nil:
		return nil, &no{how: MailFailed, reply: reply(451, 430, "the user cannot be looked up, try again later"),
			cause: err}
	}
	d.tx.who = identity{name: name, user: user, asked: d.now()}
	for i := range d.tx.to {
		r := &d.tx.to[i]
		r.free = env.Spool.Free(env.Name, &d.tx.who.user, r.normal)
	}
	return rest, nil
}
