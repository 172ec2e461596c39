package admission

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// The table of accepted accounts: one set of entries for each network, 1 MiB in all.
const (
	acceptedSets = 1 << 13
	// acceptedWays is how many accounts of one network are clients of their own. Where an upstream accepts every
	// name, an attacker with one address gets no more than so many turns.
	acceptedWays = 8
	// acceptedFor is how long an account is known after the upstream last accepted it.
	acceptedFor = int64(10 * time.Minute)
)

// accepted remembers which accounts the upstream has accepted, and from which networks. Its memory is fixed. A fresh
// entry is never pushed out: an account that finds no room is known by its address. Goroutines may share it.
type accepted struct {
	seed  maphash.Seed
	any   atomic.Bool // there are entries
	mu    sync.RWMutex
	table *[acceptedSets][acceptedWays]acceptance
}

type acceptance struct {
	tag  uint64 // of network and account; 0 for an entry that is free
	last int64
}

func (a *accepted) find(who client, account string) (set *[acceptedWays]acceptance, tag uint64) {
	at := who.hash(a.seed)
	return &a.table[at%acceptedSets], max(1, maphash.String(a.seed, account)^at)
}

func (a *accepted) has(who client, account string, at int64) bool {
	if !a.any.Load() || who.family == 0 {
		return false
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	set, tag := a.find(who, account)
	for i := range set {
		if e := &set[i]; e.tag == tag {
			return fresh(e.last, at)
		}
	}
	return false
}

// fresh reports whether an entry still counts. The clock was set back since an entry from the future was made.
func fresh(last, at int64) bool { return at-last < acceptedFor && last-at < acceptedFor }

func (a *accepted) note(who client, account string, good bool, at int64) {
	if who.family == 0 || !good && !a.any.Load() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.table == nil {
		a.table = new([acceptedSets][acceptedWays]acceptance)
		a.any.Store(true)
	}
	set, tag := a.find(who, account)
	room := -1
	for i := range set {
		switch e := &set[i]; {
		case e.tag == tag && good:
			e.last = at
			return
		case e.tag == tag:
			*e = acceptance{}
			return
		case room < 0 && (e.tag == 0 || !fresh(e.last, at)):
			room = i
		}
	}
	if good && room >= 0 {
		set[room] = acceptance{tag, at}
	}
}

// Accepted notes whether the upstream accepted a request of an account (2xx) or turned it away (401, 403). An account
// that was accepted from a network is a client of its own there, for ten minutes or until it is turned away.
func (l *Lanes) Accepted(source netip.Addr, account string, good bool, now time.Time) {
	if account != "" {
		l.accepted.note(clientOf(source), account, good, nanos(now))
	}
}
