package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"weir/internal/clock"
	"weir/store"
	"weir/throttle/quota"
)

// How often, and how long.
const (
	saveEvery    = 5 * time.Second // at most this much is forgotten when weir is killed
	saveFirst    = 200 * time.Millisecond
	savePatience = 30 * time.Second // for one batch, in the background
	pruneEvery   = 10 * time.Minute // what no longer counts
)

// counters keeps what accounts have used in long periods over restarts. It saves what has changed every few seconds, in
// batches, and more often at first: a weir that is killed again and again forgets no more than a part of what was used
// each time.
type counters struct {
	app    *App
	store  store.Counters
	lent   store.Ceilings
	health *storeHealth
	ctx    context.Context // of what is saved in the background
	giveUp context.CancelFunc

	saving sync.Mutex      // one at a time
	batch  []store.Counter // being saved; what is left of a failed save, which is written first
	pruned time.Time
	began  time.Time

	mu     sync.Mutex
	timer  clock.Timer // nil when it is not set
	wanted bool        // there is something to keep
}

// startCounters restores what was used before the restart, and begins to save. The gates must not serve yet.
func (a *App) startCounters(ctx context.Context, s store.Store, health *storeHealth) (*counters, error) {
	c := &counters{app: a, store: s.Counters(), lent: s.Ceilings(), health: health, pruned: a.clock.Now()}
	c.began = c.pruned
	c.ctx, c.giveUp = context.WithCancel(context.Background())
	if err := c.restore(ctx, a.current.Load().throttles); err != nil {
		return nil, err
	}
	if err := c.prune(ctx, c.pruned); err != nil {
		return nil, err
	}
	c.schedule(a.current.Load().throttles)
	return c, nil
}

// schedule saves everything every few seconds if the throttles have something to keep.
func (c *counters) schedule(all []*throttle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = slices.ContainsFunc(all, func(t *throttle) bool { return t.accounts() != nil && t.accounts().Keeps() })
	c.set()
}

// set sets the timer, unless it is set. c.mu is held.
func (c *counters) set() {
	if c.timer == nil && c.wanted {
		age := c.app.clock.Now().Sub(c.began)
		c.timer = c.app.clock.AfterFunc(min(max(age/4, saveFirst), saveEvery), c.tick)
	}
}

// restore gives throttles back what accounts have used. Counters of other throttles stay in the store.
func (c *counters) restore(ctx context.Context, all []*throttle) error {
	into := map[string]*quota.Quota{}
	for _, t := range all {
		if q := t.accounts(); q != nil {
			into[t.name] = q
		}
	}
	if len(into) == 0 {
		return nil
	}
	now := c.app.clock.Now()
	restored, noRoom, passedOver := 0, 0, 0
	var err error
	for _, accepted := range []bool{true, false} { // first those that cannot be pushed out
		err = c.store.Load(ctx, now, func(v store.Counter) error {
			q := into[v.Throttle]
			if q == nil || quota.Accepted(&v) != accepted {
				return nil
			}
			switch err := q.Restore(v, now); {
			case err == nil && accepted:
			case err == nil:
				restored++
			case errors.Is(err, quota.ErrTableFull):
				noRoom++
			default: // the policy has changed since, or the period is over
				passedOver++
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	if noRoom > 0 {
		c.app.opts.Log.Warn("there is no room for all accounts whose use was saved: what the others have used is "+
			"forgotten", "forgotten", noRoom, "restored", restored)
	} else if restored+passedOver > 0 {
		c.app.opts.Log.Info("what accounts have used was restored", "restored", restored, "passed_over", passedOver)
	}
	return err
}

// tick saves, and sets the timer for the next time.
func (c *counters) tick() {
	_ = c.save(c.ctx, c.app.current.Load().throttles) // it is noted
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	c.set()
}

// save saves what has changed in throttles, until there is nothing left, or the store fails.
func (c *counters) save(ctx context.Context, all []*throttle) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	if err := ctx.Err(); err != nil {
		return err // weir is stopping
	}
	now := c.app.clock.Now()
	err := c.saveChanged(ctx, all, now)
	if err == nil && now.Sub(c.pruned).Abs() >= pruneEvery {
		err = c.prune(ctx, now)
	}
	c.health.note(partCounters, err)
	return err
}

func (c *counters) saveChanged(ctx context.Context, all []*throttle, now time.Time) error {
	if len(c.batch) > 0 { // it comes first: of the same counter the last counts
		if err := c.write(ctx); err != nil {
			return err
		}
	}
	for _, t := range all {
		q := t.accounts()
		for more := q != nil; more; {
			if c.batch, more = q.Dirty(c.batch, t.name, now); more {
				if err := c.write(ctx); err != nil {
					return err
				}
			}
		}
	}
	return c.write(ctx)
}

// write saves the batch. When that fails, it stays.
func (c *counters) write(ctx context.Context) error {
	if len(c.batch) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, savePatience)
	defer cancel()
	if err := c.store.Save(ctx, c.batch); err != nil {
		return err
	}
	c.batch = c.batch[:0]
	return nil
}

// prune forgets what no longer counts.
func (c *counters) prune(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, savePatience)
	defer cancel()
	_, err := c.store.Prune(ctx, now)
	if err == nil {
		_, err = c.lent.Prune(ctx, now)
	}
	if err == nil {
		c.pruned = now
	}
	return err
}

// unsaved is how many counters could not be saved.
func (c *counters) unsaved() int {
	if !c.saving.TryLock() {
		return 0 // they are being saved
	}
	defer c.saving.Unlock()
	return len(c.batch)
}

// close saves for the last time, until ctx ends. Nothing must be served any more.
func (c *counters) close(ctx context.Context) error {
	defer c.giveUp()
	defer context.AfterFunc(ctx, c.giveUp)() // a save that is under way must not hold this one up for longer
	c.mu.Lock()
	c.wanted = false
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	return c.save(ctx, c.app.current.Load().throttles)
}

// prepareCounters keeps what was used over a reload: what a throttle that goes has counted is saved, and what one that
// comes had counted before is restored. When the store fails, the reload takes all the same: weir goes on without it,
// and has said so.
func (c *change) prepareCounters() error {
	k := c.app.kept.Load()
	if k == nil {
		return nil // New: Start does it
	}
	gone := slices.DeleteFunc(slices.Clone(c.retired), func(t *throttle) bool { return t.accounts() == nil })
	come := slices.DeleteFunc(slices.Clone(c.next.throttles), func(t *throttle) bool {
		old := c.old.throttle(t.name)
		return t.accounts() == nil || old != nil && old.mechanism == t.mechanism
	})
	ctx, cancel := context.WithTimeout(context.Background(), openPatience)
	defer cancel()
	if err := k.counters.restore(ctx, come); err != nil {
		k.health.note(partCounters, err)
	}
	if len(gone) > 0 {
		c.commit = append(c.commit, func() { _ = k.counters.save(k.counters.ctx, gone) }) // it is noted
	}
	c.commit = append(c.commit, func() { k.counters.schedule(c.next.throttles) })
	return nil
}
