package spool

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir"
	"weir/store"
)

const (
	dueBatch   = 64               // users per transaction
	handBatch  = 256              // addressees per transaction
	soon       = time.Second      // when something is looked at again that nobody tells of
	failPause  = 10 * time.Second // at most, when the store fails again and again
	fullPause  = 15 * time.Second // for mail of a gate whose queue is full, where others have room
	gonePause  = 15 * time.Minute // for mail of a gate that is gone
	lostPause  = time.Hour        // for users of a throttle that is gone
	keepEvery  = time.Hour
	keepUsed   = 7 * 24 * time.Hour // tickets that are over are known for so long
	pruneBatch = 1000
)

// RunDue does everything that is due at now, and returns when something is due next (zero: nothing known). It does not
// wait for deliveries, which it hands to the workers. An error does not keep it from doing the rest.
func (s *Spool) RunDue(ctx context.Context, now time.Time) (next time.Time, err error) {
	s.next.Store(0)
	left := s.unpark()
	errs := []error{left, s.takeOver(ctx, now), s.straighten(ctx, now), s.reconsiderStopped(ctx, now),
		s.unflagDue(ctx, now), s.tickDue(ctx, now),
		s.handDue(ctx, now), s.drainPool(ctx, now), s.keep(ctx, now)}
	errs = append(errs, s.store.View(ctx, func(tx store.MailTx) error {
		next, err = tx.NextDue()
		return err
	}))
	if left != nil || s.pooled.Load() {
		next = earlier(next, now.Add(soon))
	}
	if !next.IsZero() && !next.After(now) { // no room with the workers, or the store failed
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
			// Whatever happens meanwhile would most likely fail too.
			s.complain(&s.failing.rounds, "what is due in the spool could not all be done", "error", err)
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
			s.await(ctx, wait, s.wake, s.rouse)
		}
	}
}

// await waits until it is woken, which the clock does after a time, or everything ends.
func (s *Spool) await(ctx context.Context, wait time.Duration, woken <-chan struct{}, wake func()) {
	timer := s.clock.AfterFunc(wait, wake)
	defer timer.Stop()
	select {
	case <-woken:
	case <-ctx.Done():
	case <-s.halt.Done():
	}
}

// Wake is told when there is something to do for RunDue earlier than it said. Run listens to it; listen to it where
// RunDue is called by somebody else.
func (s *Spool) Wake() <-chan struct{} { return s.wake }

func (s *Spool) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// expect is told that something is due at a time; zero: nothing.
func (s *Spool) expect(due time.Time) {
	if due.IsZero() {
		return
	}
	if next := s.next.Load(); next == 0 || due.UnixNano() < next {
		s.rouse()
	}
}

// vacant is told that a gate may have room again, for what did not fit and for what waits in the pool.
func (s *Spool) vacant(g *gateway) {
	if g.starved.Load() && g.places.Load() <= int64(cap(g.queue)/2) && g.starved.CompareAndSwap(true, false) {
		s.rouse()
	}
	if s.pooled.Load() && g.load() < g.conf.Load().PoolBelow {
		s.rouse()
	}
}

// starve notes that something did not fit.
func (s *Spool) starve(g *gateway) {
	s.tell.Bounded(BoundQueue)
	g.starved.Store(true)
	s.vacant(g) // which may have been so just now
}

// reconsiderStopped looks at all who are stopped when the configuration has changed: nothing is due for them otherwise,
// so that nobody would see that they are to be tried again now.
func (s *Spool) reconsiderStopped(ctx context.Context, now time.Time) error {
	if !s.changed.Swap(false) {
		return nil
	}
	var last store.Memory
	for {
		var results []result
		n := 0
		err := s.update(ctx, func(tx store.MailTx) error {
			results = nil
			page, err := tx.Stopped(last.Throttle, last.User, dueBatch)
			if n = len(page); err != nil || n == 0 {
				return err
			}
			for _, m := range page {
				if s.gates.Load().throttle(m.Throttle) == nil {
					continue
				}
				r, err := s.tickOne(tx, now, m)
				if err != nil {
					return err
				}
				results = append(results, r)
			}
			last = page[n-1]
			return nil
		})
		if err != nil {
			s.changed.Store(true)
			return err
		}
		for _, r := range results {
			s.settle(r)
		}
		if n < dueBatch {
			return nil
		}
	}
}

