package spool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"weir/internal/shown"
	"weir/mail/bounce"
	"weir/mail/nexthop"
	"weir/store"
)

// An ownMessage is one that weir writes itself. It has no sender, and a failure is not reported.
type ownMessage struct {
	message store.Letter
	to      store.Addressee
	text    store.Text
	staged  store.Staged // nil if the text is in memory
}

func (e *env) own(now time.Time, gate, user, subject, to string) *ownMessage {
	id := e.NewID(now)
	return &ownMessage{
		message: store.Letter{ID: id, Gate: gate, User: user, Subject: cut(subject, store.MaxSubject), Received: now,
			Own: true},
		to: store.Addressee{Mail: id, Address: to, Notify: "NEVER", State: store.Ready, Due: now, Since: now},
	}
}

// bounces writes the bounces to the sender of a message, or to another address (see bounceTo). A message without a
// sender is never answered (RFC 5321 section 6.1): it is held if no server could take it, and is in the audit log.
func (d *delivery) bounces(j *job, end *ending, now time.Time) (all []*ownMessage, err error) {
	type report struct {
		kind bounce.Kind
		to   []bounce.Recipient
	}
	reports := slices.DeleteFunc([]report{{bounce.Failure, end.failed}, {bounce.Delay, end.delayed},
		{bounce.Relayed, end.relayed}}, func(r report) bool { return len(r.to) == 0 })
	if len(reports) == 0 {
		return nil, nil
	}
	if j.message.Sender == "" {
		end.keep(&j.message, "it has no sender", now)
		if n := len(end.failed); n > 0 {
			first := &end.failed[0]
			end.entries = append(end.entries, entry(now, weirItself, "not told", j.message.User, j.message.ID,
				fmt.Sprintf("%d not delivered, %s among them: %s %s; nobody is told, as it has no sender",
					n, first.Address, first.Status, toText(first.Text))))
		}
		return nil, nil
	}
	if j.tells == nil { // once, however often it has to be tried
		if j.tells, err = d.bounceTo(j.conf, &j.message, len(reports), len(end.narrow) > 0, now); err != nil {
			return nil, err
		}
	}
	if j.tells.mute {
		if end.keep(&j.message, j.message.Sender+" needs it too", now); len(end.failed) > 0 {
			j.tells.reason = j.message.Sender + " needs SMTPUTF8, which the next hop does not know"
		}
	}
	if j.tells.reason != "" {
		end.entries = append(end.entries,
			entry(now, weirItself, "not told", j.message.User, j.message.ID, j.tells.reason))
	}
	if j.tells.to == "" {
		return nil, nil
	}
	for _, r := range reports {
		text, err := d.store.Open(context.Background(), j.message.ID)
		if errors.Is(err, store.ErrNotFound) { // the message was removed in the meantime
			return all, nil
		}
		if err != nil {
			return all, err
		}
		o := d.own(now, j.message.Gate, j.message.User, "Delivery status of "+j.message.ID.String(), j.tells.to)
		o.staged = d.store.Stage()
		all = append(all, o)
		err = d.bounce(j, o, r.kind, r.to, text, now)
		text.Close()
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// bounce writes one of them. The text is returned only with a failure, if the sender wants it.
func (d *delivery) bounce(j *job, o *ownMessage, kind bounce.Kind, to []bounce.Recipient, text io.Reader,
	now time.Time) error {
	l, conf := &j.message, j.conf
	returned := l.Return
	// A server without 8BITMIME would not take the text in the bounce either.
	seven := func(r bounce.Recipient) bool { return r.Code == 0 && r.Status == nexthop.StatusEightBit }
	if kind != bounce.Failure || !j.tells.full || slices.ContainsFunc(to, seven) {
		returned = "HDRS"
	}
	err := bounce.Write(o.staged, &bounce.Report{Kind: kind, From: conf.Postmaster, Host: conf.Host, To: j.tells.to,
		ID: l.ID.String(), MessageID: o.message.ID.String() + "@" + conf.Host, Now: now, Arrived: l.Received,
		Until: j.to[0].Since.Add(conf.GiveUp), Envelope: l.Envelope, Return: returned, UTF8: l.UTF8, Recipients: to,
		Original: text, Size: l.Size})
	if err != nil {
		return err
	}
	o.message.UTF8 = !shown.ASCII(j.tells.to)
	o.message.EightBit = l.EightBit || o.message.UTF8
	o.staged.Note(&o.message, []store.Addressee{o.to})
	if o.text, err = o.staged.Seal(); err != nil {
		return err
	}
	o.message.Size, o.message.Filed = o.text.Size, o.text.File
	return nil
}
