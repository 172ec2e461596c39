package spool

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/store"
)

// reconsiderStopped runs the clocks of all stopped users when the configuration has changed. Nothing else is due for
// them that would show that they are to be tried again now.
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

// tickAll runs the clocks of users, as many in one transaction as next returns, until there are fewer than dueBatch.
// next is given what it noted of the page before, and returns how many it found.
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
	if gate == nil {
		return q.tickLost(tx, now, m)
	}
	t, err := q.openUser(tx, now, gate, m.User)
	if errors.Is(err, store.ErrNewer) { // others are not to wait for it
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

// tickLost is for users of a throttle that is gone. Their mail is not held back any more, unless they are stopped: then
// it is held until the throttle is there again, or it is released.
func (q *queue) tickLost(tx store.MailTx, now time.Time, m store.Memory) (result, error) {
	if m.Stopped {
		m.Due = now.Add(lostPause)
		return result{}, tx.Remember(m)
	}
	t, err := q.openUser(tx, now, &Gate{Throttle: m.Throttle}, m.User)
	if err != nil {
		return result{}, err
	}
	err = t.end(news{})
	return t.result, err
}
