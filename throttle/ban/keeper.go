package ban

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/store"
)

const (
	maxJournal = 4 * store.MaxBatch      // changes that wait to be written one by one
	retryEvery = int64(time.Second)      // where the store fails
	pruneEvery = int64(10 * time.Minute) // what is over
)

// ErrKept is returned by Keep for a list that has a keeper already.
var ErrKept = errors.New("the list has a keeper already")

// A Keeper writes the changes of a list into a store, in order, so that no ban waits for a disk. List.Keep makes one.
//
// What cannot be written waits, up to a bound. Beyond it the keeper forgets the single changes and, when the store
// works again, compares the whole list with what is stored. Nothing of that touches the list itself.
type Keeper struct {
	list   *List
	store  store.Bans
	failed func(error)
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{}
	asked  chan *asked
	done   chan struct{} // closed when the keeper has ended
	close  sync.Once
	err    error // of Close

	// Under list.mu.
	journal []record
	batch   []record // being written, or waiting to be tried again
	whole   bool     // the whole list is to be compared
	failing bool
	retry   int64 // when to try again
	pruned  int64 // when what is over was last forgotten
	prune   bool  // it is time again
}

// A record is a change to be written.
type record struct {
	key store.BanKey
	ban *store.Ban // nil: it is gone
}

// asked is a call of Flush that waits until everything is written.
type asked struct {
	ctx  context.Context
	done chan error
}

// Keep puts what a store holds on the list, and from then on writes every change of the list into the store. Bans that
// are on the list already stay; the store gets them too. failed, which may be nil, is called when the store fails, at
// most about once a second, and with nil when it works again. It is called from the keeper's goroutine, under no lock.
//
// While the store fails, it is tried again by Advance. Close the keeper before the store.
//
// When loading fails, the error is returned, and the list is as it was, without a keeper.
func (l *List) Keep(ctx context.Context, s store.Bans, now time.Time, failed func(error)) (*Keeper, error) {
	if failed == nil {
		failed = func(error) {}
	}
	k := &Keeper{list: l, store: s, failed: failed, wake: make(chan struct{}, 1), asked: make(chan *asked),
		done: make(chan struct{}), pruned: now.UnixNano()}
	if err := l.attach(k); err != nil {
		return nil, err
	}
	stored, err := s.List(ctx, now)
	if err == nil {
		_, err = s.Prune(ctx, now)
	}
	if err != nil {
		l.detach(k)
		return nil, fmt.Errorf("the bans cannot be loaded: %w", err)
	}
	l.load(stored, now)
	k.ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go k.run()
	return k, nil
}

// attach makes the keeper note every change from now on, and what is there.
func (l *List) attach(k *Keeper) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keeper != nil {
		return ErrKept
	}
	l.keeper = k
	l.each(func(i *item) { k.note(Change{Added, i.ban}) })
	for _, i := range l.lifts.by {
		k.note(Change{Added, i.ban})
	}
	return nil
}

func (l *List) detach(k *Keeper) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keeper == k {
		l.keeper = nil
	}
}

// load puts stored bans on the list, operators' first. Bans that were added since go before stored ones, but not before
// an operator's.
func (l *List) load(stored []store.Ban, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = now.UnixNano()
	slices.SortStableFunc(stored, func(a, b store.Ban) int {
		// those that end soonest come first and are dropped first
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(end(a), end(b)))
	})
	for _, b := range stored {
		if b.Validate() != nil {
			continue // a store that keeps the contract has none
		}
		old := l.current(b.BanKey)
		switch {
		case !b.Holds(now):
		case b.Lifted:
			if old == nil || !old.ban.Operator || compareWords(b, old.ban) > 0 {
				l.remember(b, false)
			}
		case l.lifted(b.BanKey, b.Since.UnixNano()) && !l.outlives(b):
			l.tell(Change{Removed, b}, true) // weir ended between the two writes
		case old == nil:
			_ = l.enter(b, b.Since.UnixNano(), false) // counted where the list is full
		case old.ban.Operator:
		case b.Operator, end(b) > old.until:
			l.replace(old, b, max(b.Since.UnixNano(), old.last.Load()))
		}
	}
}

// rank puts lifts first, then bans of operators.
func rank(b store.Ban) int {
	switch {
	case b.Lifted:
		return 0
	case b.Operator:
		return 1
	}
	return 2
}

// note notes a change that is to be written. list.mu is held.
func (k *Keeper) note(c Change) {
	if c.What == Expired {
		return // the store knows when it ends
	}
	r := record{key: c.Ban.BanKey}
	if c.Holds() {
		r.ban = &c.Ban
	}
	switch {
	case k.whole:
	case len(k.journal) >= maxJournal:
		k.journal, k.batch, k.whole = nil, nil, true
	default:
		k.journal = append(k.journal, r)
	}
	if !k.failing {
		k.call()
	}
}

func (k *Keeper) call() {
	select {
	case k.wake <- struct{}{}:
	default: // it has been woken already
	}
}

// advance tries the store again when that is due, and returns when it is due next. list.mu is held.
func (k *Keeper) advance(now int64, expired bool) (due int64) {
	if expired && abs(now-k.pruned) >= pruneEvery {
		k.prune, k.pruned = true, now
	}
	if k.failing {
		if now >= k.retry || k.retry-now > retryEvery { // the clock may have been set back
			k.retry = now + retryEvery
			k.call()
		}
		return k.retry
	}
	if k.prune {
		k.call()
	}
	return forGood
}