// tickDue runs the clocks of those users for whom it has something to do.
func (s *Spool) tickDue(ctx context.Context, now time.Time) error {
	for {
		var results []result
		n := 0
		err := s.update(ctx, func(tx store.MailTx) error {
			results = nil
			due, err := tx.Due(now, dueBatch)
			n = len(due)
			for i := 0; i < n && err == nil; i++ {
				var r result
				r, err = s.tickOne(tx, now, due[i])
				results = append(results, r)
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range results {
			s.settle(r)
		}
		if n < dueBatch {
			return nil
		}
	}
}

func (s *Spool) tickOne(tx store.MailTx, now time.Time, m store.Memory) (result, error) {
	gate := s.gates.Load().throttle(m.Throttle)
	if gate == nil {
		return s.tickLost(tx, now, m)
	}
	t, err := s.begin(tx, now, gate, m.User)
	if errors.Is(err, store.ErrNewer) { // others are not to wait for it
		s.log.Error("what the throttle remembers of a user was written by a newer weir", "throttle", m.Throttle, "user",
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
func (s *Spool) tickLost(tx store.MailTx, now time.Time, m store.Memory) (result, error) {
	if m.Stopped {
		m.Due = now.Add(lostPause)
		return result{}, tx.Remember(m)
	}
	t, err := s.begin(tx, now, &Gate{Throttle: m.Throttle}, m.User)
	if err != nil {
		return result{}, err
	}
	err = t.end(news{})
	return t.result, err
}

// drainPool lets mail without stamps go where there is little to do.
func (s *Spool) drainPool(ctx context.Context, now time.Time) error {
	if !s.pooled.Load() {
		return nil
	}
	moved := 0
	err := s.update(ctx, func(tx store.MailTx) error {
		moved = 0
		rows, err := tx.Ready(now, true, handBatch)
		if err != nil {
			return err
		}
		all, room, found := s.gates.Load(), map[string]int{}, false
		for i := range rows {
			a := &rows[i]
			if a.State != store.Pooled {
				continue
			}
			found = true
			l, err := tx.Letter(a.Mail)
			if err != nil {
				return err
			}
			if _, known := room[l.Gate]; !known {
				room[l.Gate] = all.way(l.Gate).room()
			}
			if room[l.Gate] <= 0 {
				continue
			}
			room[l.Gate]--
			ripen(a, now)
			if err := tx.PutAddressees(*a); err != nil {
				return err
			}
			moved++
		}
		s.pooled.Store(found)
		return nil
	})
	if err != nil || moved == 0 {
		return err
	}
	return s.handDue(ctx, now)
}

// room is how many mails without stamps may go on: none while anything waits for a worker.
func (g *gateway) room() int {
	if g == nil || len(g.queue) > 0 {
		return 0
	}
	conf := g.conf.Load()
	going := int(g.going.Load())
	if going == 0 {
		return max(1, int(conf.PoolBelow*float64(conf.Connections)))
	}
	return int(conf.PoolBelow*float64(conf.Connections)) - going
}

// keep does now and then what need not be done at once.
func (s *Spool) keep(ctx context.Context, now time.Time) error {
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
		s.opts.Log.Warn("texts of mail that the store does not know were set aside in the data folder", "texts",
			swept.SetAside,
			"folder", store.AsideFolder, "kept", weir.Duration(store.KeepAside))
	}
	return errors.Join(err, failed, s.pruneStamps(ctx, now), s.sweepDelayed(ctx, now), s.savePopulations(ctx))
}

// single lets one goroutine do something; who comes meanwhile has it done again by that one.
type single struct {
	mu   sync.Mutex // of who does it
	ask  sync.Mutex // of what follows
	want bool
	at   time.Time // the latest of those who want it
}

// do runs f, or has it run, as of now or later: whoever runs it, what is due for the last one who came is found.
func (o *single) do(now time.Time, f func(now time.Time) error) (err error) {
	o.ask.Lock()
	if !o.want || now.After(o.at) {
		o.at = now
	}
	o.want = true
	o.ask.Unlock()
	for o.wanted() && o.mu.TryLock() {
		for at, want := o.take(); want; at, want = o.take() {
			err = f(at)
		}
		o.mu.Unlock()
	}
	return err
}

func (o *single) wanted() bool {
	o.ask.Lock()
	defer o.ask.Unlock()
	return o.want
}

// take takes over what all have asked for.
func (o *single) take() (at time.Time, want bool) {
	o.ask.Lock()
	defer o.ask.Unlock()
	at, want, o.want = o.at, o.want, false
	return at, want
}
