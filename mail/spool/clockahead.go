package spool

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/store"
)

const (
	setBack  = time.Minute // a clock that goes back by less is ignored
	longTick = time.Hour   // users with nothing due for longer are looked at
)

// correctClock corrects times that were stored while the clock was ahead. Otherwise messages would wait until the clock
// is there again. It runs after each start and each time the clock goes back, and again after an error.
func (s *Spool) correctClock(ctx context.Context, now time.Time) error {
	wall := now.Round(0) // without the monotonic clock, which cannot be set
	s.ahead.Lock()
	if s.ahead.latest.IsZero() || wall.Add(setBack).Before(s.ahead.latest) {
		s.ahead.todo = true
		s.ahead.latest = wall
	} else if wall.After(s.ahead.latest) {
		s.ahead.latest = wall
	}
	todo := s.ahead.todo
	s.ahead.todo = false
	s.ahead.Unlock()
	if !todo {
		return nil
	}
	moved, err := s.correctMail(ctx, wall)
	err = errors.Join(err, s.correctUsers(ctx, wall))
	s.changed.Store(true) // for stopped users
	if moved > 0 {
		s.log.Warn("the clock was ahead: mail that was to go on much later does so now", "recipients", moved)
	}
	if err != nil {
		s.ahead.Lock()
		s.ahead.todo = true
		s.ahead.Unlock()
	}
	return err
}

func (d *delivery) correctMail(ctx context.Context, now time.Time) (moved int, err error) {
	wrong := func(q *store.Queued) bool {
		return slices.ContainsFunc(q.To, func(a store.Addressee) bool { return d.corrected(&q.Letter, &a, now) })
	}
	correct := func(tx store.MailTx, l *store.Letter, to []store.Addressee) (int, error) {
		return changeRows(tx, to, func(_ int, a *store.Addressee) bool { return d.corrected(l, a, now) })
	}
	later := new(store.MailIDs).Next(now) // messages from while the clock was ahead have greater ids
	for _, q := range []store.LetterQuery{{State: store.Ready}, {State: store.Sending}, {After: later}} {
		n, err := d.eachMail(ctx, q, wrong, correct)
		if moved += total(n); err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// corrected corrects a due time that is further away than it can be, and reports whether it did.
func (d *delivery) corrected(l *store.Letter, a *store.Addressee, now time.Time) bool {
	due := a.Due
	switch {
	case !due.After(now):
		return false
	case a.State == store.Sending:
		due = earlier(due, now.Add(lease))
	case a.State == store.Ready && a.Owner == d.opts.Owner:
		due = earlier(due, now.Add(handOver))
	case a.State == store.Ready && (a.Owner != "" || a.Attempt > 0):
		if longest := max(slices.Max(d.gates.Load().out(l.Gate).Retries), handOver, gonePause); due.After(now.Add(longest)) {
			due = now
		}
	case l.Received.After(now) && !due.Before(l.Received): // it waits for another throttle
		due = now.Add(due.Sub(l.Received))
	}
	if due.Equal(a.Due) {
		return false
	}
	a.Due = due
	if a.Since.After(due) {
		a.Since = due
	}
	return true
}

// correctUsers runs the clocks of users whose messages wait for a clock that was ahead.
func (q *queue) correctUsers(ctx context.Context, now time.Time) error {
	seen := map[string]bool{}
	results := map[string]result{}
	fresh := func(q *store.Queued) bool { // one message of each user
		is := !seen[q.User]
		seen[q.User] = true
		return is
	}
	tick := func(tx store.MailTx, l *store.Letter, _ []store.Addressee) (int, error) {
		for _, g := range q.gates.Load().throttles() {
			m, err := tx.Remembered(g.Throttle, l.User)
			if errors.Is(err, store.ErrNotFound) || err == nil && !m.Due.After(now.Add(longTick)) {
				continue
			}
			if err != nil {
				return 0, err
			}
			r, err := q.tickOne(tx, now, m)
			if err != nil {
				return 0, err
			}
			results[g.Throttle+" "+l.User] = r
		}
		return 0, nil
	}
	_, err := q.delivery.eachMail(ctx, store.LetterQuery{State: store.Delayed}, fresh, tick)
	for _, r := range results {
		q.settle(r)
	}
	return err
}
