package spool

import (
	"context"
	"time"

	"weir/store"
	"weir/throttle/reach"
)

// A Message is one of any channel, whose recipients a reach throttle judges for a client that asks.
type Message struct {
	User       string
	Recipients []string // as reach.Rules write them
}

func (r *reaches) people(recipients []string) *reachCount {
	c := &reachCount{of: make([]int, len(recipients))}
	for i, person := range recipients {
		c.of[i] = c.add(r.keys, person)
	}
	c.fates = make([]reach.Fate, len(c.keys))
	return c
}

// LookReach says what would become of a message, as if the user's messages to those under way had been sent.
func (r *reaches) LookReach(ctx context.Context, now time.Time, of *Reach, m Message,
	underWay []string) (v reach.Verdict,
	err error) {
	counts, before := r.people(m.Recipients), r.people(underWay)
	err = r.store.View(ctx, func(tx store.MailTx) error {
		c, err := r.open(tx, now, of, m.User)
		if err != nil {
			return err
		}
		if len(before.keys) > 0 { // nothing of it is stored
			c.judge(before)
			clear(before.fates)
			c.commit(before)
		}
		c.judge(counts)
		v = c.verdict
		return nil
	})
	return v, err
}

// NoteReach notes a message: one that was sent, or one that was refused, whose new recipients count as tried.
func (r *reaches) NoteReach(ctx context.Context, now time.Time, of *Reach, m Message, sent bool) error {
	counts := r.people(m.Recipients)
	return r.change(ctx, now, of, m.User, func(c *reachTx) error {
		c.judge(counts)
		c.quiet = true // the caller counts it
		if sent {
			clear(counts.fates)
			c.verdict.Held, c.verdict.Refused, c.verdict.Cause = 0, 0, reach.NoCause
		} else {
			counts.refuse()
		}
		c.commit(counts)
		return nil
	})
}
