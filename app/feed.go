package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/config"
	"weir/gate/xdpgate"
	"weir/identify"
	"weir/internal/clock"
	"weir/store"
	"weir/throttle/ban"
)

// A kernelList is what a network interface bans in the kernel.
type kernelList interface {
	Ban(p netip.Prefix, until time.Time) error
	Unban(p netip.Prefix) error
	Bans() ([]xdpgate.Entry, error)
}

// kernelRules say which bans do not go into the kernel. It knows source addresses and nothing else: a connection from a
// proxy is everybody behind it.
type kernelRules struct {
	exempt  networks // from where only operators' bans hold
	proxies networks // that gates trust
	shadow  bool     // the list refuses nobody
}

func (a *App) kernelRules(cfg *config.Config) kernelRules {
	return kernelRules{exempt: newNetworks(cfg.Bans.Exempt), proxies: newNetworks(cfg.TrustedProxies()),
		shadow: a.bans.link.Shadow.Load()}
}

// takes reports whether a ban of a network is for the kernel. A ban is not for the kernel if it contains one address
// that must not be dropped.
func (r *kernelRules) takes(b *store.Ban) bool {
	return !r.shadow && !r.proxies.overlap(b.Prefix) && (b.Operator && !ban.Listed(b) || !r.exempt.overlap(b.Prefix))
}

// networks do not contain each other, and are sorted by address.
type networks []netip.Prefix

func newNetworks(all []netip.Prefix) (n networks) {
	plain := make([]netip.Prefix, len(all))
	for i, p := range all {
		plain[i] = identify.PlainPrefix(p)
	}
	// the wider one first
	slices.SortFunc(plain, func(a, b netip.Prefix) int { return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits()) })
	for _, p := range plain {
		if len(n) == 0 || !n[len(n)-1].Overlaps(p) {
			n = append(n, p)
		}
	}
	return n
}

// overlap reports whether one of them has an address in common with another network.
func (n networks) overlap(p netip.Prefix) bool {
	next, _ := slices.BinarySearchFunc(n, p.Addr(),
		func(a netip.Prefix, addr netip.Addr) int { return cmp.Or(a.Addr().Compare(addr), -1) })
	return next > 0 && n[next-1].Overlaps(p) || next < len(n) && n[next].Overlaps(p)
}

// A feed makes a network interface ban what is on the block list: whoever is banned by address is dropped in
// the kernel, until the ban is over. It works in the background, as the kernel may be slow. A nil feed does
// nothing.
//
// It is level-triggered: it is told which networks to check again, not what happened to them. So nothing is lost when
// it is told too much, too little, or in the wrong order.
type feed struct {
	list    *ban.List
	kernel  kernelList
	most    int // networks to look at one by one, and to remember as left out
	clock   clock.Clock
	log     *slog.Logger
	unwatch func()
	wake    chan struct{}
	asked   chan chan struct{}
	quit    chan struct{}
	done    chan struct{}
	end     sync.Once
	without atomic.Int64 // networks that the kernel has no room for

	mu    sync.Mutex
	rules kernelRules
	again map[netip.Prefix]bool // to look at
	whole bool                  // all of them

	// Of the feed's goroutine.
	fed     map[netip.Prefix]time.Time // what the kernel has, until when; zero for good
	leftOut map[netip.Prefix]bool      // for want of room
	more    bool                       // there are more of those
	full    bool                       // the log says so
	failed  time.Time                  // when another failure was logged
}

// feedKernel begins to feed an interface, with all that is on the list.
func (a *App) feedKernel(k kernelList, name string, rules kernelRules) *feed {
	f := a.newFeed(k, name, rules)
	f.begin()
	return f
}

func (a *App) newFeed(k kernelList, name string, rules kernelRules) *feed {
	return &feed{list: a.bans.list, kernel: k, most: xdpgate.MaxEntries, clock: a.clock,
		log: a.opts.Log.With("interface", name), rules: rules,
		whole: true,
		wake:  make(chan struct{}, 1), asked: make(chan chan struct{}), quit: make(chan struct{}),
		done: make(chan struct{}),
		fed:  map[netip.Prefix]time.Time{}, leftOut: map[netip.Prefix]bool{}}
}

func (f *feed) begin() {
	f.unwatch = f.list.Watch(func(c ban.Change) {
		if c.Ban.Client == "" {
			f.look(c.Ban.Prefix)
		}
	})
	go f.run()
	f.call()
}

// stop ends the feed. What is in the kernel stays.
func (f *feed) stop() {
	if f == nil {
		return
	}
	f.end.Do(func() {
		f.unwatch()
		close(f.quit)
	})
	<-f.done
}

// look marks a network to be checked. It is called under the list's lock.
func (f *feed) look(p netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.whole:
	case len(f.again) >= f.most:
		f.again, f.whole = nil, true
	default:
		if f.again == nil {
			f.again = map[netip.Prefix]bool{}
		}
		f.again[p] = true
	}
	f.call()
}

