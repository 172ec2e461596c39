package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/store"
)

// A Verdict is what Decide says about a mail that somebody else keeps.
type Verdict struct {
	Pass    bool // all recipients may go on
	Delayed int  // how many would wait
	Refused bool // the user is stopped
}

// Decide judges a mail that another server keeps. With commit, what passes is charged; a mail that does not pass as a whole is charged
// only where count says so: then its recipients count as waiting, though nobody keeps them. That may stop the user.
func (s *Spool) Decide(ctx context.Context, now time.Time, gate, user, sender string, recipients []string, commit, count bool) (Verdict, error) {
	g := s.gates.Load().of(gate)
	if g == nil {
		return Verdict{}, fmt.Errorf("%w: %q", ErrUnknown, gate)
	}
	null := g.passesNull(user, sender, len(recipients))
	if (null || g.Mail == nil) && !s.Stopped(gate, user) { // whoever is stopped has no notifications to send either
		return Verdict{Pass: true}, nil
	}
	if len(recipients) > MaxRecipients {
		s.tell.Bounded(BoundRecipients)
		return Verdict{}, fmt.Errorf("%w: %d, at most %d", ErrRecipients, len(recipients), MaxRecipients)
	}
	to := make([]To, len(recipients))
	for i := range to {
		to[i].Address = recipients[i]
	}
	q := question{s: s, now: now, gate: g, user: user, to: to, count: count, null: null}
	if !commit {
		err := s.store.View(ctx, q.peek)
		return q.verdict, err
	}
	if err := s.update(ctx, q.charge); err != nil {
		return Verdict{}, err
	}
	s.settle(q.result)
	if q.ready {
		_ = s.handDue(ctx, now)
	}
	s.tell.Decided(gate, q.verdict, len(recipients))
	return q.verdict, nil
}

// A question is whether a mail may go on.
type question struct {
	s       *Spool
	now     time.Time
	gate    *Gate
	user    string
	to      []To
	count   bool
	null    bool // nobody is counted, unless the user is stopped
	verdict Verdict
	result
}

// ask says what the throttle would do.
func (q *question) ask(t *turn) (*counted, error) {
	c := q.s.count(q.gate, &t.user, q.to)
	if most := t.params.Recipients; most > 0 && len(q.to) > most {
		q.s.tell.Bounded(BoundRecipients)
		return nil, fmt.Errorf("%w: %d, at most %d", ErrRecipients, len(q.to), most)
	}
	d := t.mem.state.Peek(&t.params, q.now, c.keys, c.place)
	q.verdict = Verdict{Pass: d.Delayed == 0 && !d.Refused && !d.Large, Delayed: d.Delayed, Refused: d.Refused && !d.Full}
	if d.Large || d.Full {
		q.verdict.Delayed = len(c.keys)
	}
	if t.shadow || q.null && !q.verdict.Refused {
		q.verdict = Verdict{Pass: true}
	}
	return c, nil
}

// peek answers without a trace.
func (q *question) peek(tx store.MailTx) error {
	t, err := q.s.look(tx, q.now, q.gate, q.user)
	if err != nil {
		return err
	}
	_, err = q.ask(t)
	return err
}

// charge answers, and charges for it.
func (q *question) charge(tx store.MailTx) error {
	q.verdict, q.result = Verdict{}, result{}
	t, err := q.s.begin(tx, q.now, q.gate, q.user)
	if err != nil {
		return err
	}
	c, err := q.ask(t)
	if err != nil {
		return err
	}
	if !q.null && (q.verdict.Pass || q.count && !q.verdict.Refused) {
		if _, err := t.submit(0, c); err != nil && !errors.Is(err, ErrQueue) { // then it waits, and is not counted
			return err
		}
	}
	if err := t.end(news{}); err != nil {
		return err
	}
	q.result = t.result
	return nil
}
