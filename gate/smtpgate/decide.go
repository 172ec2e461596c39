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
)

// decide decides about a message whose text is over. err says why it broke off, or is nil.
func (a *arrival) decide(err error) (receipt spool.Receipt, n *no) {
	if n := a.wrong(err); n != nil {
		return receipt, n
	}
	if a.tx.command {
		return receipt, a.run()
	}
	if n := a.pay(); n != nil {
		return receipt, n
	}
	if n := a.judgeMail(); n != nil && !(n.reply.code < 500 && a.isHeld()) {
		return receipt, n
	}
	if receipt, err = a.gate.env.Spool.Accept(a.gate.Base, a.now(), a.envelope(), a.staged); err != nil {
		return receipt, notTaken(err, &a.tx.who)
	}
	now := a.now()
	if a.tx.pass != nil {
		a.tx.pass.Flow(a.text.size, now) // bytes over the limit make the next message wait
	}
	a.tx.settle(now, true)
	return receipt, nil
}

// wrong returns what is wrong with the text, or nil.
func (a *arrival) wrong(err error) *no {
	switch n := a.text.no; {
	case n != nil && n.reply == nil:
		return notTaken(n.cause, &a.tx.who)
	case n != nil:
		return n
	case err != nil:
		return refuse(MailAborted, 451, 442, "the mail broke off")
	}
	return nil
}

// run carries out a command.
func (a *arrival) run() *no {
	if a.tx.sender.local == "" { // a bounce, which may quote a command
		return refuse(MailStranger, 550, 571, "commands must be written by people")
	}
	err := a.gate.env.Commands(a.gate.Base, a.now(), a.tx.ticket, bytes.NewReader(a.spare.Bytes()))
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
	return notTaken(err, &a.tx.who)
}

// judgeMail puts the message before the chain, unless all recipients are exempt.
func (a *arrival) judgeMail() *no {
	counted := a.tx.recipients(func(r *recipient) bool { return !r.free })
	if len(counted) == 0 {
		return nil
	}
	ev := a.event(a.tx, counted)
	ev.ID, ev.Bytes = a.id.String(), a.text.size
	after, pass, n := a.judge(a.setup.parts.Throttles, &ev, "messages")
	if n != nil {
		return n
	}
	a.tx.pass = pass
	for i := range a.tx.to {
		if r := &a.tx.to[i]; !r.free && after.After(r.After) {
			r.After = after
		}
	}
	return nil
}

// isHeld reports whether the spool holds a message anyway: another server has taken it, and its user has been stopped
// since. If it were refused, that server would send it again when the user may send.
func (a *arrival) isHeld() bool {
	env := &a.gate.env
	return a.marked(a.tx) && env.Spool.Stopped(env.Name, a.tx.who.name)
}

// pay verifies the stamps of the message. They are spent when the spool takes it.
func (a *arrival) pay() *no {
	o, stamps := a.setup.opts.Stamps, a.setup.parts.Stamps
	if stamps == nil {
		return nil
	}
	load := a.gate.load().Share
	good := map[string]spool.Stamp{}
	if len(a.stamps) > 0 {
		normal := a.tx.recipients(func(*recipient) bool { return true })
		got, forged := stamps.Verify(a.gate.Base, a.now(), load, a.stamps, a.digest.ID(), normal)
		for i := range min(len(got), len(normal)) {
			good[normal[i]] = got[i]
		}
		if forged && o.OnInvalid == FateRefuse {
			if a.head.received == 0 { // else whoever wrote a message that is passed on may have put it in
				ev := a.event(a.tx, normal)
				a.gate.env.Offend(&ev, &weir.Answer{Verdict: weir.Refuse, Reason: weir.Forged, Ban: true})
			}
			return refuse(MailStamp, 550, 571, "a stamp is not genuine, or wrongly solved")
		}
	}
	for i := range a.tx.to {
		r := &a.tx.to[i]
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
func (a *arrival) envelope() *spool.Envelope {
	e := &spool.Envelope{ID: a.id, Gate: a.gate.env.Name, User: a.tx.who.name, Sender: a.tx.sender.String(),
		Subject: a.head.subject, MessageID: a.head.id, Origin: a.head.origin, Source: a.conn.source, UTF8: a.tx.utf8,
		EightBit: a.tx.eightBit || a.text.eightBit,
		Return:   a.tx.ret, Envelope: a.tx.envelope, To: make([]spool.To, len(a.tx.to)), Diverted: a.marked(a.tx)}
	for i := range a.tx.to {
		e.To[i] = a.tx.to[i].To
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
func (a *arrival) recognize(text []byte) ([]byte, *no) {
	mark, rest := readMark(text)
	if mark == "" {
		return nil, refuse(MailStranger, 451, 471, "there is no mark that tells whose mail this is")
	}
	name, _, err := identify.ReadMark(mark, a.now(), a.gate.env.Marks()...)
	if err != nil {
		return nil, &no{how: MailStranger, reply: reply(451, 471, "the mark does not tell whose mail this is"),
			cause: err}
	}
	env := &a.gate.env
	user, err := env.Spool.Account(context.WithoutCancel(a.gate.Base), name)
	if err != nil {
		return nil, &no{how: MailFailed, reply: reply(451, 430, "the user cannot be looked up, try again later"),
			cause: err}
	}
	a.tx.who = identity{name: name, user: user, asked: a.now()}
	for i := range a.tx.to {
		r := &a.tx.to[i]
		r.free = env.Spool.Free(env.Name, &a.tx.who.user, r.normal)
	}
	return rest, nil
}
