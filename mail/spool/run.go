package spool

import (
	"context"
	"errors"
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
	errs = append(errs, s.store.View(ctx, func(tx store.MailTx) error {
		next, err = tx.NextDue()
		return err
	}))
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

// housekeep does hourly work.
func (s *Spool) housekeep(ctx context.Context, now time.Time) error {
	s.keeping.Lock()
	due := s.keeping.at.IsZero() || now.Sub(s.keeping.at) >= keepEvery || now.Before(s.keeping.at)
	if due {
		s.keeping.at = now
	}
	s.keeping.Unlock()
	if !due {
		return nil
	}
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
	return errors.Join(err, failed, s.pruneStamps(ctx, now), s.sweepDelayed(ctx, now), s.savePopulations(ctx))
}
