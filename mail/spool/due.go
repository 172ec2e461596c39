package spool

import (
	"context"
	"errors"
	"time"
	"weir/store"
)

// reconsiderStopped looks at all who are stopped when the configuration has changed: nothing is due for them otherwise,
// so that nobody would see that they are to be tried again now.
func (q *queue) reconsiderStopped(ctx context.Context, now time.Time) error {
	if !q.changed.Swap(false) {
		return nil
	}
	var last store.Memory
	for {
		var results []result
		n := 0
		err := q.update(ctx, func(tx store.MailTx) error {
			results = nil
			page, err := tx.Stopped(last.Throttle, last.User, dueBatch)
			if n = len(page); err != nil || n == 0 {
				return err
			}
			for _, m := range page {
				if q.gates.Load().throttle(m.Throttle) == nil {
					continue
				}
				r, err := q.tickOne(tx, now, m)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			last = page[n-1]
			return nil
		})
		if err != nil {
			q.changed.Store(true)
			return err
		}
		for _, r := range results {
			q.settle(r)
		}
		if n < dueBatch {
			return nil
		}
	}
}

// tickDue runs the clocks of those users for whom it has something to do.
func (q *queue) tickDue(ctx context.Context, now time.Time) error {
	for {
		var results []result
		n := 0
		err := q.update(ctx, func(tx store.MailTx) error {
			results = nil
			due, err := tx.Due(now, dueBatch)
			n = len(due)
			for i := 0; i < n && err == nil; i++ {
				var r result
				r, err = q.tickOne(tx, now, due[i])
				results = append(results, r)
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range results {
			q.settle(r)
		}
		if n < dueBatch {
			return nil
		}
	}
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

// tickLost is for users of a throttle that is gone. Nobody holds their mail back any more, unless they are stopped:
// then it is held until the throttle is there again, or somebody releases it.
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
