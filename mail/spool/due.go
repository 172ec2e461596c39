package spool

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/store"
)

// reconsiderStopped runs the clocks of all stopped users after a change of the configuration, which may let them try
// again. Nothing else is due for them.
func (q *queue) reconsiderStopped(ctx context.Context, now time.Time) error {
	if !q.changed.Swap(false) {
		return nil
	}
	err := q.tickAll(ctx, now, func(tx store.MailTx, last *store.Memory) ([]store.Memory, int, error) {
		page, err := tx.Stopped(last.Throttle, last.User, dueBatch)
		n := len(page)
		if n > 0 {
			*last = page[n-1]
		}
		known := q.gates.Load()
		return slices.DeleteFunc(page, func(m store.Memory) bool { return known.throttle(m.Throttle) == nil }), n, err
	})
	if err != nil {
		q.changed.Store(true)
	}
	return err
}

// tickAll runs the clocks of users in pages, one transaction each, until next finds fewer than dueBatch. next is given
// what it noted of the page before, and returns the users and how many it found.
func (q *queue) tickAll(ctx context.Context, now time.Time,
	next func(tx store.MailTx, last *store.Memory) (page []store.Memory, found int, err error)) error {
	var last store.Memory
	for found := dueBatch; found == dueBatch; {
		var results []result
		noted := last
		err := q.update(ctx, func(tx store.MailTx) error {
			results, noted = nil, last
			page, n, err := next(tx, &noted)
			found = n
			for i := 0; i < len(page) && err == nil; i++ {
				var r result
				r, err = q.tickOne(tx, now, page[i])
				results = append(results, r)
			}
			return err
		})
		if err != nil {
			return err
		}
		last = noted
		q.settleAll(results)
	}
	return nil
}

// tickDue runs the clocks that are due.
func (q *queue) tickDue(ctx context.Context, now time.Time) error {
	return q.tickAll(ctx, now, func(tx store.MailTx, _ *store.Memory) ([]store.Memory, int, error) {
		due, err := tx.Due(now, dueBatch)
		return due, len(due), err
	})
}

func (q *queue) tickOne(tx store.MailTx, now time.Time, m store.Memory) (result, error) {
	gate := q.gates.Load().throttle(m.Throttle)
	if gate == nil { // nothing waits any more, but messages of stopped users stay held
		gate = &Gate{Throttle: m.Throttle}
		if m.Stopped {
			m.Due = now.Add(lostPause)
			return result{}, tx.Remember(m)
		}
	}
	t, err := q.openUser(tx, now, gate, m.User)
	if errors.Is(err, store.ErrNewer) { // others must not wait for it
		q.log.Error("what the throttle remembers of a user was written by a newer weir", "throttle", m.Throttle, "user",
			m.User)
		m.Due = now.Add(lostPause)
		return result{}, tx.Remember(m)
	}
	if err != nil {
		return result{}, err
	}
	err = t.end(news{})
	return t.result, err
}
