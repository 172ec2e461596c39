package spool

import (
	"context"
	"errors"
	"io"
	"time"

	"weir/bounce"
	"weir/store"
)

// An ownLetter is a mail that weir writes itself: it has no sender, and nobody is told should it fail.
type ownLetter struct {
	letter store.Letter
	to     store.Addressee
	text   store.Text
	staged store.Staged // nil where the text is in memory
}

// own addresses a mail of weir's.
func (s *Spool) own(now time.Time, gate, user, subject, to string) *ownLetter {
	id := s.NewID(now)
	return &ownLetter{
		letter: store.Letter{ID: id, Gate: gate, User: user, Subject: cut(subject, store.MaxSubject), Received: now, Own: true},
		to:     store.Addressee{Mail: id, Address: to, Notify: "NEVER", State: store.Ready, Due: now, Since: now},
	}
}

// bounces writes what the sender of a mail is told. A mail without a sender is never answered.
func (s *Spool) bounces(conf *Gate, j *job, end *ending, now time.Time) (all []*ownLetter, err error) {
	if j.letter.Sender == "" {
		return nil, nil
	}
	for _, part := range []struct {
		kind bounce.Kind
		to   []bounce.Recipient
	}{{bounce.Failure, end.failed}, {bounce.Delay, end.delayed}, {bounce.Relayed, end.relayed}} {
		if len(part.to) == 0 {
			continue
		}
		text, err := s.store.Open(context.Background(), j.letter.ID)
		if errors.Is(err, store.ErrNotFound) { // somebody has taken the mail away
			return all, nil
		}
		if err != nil {
			return all, err
		}
		o := s.own(now, j.letter.Gate, j.letter.User, "Delivery status of "+j.letter.ID.String(), j.letter.Sender)
		o.staged = s.store.Stage()
		all = append(all, o)
		err = s.bounce(conf, j, o, part.kind, part.to, text, now)
		text.Close()
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// bounce writes one of them.
func (s *Spool) bounce(conf *Gate, j *job, o *ownLetter, kind bounce.Kind, to []bounce.Recipient, text io.Reader, now time.Time) error {
	l := &j.letter
	err := bounce.Write(o.staged, &bounce.Report{Kind: kind, From: conf.Postmaster, Host: conf.Host, To: l.Sender, ID: l.ID.String(),
		MessageID: o.letter.ID.String() + "@" + conf.Host, Now: now, Arrived: l.Received, Until: j.to[0].Since.Add(conf.GiveUp),
		Envelope: l.Envelope, Return: l.Return, UTF8: l.UTF8, Recipients: to, Original: text, Size: l.Size})
	if err != nil {
		return err
	}
	if o.text, err = o.staged.Seal(); err != nil {
		return err
	}
	o.letter.Size, o.letter.Filed = o.text.Size, o.text.File
	o.letter.UTF8, o.letter.EightBit = l.UTF8, l.EightBit || l.UTF8
	return nil
}
