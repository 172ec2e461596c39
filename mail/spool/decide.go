package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/store"
)

// A Verdict is what Decide says about a message that another server keeps. doc.go has the words of other packages.
type Verdict struct {
	Pass     bool  // all recipients may go on
	Delayed  int   // how many would wait
	Withheld int   // how many are new to a flagged user, and wait for a review
	Refused  bool  // the user is stopped, or flagged, or has sent too many messages without a sender
	Why      error // flagged: ErrNewRecipient, ErrFlagged or ErrFlaggedLimit; without a sender: ErrNulls
}

// Decide judges a message that another server keeps. With commit, a message that passes is charged. With count too, one
// that does not pass is charged as well: its recipients count as waiting, which may stop the user.
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
	q.reach.settleReach(ask.reachTx)
	if ask.ready {
		_ = q.delivery.handDue(ctx, now) // an error is logged, and it is tried again
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

// A question is a message that another server keeps.
type question struct {
	queue   *queue
	now     time.Time
	gate    *Gate
	user    string
	to      []To
	count   bool
	null    bool // nothing is counted, unless the user is stopped
	free    bool // the mail throttle does not judge it
	reaches bool // the reach throttle does
	verdict Verdict
	result

	reachTx *reachTx // of the reach throttle; nil: it counts nobody
}

// reach asks the reach throttle, and reports whether the mail throttle is asked, too.
func (q *question) reach(tx store.MailTx) (more bool, err error) {
	q.reachTx = nil
	if !q.reaches {
		return true, nil
	}
	if q.reachTx, err = q.queue.reach.ask(tx, q.now, q.gate, q.user, q.to); err != nil {
		return false, err
	}
	why := q.reachTx.refused()
	if why != nil {
		q.verdict = Verdict{Refused: true, Why: why}
	}
	return why == nil, nil
}

// keep takes the message into the history of the user, if it was decided here.
func (q *question) keep() error {
	c := q.reachTx
	switch {
	case c == nil:
		return nil
	case q.verdict.Why != nil:
		c.counts.refuse()
	case q.verdict.Refused || !q.verdict.Pass && !q.count: // it is judged once more where it arrives
		q.reachTx = nil
		return nil
	}
	c.commit(c.counts)
	told, err := c.finish()
	q.ready = q.ready || told
	return err
}

// ask says what the mail throttle would do.
func (q *question) ask(t *userTx) (*counted, error) {
	c := q.queue.count(q.gate, &t.user, q.to, nil, q.reachTx)
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

// peek decides, and writes nothing.
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

// charge decides, and charges for it.
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