// configure gives the feed its rules and checks everything again: the kernel's list may have changed as well.
func (f *feed) configure(r kernelRules) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules, f.again, f.whole = r, nil, true
	f.call()
}

// call wakes the feed up.
func (f *feed) call() {
	select {
	case f.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// flush returns when the kernel has what was on the list at the call, or when ctx ends.
func (f *feed) flush(ctx context.Context) {
	if f == nil {
		return
	}
	done := make(chan struct{})
	select {
	case f.asked <- done:
	case <-f.done:
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// left is how many networks the kernel has no room for.
func (f *feed) left() int {
	if f == nil {
		return 0
	}
	return int(f.without.Load())
}

// run is the feed's goroutine.
func (f *feed) run() {
	defer close(f.done)
	for {
		select {
		case <-f.wake:
			f.work()
		case done := <-f.asked:
			f.work()
			close(done)
		case <-f.quit:
			return
		}
	}
}

// work looks at everything that is to be looked at.
func (f *feed) work() {
	f.mu.Lock()
	rules, again, whole := f.rules, f.again, f.whole
	f.again, f.whole = nil, false
	f.mu.Unlock()
	now := f.clock.Now()
	if whole {
		f.compare(&rules, now)
	}
	for p := range again {
		f.settle(p, &rules, now)
	}
	f.catchUp(&rules, now)
	f.without.Store(int64(len(f.leftOut)))
}

// settle brings one network into the kernel's list, or out of it.
func (f *feed) settle(p netip.Prefix, rules *kernelRules, now time.Time) {
	b, banned := f.list.Get(store.BanKey{Prefix: p}, now)
	if banned && rules.takes(&b) {
		f.put(b)
	} else {
		f.take(p)
	}
}

// put bans a network in the kernel, until its ban is over.
func (f *feed) put(b store.Ban) {
	until, known := f.fed[b.Prefix]
	if known && until.Equal(b.Until) {
		return
	}
	if known && earlier(b.Until, until) { // of two bans the kernel keeps the later one
		f.take(b.Prefix)
	}
	err := f.kernel.Ban(b.Prefix, b.Until)
	if err == nil {
		f.fed[b.Prefix] = b.Until
		delete(f.leftOut, b.Prefix)
		return
	}
	f.fail(err)
	if len(f.leftOut) < f.most {
		f.leftOut[b.Prefix] = true
	} else {
		f.more = true
	}
}

// take removes a network's ban from the kernel.
func (f *feed) take(p netip.Prefix) {
	delete(f.leftOut, p)
	if _, known := f.fed[p]; !known {
		return
	}
	delete(f.fed, p)
	if err := f.kernel.Unban(p); err != nil && !errors.Is(err, xdpgate.ErrStatic) { // what the configuration bans stays
		f.fail(err)
	}
}

// earlier reports whether a ban is over before another one.
func earlier(a, b time.Time) bool { return !a.IsZero() && (b.IsZero() || a.Before(b)) }

// catchUp brings in networks that there was no room for, as far as there is now.
func (f *feed) catchUp(rules *kernelRules, now time.Time) {
	for p := range f.leftOut {
		if f.settle(p, rules, now); f.leftOut[p] {
			return // there is no room still
		}
	}
	if f.more {
		f.compare(rules, now)
	}
	f.full = f.full && len(f.leftOut) > 0
}

// compare makes the kernel's list what the block list is, whatever it was before: an earlier weir may have left
// something there.
func (f *feed) compare(rules *kernelRules, now time.Time) {
	inside, err := f.kernel.Bans()
	if err != nil {
		f.fail(err)
		f.mu.Lock()
		f.whole = true // with the next change
		f.mu.Unlock()
		return
	}
	f.fed, f.leftOut, f.more = make(map[netip.Prefix]time.Time, len(inside)), map[netip.Prefix]bool{}, false
	for _, e := range inside {
		if !e.Static {
			f.fed[e.Prefix] = e.Until
		}
	}
	wanted := make(map[netip.Prefix]store.Ban)
	f.list.Each(now, func(b store.Ban) {
		if b.Client == "" && rules.takes(&b) {
			wanted[b.Prefix] = b
		}
	})
	for p, until := range f.fed {
		b, is := wanted[p]
		switch {
		case !is:
			f.take(p)
		case same(b.Until, until):
			f.fed[p] = b.Until
		}
	}
	for _, operator := range []bool{true, false} { // operators first, where there is no room for all
		for _, b := range wanted {
			if b.Operator == operator {
				f.put(b)
			}
		}
	}
}

// same reports whether two ends are the same, as far as the kernel's clock can tell.
func same(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() <= time.Second
}

// fail logs what cannot be fed: once that there is no room, and anything else now and then.
func (f *feed) fail(err error) {
	if errors.Is(err, xdpgate.ErrListFull) {
		if f.full {
			return
		}
		f.full = true
	} else if now := f.clock.Now(); !f.failed.IsZero() && now.Sub(f.failed) < failurePause {
		return
	} else {
		f.failed = now
	}
	f.log.Error("not all banned clients are dropped in the kernel; the gates still refuse them", "err", err)
}
