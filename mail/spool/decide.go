package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/store"
)

// A Verdict is what Decide says about a mail that another server keeps. doc.go says how it maps to other words.
type Verdict struct {
	Pass     bool  // all recipients may go on
	Delayed  int   // how many would wait
	Withheld int   // how many are new to a flagged user, and wait for a review
	Refused  bool  // the user is stopped, or flagged, or has sent too many messages without a sender
	Why      error // flagged: ErrNewRecipient, ErrFlagged or ErrFlaggedLimit; without a sender: ErrNulls
}

// Decide judges a mail that another server keeps. With commit, what passes is charged, and with count also what does
// not: its recipients count as waiting, though weir does not keep them. That may stop the user.
func (q *queue) Decide(ctx context.Context, now time.Time, gate, user, sender string, recipients []string, commit,
	count bool) (Verdict, error) {
	g := q.gates.Load().of(gate)
	if g == nil {
		return Verdict{}, fmt.Errorf("%w: %q", ErrUnknown, gate)
	}
	null := g.passesNull(user, sender, len(recipients))
	free := g.Mail == nil && !q.Stopped(gate, user) // stopped users send no notifications either
	reaches := g.countsReach(user, sender, len(recipients))
	if free && !reaches {
		return Verdict{Pass: true}, nil
	}
	if len(recipients) > MaxRecipients {
		return Verdict{}, q.tooMany(len(recipients), MaxRecipients)
	}
	ask := question{queue: q, now: now, gate: g, user: user, to: addressed(recipients), count: count, null: null,
		free: free, reaches: reaches}
	if !commit {
		err := q.store.View(ctx, ask.peek)
		return ask.verdict, err
	}
	if err := q.update(ctx, ask.charge); err != nil {
		return Verdict{}, err
	}
	q.settle(ask.result)
	q.reach.settleReach(ask.reached)
	if ask.ready {
		_ = q.delivery.handDue(ctx, now)
	}
	if ask.verdict.Why == ErrNulls {
		q.tell.Bounded(BoundNulls)
	}
	q.tell.Decided(gate, ask.verdict, len(recipients))
	return ask.verdict, nil
}

func addressed(addresses []string) []To {
	to := make([]To, len(addresses))
	for i := range to {
		to[i].Address = addresses[i]
	}
	return to
}

// A question is a mail that another server keeps.
type question struct {
	queue   *queue
	now     time.Time
	gate    *Gate
	user    string
	to      []To
	count   bool
	null    bool // nothing is counted, unless the user is stopped
	free    bool // the mail throttle has nothing to say
	reaches bool // the reach throttle has
	verdict Verdict
	result

	reachTx *reachTx
	counts  *reachCount
	reached reached
}

// reach asks the reach throttle, and reports whether the mail throttle is to be asked, too.
func (q *question) reach(tx store.MailTx) (more bool, err error) {
	q.reachTx, q.counts, q.reached = nil, nil, reached{}
	if !q.reaches {
		return true, nil
	}
	c, _, err := q.queue.reach.ask(tx, q.now, q.gate, q.user, q.to)
	if err != nil || c == nil {
		return err == nil, err
	}
	q.reachTx, q.counts = c, c.counts
	if !c.shadow && c.verdict.Refused > 0 {
		q.verdict = Verdict{Refused: true, Why: refusal(c.verdict)}
		return false, nil
	}
	return true, nil
}

// keep takes the mail into the history of the user, as far as it was decided here.
func (q *question) keep() (err error) {
	c := q.reachTx
	switch {
	case c == nil:
		return nil
	case q.verdict.Why != nil:
		q.counts.refuse()
	case q.verdict.Refused || !q.verdict.Pass && !q.count: // it is judged once more where it arrives
		return nil
	}
	c.commit(q.counts)
	told := false
	q.reached, told, err = c.finish(q.gate, nil)
	q.ready = q.ready || told
	return err
}

// ask says what the mail throttle would do.
func (q *question) ask(t *userTx) (*counted, error) {
	c := q.queue.count(q.gate, &t.user, q.to, nil, q.counts)
	if most := t.params.Recipients; most > 0 && len(q.to) > most {
		return nil, q.queue.tooMany(len(q.to), most)
	}
	d := t.mem.state.Peek(&t.params, q.now, c.keys, c.fates)
	q.verdict = Verdict{Pass: d.Delayed == 0 && !d.Refused && !d.Held, Delayed: d.Delayed, Refused: d.Refused &&
		!d.Full}
	if d.Held || d.Full {
		q.verdict.Delayed = len(c.keys)
	}
	if t.shadow || q.null && !q.verdict.Refused {
		q.verdict = Verdict{Pass: true}
	}
	if q.null && q.verdict.Pass && !t.shadow && c.due && q.gate.Mail != nil && !t.mem.state.MayNull(&t.params, q.now) {
		q.verdict = Verdict{Refused: true, Why: ErrNulls}
	}
	return c, nil
}

// withhold adds the recipients that the reach throttle does not let go on.
func (q *question) withhold() {
	if c := q.reachTx; c != nil && !c.shadow && c.verdict.Held > 0 {
		q.verdict.Pass, q.verdict.Withheld = false, c.verdict.Held
	}
}

// peek answers, and writes nothing.
func (q *question) peek(tx store.MailTx) error {
	q.verdict = Verdict{Pass: true}
	more, err := q.reach(tx)
	if err != nil || !more {
		return err
	}
	if !q.free {
		t, err := q.queue.peekUser(tx, q.now, q.gate, q.user)
		if err != nil {
			return err
		}
		if _, err = q.ask(t); err != nil {
			return err
		}
	}
	q.withhold()
	return nil
}

// charge answers, and charges for it.
func (q *question) charge(tx store.MailTx) error {
	q.verdict, q.result = Verdict{Pass: true}, result{}
	more, err := q.reach(tx)
	if err != nil {
		return err
	}
	if !more || q.free {
		q.withhold()
		return q.keep()
	}
	t, err := q.queue.openUser(tx, q.now, q.gate, q.user)
	if err != nil {
		return err
	}
	c, err := q.ask(t)
	if err != nil {
		return err
	}
	q.withhold()
	if !q.null && (q.verdict.Pass || q.count && !q.verdict.Refused) {
		if _, err := t.submit(0, c); err != nil && !errors.Is(err, ErrQueue) { // then it waits, and is not counted
			return err
		}
	}
	if q.null && q.verdict.Pass && c.due {
		t.takeNull()
	}
	if err := t.end(news{}); err != nil {
		return err
	}
	q.result = t.result
	return q.keep()
}
