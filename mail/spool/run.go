package spool

import (
	"context"
	"errors"
	"slices"
	"time"

	"weir"
	"weir/store"
)

const (
	dueBatch   = 64               // users per transaction
	handBatch  = 256              // addressees per transaction
	soon       = time.Second      // until something is looked at again that sends no signal
	failPause  = 10 * time.Second // at most, while the store fails
	fullPause  = 15 * time.Second // for messages of a gate whose queue is full, if others are not
	gonePause  = 15 * time.Minute // for messages of a gate that is gone
	lostPause  = time.Hour        // for users of a throttle that is gone
	keepEvery  = time.Hour
	keepUsed   = 7 * 24 * time.Hour // how long old tickets are kept
	pruneBatch = 1000
)

// RunDue does everything that is due at now, and returns when something is due next (zero: nothing known). It hands
// messages to the workers without waiting for them. After an error it does the rest all the same.
func (s *Spool) RunDue(ctx context.Context, now time.Time) (next time.Time, err error) {
	s.next.Store(0)
	left := s.unpark()
	errs := []error{left, s.takeOver(ctx, now), s.correctClock(ctx, now), s.reconsiderStopped(ctx, now),
		s.unflagDue(ctx, now), s.tickDue(ctx, now), s.handDue(ctx, now), s.drainPool(ctx, now), s.housekeep(ctx, now)}
	next, err = read(ctx, s.env, store.MailTx.NextDue)
	errs = append(errs, err)
	if left != nil || s.pooled.Load() {
		next = earlier(next, now.Add(soon))
	}
	if !next.IsZero() && !next.After(now) { // the workers are busy, or the store failed
		next = now.Add(soon)
	}
	if !next.IsZero() {
		s.next.Store(next.UnixNano())
	}
	return next, errors.Join(errs...)
}

// Run calls RunDue whenever something is due, until ctx or the spool ends.
func (s *Spool) Run(ctx context.Context) {
	const most = time.Minute // whatever happens
	failures := 0            // in a row
	for ctx.Err() == nil && s.halt.Err() == nil {
		now := s.clock.Now()
		next, err := s.RunDue(ctx, now)
		if err == nil || ctx.Err() != nil {
			failures = 0
		} else {
			// Whatever becomes due during the pause would most likely fail too.
			s.complain(&s.failing, "what is due in the spool could not all be done", "error", err)
			pause := make(chan struct{})
			s.await(ctx, min(soon<<min(failures, 10), failPause), pause, func() { close(pause) })
			failures++
			continue
		}
		wait := most
		if !next.IsZero() {
			wait = min(next.Sub(s.clock.Now()), most)
		}
		if wait > 0 {
			s.await(ctx, wait, s.wake, s.wakeUp)
		}
	}
}

// await waits until it is woken, at the latest by the clock, or until ctx or the spool ends.
func (s *Spool) await(ctx context.Context, wait time.Duration, woken <-chan struct{}, wake func()) {
	timer := s.clock.AfterFunc(wait, wake)
	defer timer.Stop()
	select {
	case <-woken:
	case <-ctx.Done():
	case <-s.halt.Done():
	}
}

// housekeep does hourly work. Whoever comes while it is being done waits, so that RunDue has done what is due.
func (s *Spool) housekeep(ctx context.Context, now time.Time) error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	if last := s.keeping.at; !last.IsZero() && now.Sub(last) < keepEvery && !now.Before(last) {
		return nil
	}
	s.keeping.at = now
	err := s.update(ctx, func(tx store.MailTx) error {
		if err := tx.PruneTickets(now.Add(-keepUsed), pruneBatch); err != nil {
			return err
		}
		return tx.PruneEntries(now.Add(-s.opts.AuditFor), pruneBatch)
	})
	swept, failed := s.store.Sweep(ctx, now.Add(-keepEvery))
	if swept.SetAside > 0 {
		s.log.Warn("texts of mail that the store does not know were set aside in the data folder", "texts",
			swept.SetAside, "folder", store.AsideFolder, "kept", weir.Duration(store.KeepAside))
	}
	return errors.Join(err, failed, s.pruneStamps(ctx, now), s.sweepDelayed(ctx, now), s.ageHeld(ctx, now),
		s.savePopulations(ctx))
}

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
