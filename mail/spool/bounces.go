package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"weir/mail/bounce"
	"weir/mail/nexthop"
	"weir/store"
)

// An ownLetter is a mail that weir writes itself: it has no sender, and a failure is not reported.
type ownLetter struct {
	letter store.Letter
	to     store.Addressee
	text   store.Text
	staged store.Staged // nil where the text is in memory
}

func (e *env) own(now time.Time, gate, user, subject, to string) *ownLetter {
	id := e.NewID(now)
	return &ownLetter{
		letter: store.Letter{ID: id, Gate: gate, User: user, Subject: cut(subject, store.MaxSubject), Received: now,
			Own: true},
		to: store.Addressee{Mail: id, Address: to, Notify: "NEVER", State: store.Ready, Due: now, Since: now},
	}
}

// bounces writes what the sender of a mail is told, or another address (see bounceTo). A mail without a sender is never
// answered (RFC 5321 section 6.1): it is held where no server was given it, and the audit log notes it.
func (d *delivery) bounces(conf *Gate, j *job, end *ending, now time.Time) (all []*ownLetter, err error) {
	type report struct {
		kind bounce.Kind
		to   []bounce.Recipient
	}
	reports := slices.DeleteFunc([]report{{bounce.Failure, end.failed}, {bounce.Delay, end.delayed},
		{bounce.Relayed, end.relayed}},
		func(r report) bool { return len(r.to) == 0 })
	if len(reports) == 0 {
		return nil, nil
	}
	if j.letter.Sender == "" {
		end.keep(&j.letter, "it has no sender", now)
		if n := len(end.failed); n > 0 {
			first := &end.failed[0]
			end.entries = append(end.entries, entry(now, weirItself, "not told", j.letter.User, j.letter.ID,
				fmt.Sprintf("%d not delivered, %s among them: %s %s; nobody is told, as it has no sender",
					n, first.Address, first.Status, toText(first.Text))))
		}
		return nil, nil
	}
	if j.tells == nil { // once, however often it has to be tried
		if j.tells, err = d.bounceTo(conf, &j.letter, len(reports), len(end.narrow) > 0, now); err != nil {
			return nil, err
		}
	}
	if j.tells.mute {
		if end.keep(&j.letter, j.letter.Sender+" needs it too", now); len(end.failed) > 0 {
			j.tells.reason = j.letter.Sender + " needs SMTPUTF8, which the next hop does not know"
		}
	}
	if j.tells.reason != "" {
		end.entries = append(end.entries,
			entry(now, weirItself, "not told", j.letter.User, j.letter.ID, j.tells.reason))
	}
	if j.tells.to == "" {
		return nil, nil
	}
	for _, r := range reports {
		text, err := d.store.Open(context.Background(), j.letter.ID)
		if errors.Is(err, store.ErrNotFound) { // the mail was removed meanwhile
			return all, nil
		}
		if err != nil {
			return all, err
		}
		o := d.own(now, j.letter.Gate, j.letter.User, "Delivery status of "+j.letter.ID.String(), j.tells.to)
		o.staged = d.store.Stage()
		all = append(all, o)
		err = d.bounce(conf, j, o, r.kind, r.to, text, now)
		text.Close()
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// bounce writes one of them. The text is returned, where it was asked for, only with what has failed.
func (d *delivery) bounce(conf *Gate, j *job, o *ownLetter, kind bounce.Kind, to []bounce.Recipient, text io.Reader,
	now time.Time) error {
	l := &j.letter
	returned := l.Return
	// A server without 8BITMIME would not take the mail in the notification either.
	seven := slices.ContainsFunc(to, func(r bounce.Recipient) bool {
		return r.Code == 0 &&
			r.Status == nexthop.StatusEightBit
	})
	if kind != bounce.Failure || !j.tells.full || seven {
		returned = "HDRS"
	}
	err := bounce.Write(o.staged, &bounce.Report{Kind: kind, From: conf.Postmaster, Host: conf.Host, To: j.tells.to,
		ID:        l.ID.String(),
		MessageID: o.letter.ID.String() + "@" + conf.Host, Now: now, Arrived: l.Received,
		Until:    j.to[0].Since.Add(conf.GiveUp),
		Envelope: l.Envelope, Return: returned, UTF8: l.UTF8, Recipients: to, Original: text, Size: l.Size})
	if err != nil {
		return err
	}
	o.letter.UTF8 = !ascii(j.tells.to)
	o.letter.EightBit = l.EightBit || o.letter.UTF8
	o.staged.Note(&o.letter, []store.Addressee{o.to})
	if o.text, err = o.staged.Seal(); err != nil {
		return err
	}
	o.letter.Size, o.letter.Filed = o.text.Size, o.text.File
	return nil
}
