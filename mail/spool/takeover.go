package spool

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir/store"
)

// takeOver takes over, once, the messages that another run has left: those that it was sending are ambiguous, and those
// of its workers are free again. RunDue tries again after an error. Until then leases and hand-overs end by themselves.
func (d *delivery) takeOver(ctx context.Context, now time.Time) error {
	if d.tookOver.Load() {
		return nil
	}
	sending, err := d.takeAll(ctx, now, store.Sending)
	for gate, n := range sending {
		d.tell.Ambiguous(gate, n)
	}
	var ready map[string]int
	if err == nil {
		ready, err = d.takeAll(ctx, now, store.Ready)
	}
	if len(sending)+len(ready) > 0 {
		d.log.Warn("the last run was not stopped cleanly", "recipients_ambiguous", total(sending), "recipients_again",
			total(ready))
	}
	if err != nil {
		d.complain(&d.failing.takes, "what the last run has left cannot be taken over yet", "error", err)
		return err
	}
	d.tookOver.Store(true)
	return nil
}

func (d *delivery) takeAll(ctx context.Context, now time.Time, state store.State) (taken map[string]int, err error) {
	left := func(q *store.Queued) bool {
		return slices.ContainsFunc(q.To, func(a store.Addressee) bool { return d.left(state, &a) })
	}
	return d.eachMail(ctx, store.MessageQuery{State: state}, left,
		func(tx store.MailTx, l *store.Message, to []store.Addressee) (int, error) {
			return d.takeOne(tx, now, state, l, to)
		})
}

// left reports whether another run has left an addressee in a state.
func (d *delivery) left(state store.State, a *store.Addressee) bool {
	return a.State == state && a.Owner != d.opts.Owner && (a.Owner != "" || state != store.Ready)
}

func (d *delivery) takeOne(tx store.MailTx, now time.Time, state store.State, l *store.Message,
	to []store.Addressee) (taken int, err error) {
	var end ending
	for _, a := range to {
		switch {
		case !d.left(state, &a):
			continue
		case state == store.Ready:
			a.Owner, a.Due = "", now
			end.put = append(end.put, a)
		default:
			end.doubt(d.gates.Load().out(l.Gate), l, &a, now, "weir ended while it was sent")
		}
		taken++
	}
	for i := range end.put {
		if state == store.Sending && end.put[i].State == store.Ready {
			end.put[i].Due = now // the next server is not at fault
		}
	}
	if err := tx.PutAddressees(end.put...); err != nil {
		return 0, err
	}
	return taken, logAll(tx, end.entries)
}

// eachMail calls do for all messages that match, some in each transaction, with their remaining addressees. It returns
// the sums of the results by gate, also with an error.
func (d *delivery) eachMail(ctx context.Context, q store.MessageQuery, match func(*store.Queued) bool,
	do func(store.MailTx, *store.Message, []store.Addressee) (int, error)) (map[string]int, error) {
	const page = 500
	sums := map[string]int{}
	for {
		found, err := read(ctx, d.env, func(tx store.MailTx) ([]store.Queued, error) { return tx.Messages(q, page) })
		if err != nil || len(found) == 0 {
			return sums, err
		}
		q.After = found[len(found)-1].ID
		found = slices.DeleteFunc(found, func(q store.Queued) bool { return !match(&q) })
		if len(found) == 0 {
			continue
		}
		var done map[string]int
		err = d.update(ctx, func(tx store.MailTx) error {
			done = map[string]int{}
			for i := range found {
				to, err := tx.Addressees(found[i].ID) // they may have changed since the view
				if err != nil {
					return err
				}
				k, err := do(tx, &found[i].Message, to)
				if err != nil {
					return err
				}
				if k > 0 {
					done[found[i].Gate] += k
				}
			}
			return nil
		})
		if err != nil {
			return sums, err
		}
		for gate, n := range done {
			sums[gate] += n
		}
	}
}

func total(of map[string]int) (n int) {
	for _, k := range of {
		n += k
	}
	return n
}

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
		return slices.ContainsFunc(q.To, func(a store.Addressee) bool { return d.corrected(&q.Message, &a, now) })
	}
	correct := func(tx store.MailTx, l *store.Message, to []store.Addressee) (int, error) {
		return changeRows(tx, to, func(_ int, a *store.Addressee) bool { return d.corrected(l, a, now) })
	}
	later := new(store.MailIDs).Next(now) // messages from while the clock was ahead have greater ids
	for _, q := range []store.MessageQuery{{State: store.Ready}, {State: store.Sending}, {After: later}} {
		n, err := d.eachMail(ctx, q, wrong, correct)
		if moved += total(n); err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// corrected corrects a due time that is further away than it can be, and reports whether it did.
func (d *delivery) corrected(l *store.Message, a *store.Addressee, now time.Time) bool {
	due := a.Due
	switch {
	case !due.After(now):
		return false
	case a.State == store.Sending:
		due = earlier(due, now.Add(lease))
	case a.State == store.Ready && a.Owner == d.opts.Owner:
		due = earlier(due, now.Add(handOver))
	case a.State == store.Ready && (a.Owner != "" || a.Attempt > 0):
		longest := slices.Max(d.gates.Load().out(l.Gate).Retries)
		if due.After(now.Add(max(longest, handOver, gonePause))) {
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
	tick := func(tx store.MailTx, l *store.Message, _ []store.Addressee) (int, error) {
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
	_, err := q.delivery.eachMail(ctx, store.MessageQuery{State: store.Delayed}, fresh, tick)
	for _, r := range results {
		q.settle(r)
	}
	return err
}