func abs(n int64) int64 { return max(n, -n) }

// unsaved is how many changes the store does not have. list.mu is held.
func (k *Keeper) unsaved() int {
	if k.whole {
		return max(k.list.size()+len(k.list.lifts.by), 1)
	}
	return len(k.journal) + len(k.batch)
}

// run is the keeper's goroutine.
func (k *Keeper) run() {
	defer close(k.done)
	for {
		select {
		case <-k.wake:
			_ = k.work(k.ctx)
		case who := <-k.asked:
			who.done <- k.work(who.ctx)
		case <-k.ctx.Done():
			return
		}
	}
}

// work writes until everything is written, or the store fails.
func (k *Keeper) work(ctx context.Context) error {
	for {
		t := k.next()
		if t.nothing() {
			return nil
		}
		if err := t.do(ctx, k.store); err != nil {
			if k.putBack(t, ctx.Err() == nil); ctx.Err() == nil {
				k.failed(err)
			}
			return err
		}
		k.wrote()
	}
}

// A task is what is to be written next.
type task struct {
	batch []record
	whole []*item // the list as it was at now
	now   time.Time
	all   bool // compare
	prune bool
}

func (t *task) nothing() bool { return len(t.batch) == 0 && !t.all && !t.prune }

func (k *Keeper) next() task {
	l := k.list
	l.mu.Lock()
	defer l.mu.Unlock()
	t := task{now: time.Unix(0, l.seen), prune: k.prune}
	k.prune = false
	if k.whole {
		k.whole, t.all = false, true
		l.each(func(i *item) {
			if i.holds(l.seen) {
				t.whole = append(t.whole, i)
			}
		})
		for _, i := range l.lifts.by {
			if i.holds(l.seen) {
				t.whole = append(t.whole, i)
			}
		}
		return t
	}
	if len(k.batch) == 0 {
		n := min(len(k.journal), store.MaxBatch)
		k.batch, k.journal = k.journal[:n:n], k.journal[n:]
	}
	t.batch = k.batch
	return t
}

// putBack puts back what was to be written. It is tried again later if the store failed, and at once if only the caller
// gave up.
func (k *Keeper) putBack(t task, failed bool) {
	l := k.list
	l.mu.Lock()
	defer l.mu.Unlock()
	k.prune = k.prune || t.prune
	if t.all {
		k.journal, k.batch, k.whole = nil, nil, true
	}
	if !failed {
		k.call()
		return
	}
	k.failing, k.retry = true, l.seen+retryEvery
	l.dueBy(k.retry)
}

func (k *Keeper) wrote() {
	k.list.mu.Lock()
	failing := k.failing
	k.failing = false
	k.batch = nil
	k.list.mu.Unlock()
	if failing {
		k.failed(nil)
	}
}

func (t *task) do(ctx context.Context, s store.Bans) error {
	if t.all {
		if err := t.compare(ctx, s); err != nil {
			return err
		}
	}
	if err := write(ctx, s, t.batch); err != nil {
		return err
	}
	if !t.prune {
		return nil
	}
	_, err := s.Prune(ctx, t.now)
	return err
}

// write writes the outcome of at most store.MaxBatch records. It adds before it removes, so that no ban is ever
// missing.
func write(ctx context.Context, s store.Bans, records []record) error {
	last := make(map[store.BanKey]int, len(records))
	for i, r := range records {
		last[r.key] = i
	}
	var put []store.Ban
	var remove []store.BanKey
	for i, r := range records {
		switch {
		case last[r.key] != i:
		case r.ban != nil:
			put = append(put, *r.ban)
		default:
			remove = append(remove, r.key)
		}
	}
	if len(put) > 0 {
		if err := s.Put(ctx, put...); err != nil {
			return err
		}
	}
	if len(remove) > 0 {
		return s.Remove(ctx, remove...)
	}
	return nil
}

// compare makes the store hold what is on the list.
func (t *task) compare(ctx context.Context, s store.Bans) error {
	stored, err := s.List(ctx, t.now)
	if err != nil {
		return err
	}
	known := make(map[store.BanKey]*store.Ban, len(stored))
	for i := range stored {
		known[stored[i].BanKey] = &stored[i]
	}
	var records []record
	for _, i := range t.whole {
		if old := known[i.ban.BanKey]; old == nil || !old.Equal(&i.ban) {
			records = append(records, record{i.ban.BanKey, &i.ban})
		}
		delete(known, i.ban.BanKey)
	}
	for key := range known {
		records = append(records, record{key: key})
	}
	for batch := range slices.Chunk(records, store.MaxBatch) {
		if err := write(ctx, s, batch); err != nil {
			return err
		}
	}
	return nil
}

// Flush returns when everything is in the store that was on the list when it was called, or with the store's error.
func (k *Keeper) Flush(ctx context.Context) error {
	who := &asked{ctx, make(chan error, 1)}
	select {
	case k.asked <- who:
	case <-k.done:
		return store.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-who.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close writes what is left and ends the keeper. When ctx ends first, that is not written. It may be called twice.
func (k *Keeper) Close(ctx context.Context) error {
	k.close.Do(func() {
		k.err = k.Flush(ctx)
		k.list.detach(k)
		k.cancel()
		<-k.done
	})
	return k.err
}
