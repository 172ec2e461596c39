package quota

import (
	"container/heap"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"

	"weir"
	"weir/identify"
)

const (
	shards    = 256  // so that two events rarely want the same lock
	strangers = 1024 // limits shared by the accounts for which the table has no room
	looks     = 8    // how many accounts are looked at to find one to forget
)

// An account is what is known of one account, or of one source where there is no account, or of a set of strangers. What every
// event reads comes first and, with the state of one rule, fits into two cache lines: with many accounts, fetching them
// is most of the cost of a decision.
type account struct {
	name    string
	first   *waiter   // the line
	own     *ownTerms // nil for most
	said    string    // the plan as the gate last said
	version uint32    // of the rules that own was taken from
	pins    int32     // events that will come back to it: bytes may flow
	state0  state     // of the rule in slot 0
	states  []state   // of those behind it

	shard     *shard
	source    netip.Addr
	index     int // in shard.ring; -1 for strangers
	last      *waiter
	waiting   int
	delaying  uint64  // rules that somebody in line waits, or waited, for
	deadline  int64   // not after the earliest deadline in line
	due       int64   // when call is worth while
	called    *waiter // the one that was called last and is not yet on its way
	held      int64   // until when it holds up those behind it
	heapIndex int     // in shard.due; -1 when nothing is due
}

// ownTerms are what the options say about one account.
type ownTerms struct {
	plan     string
	override map[string]Override
}

func newAccount(s *shard, name string, source netip.Addr) *account {
	return &account{shard: s, name: name, source: source, index: -1, heapIndex: -1, due: never}
}

// A shard is a part of the table with a lock of its own.
type shard struct {
	mu       sync.Mutex
	accounts index        // of two accounts with the same hash the second is a stranger
	ring     []*account   // all of them, to walk over when looking for one to forget
	size     atomic.Int32 // of the ring
	hand     int
	due      dueHeap
	alarm    *atomic.Pointer[func(int64)]
	report   *atomic.Pointer[func(Tally)]
	waiting  atomic.Int64
}

type table struct {
	seed      maphash.Seed
	shards    [shards]shard
	strangers [strangers]*account
	count     atomic.Int64
	hand      atomic.Uint32
	alarm     atomic.Pointer[func(int64)]
	report    atomic.Pointer[func(Tally)]
	strange   atomic.Uint64
}

func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].alarm, t.shards[i].report = &t.alarm, &t.report
	}
	for i := range t.strangers {
		t.strangers[i] = newAccount(&t.shards[i%shards], "", netip.Addr{})
	}
	return t
}

// find returns the account of an event with its shard locked, or nil when the event has none. Without create, an account that is
// not in the table is made up and forgotten again.
func (t *table) find(rs *rules, ev *weir.Event, now int64, create bool) *account {
	if ev.Account != "" {
		return t.get(rs, ev.Account, netip.Addr{}, now, create)
	}
	if rs.OnMissing == MissingRefuse || !ev.Source.IsValid() {
		return nil
	}
	return t.get(rs, "", sourceOf(rs, ev.Source), now, create)
}

// sourceOf is the network by which an event without an account is counted.
func sourceOf(rs *rules, addr netip.Addr) netip.Addr {
	return identify.Network(addr, rs.SourceV4, rs.SourceV6).Addr()
}

func (t *table) hash(name string, source netip.Addr) uint64 {
	if name != "" {
		return maphash.String(t.seed, name)
	}
	return maphash.Comparable(t.seed, source)
}

func (t *table) get(rs *rules, name string, source netip.Addr, now int64, create bool) *account {
	hash := t.hash(name, source)
	s := &t.shards[hash%shards]
	s.mu.Lock()
	a := s.accounts.get(hash)
	if a == nil || !a.is(name, source) {
		a = t.enrol(rs, s, hash, name, source, now, create)
	}
	if a.version != rs.version {
		a.update(rs)
	}
	return a
}

func (a *account) is(name string, source netip.Addr) bool {
	return a.name == name && (name != "" || a.source == source)
}

// enrol makes room for an account that is not in the table. It comes in with s locked, and returns with the shard of the
// account locked, which is another one for a stranger.
func (t *table) enrol(rs *rules, s *shard, hash uint64, name string, source netip.Addr, now int64, create bool) *account {
	known := name != "" && rs.known(name)
	room := func() bool { return known || t.count.Load() < int64(rs.MaxAccounts) }
	if !create {
		if room() {
			return newAccount(s, name, source)
		}
		return t.stranger(s, hash)
	}
	if !room() {
		s.forget(t, rs, now)
	}
	for i, looked := 0, 0; ; i++ {
		switch a := s.accounts.get(hash); {
		case a != nil && a.is(name, source):
			return a // somebody else was faster
		case a != nil:
			return t.stranger(s, hash)
		}
		if t.count.Add(1) <= int64(rs.MaxAccounts) || known {
			return s.add(hash, newAccount(s, name, source))
		}
		t.count.Add(-1)
		// The table is full. Somewhere else there may be somebody to forget.
		s.mu.Unlock()
		for found := false; !found && i < shards && looked < 2*looks; i++ {
			other := &t.shards[t.hand.Add(1)%shards]
			if other.size.Load() == 0 {
				continue
			}
			other.mu.Lock()
			var n int
			found, n = other.forget(t, rs, now)
			other.mu.Unlock()
			looked += n
		}
		s.mu.Lock()
		if !room() {
			t.strange.Add(1)
			return t.stranger(s, hash)
		}
	}
}

// stranger changes the lock on s for that on a set of strangers.
func (t *table) stranger(s *shard, hash uint64) *account {
	a := t.strangers[hash/shards%strangers]
	s.mu.Unlock()
	a.shard.mu.Lock()
	return a
}

func (s *shard) add(hash uint64, a *account) *account {
	a.index = len(s.ring)
	s.ring = append(s.ring, a)
	s.size.Add(1)
	s.accounts.put(hash, a)
	return a
}

// forget looks at a few accounts and drops those that are as good as new. It never drops one that is still being limited.
func (s *shard) forget(t *table, rs *rules, now int64) (found bool, looked int) {
	for range min(looks, len(s.ring)) {
		looked++
		s.hand = (s.hand + 1) % len(s.ring)
		a := s.ring[s.hand]
		if !a.idle(rs, now) {
			continue
		}
		last := s.ring[len(s.ring)-1]
		s.ring[a.index], last.index = last, a.index
		s.ring[len(s.ring)-1] = nil
		s.ring = s.ring[:len(s.ring)-1]
		s.size.Add(-1)
		s.accounts.remove(t.hash(a.name, a.source))
		t.count.Add(-1)
		found = true
		if len(s.ring) == 0 {
			break
		}
	}
	return found, looked
}

// idle reports whether nothing would be lost by forgetting the account.
func (a *account) idle(rs *rules, now int64) bool {
	if a.pins > 0 || a.first != nil {
		return false
	}
	for _, r := range rs.list {
		if r.slot <= len(a.states) && !r.idle(a.state(rs, r), a.terms(rs, r), now) {
			return false
		}
	}
	return true
}

// update takes plan and overrides from the rules of the day.
func (a *account) update(rs *rules) {
	a.version, a.own = rs.version, nil
	if a.name != "" && rs.known(a.name) {
		a.own = &ownTerms{rs.Members[a.name], rs.Overrides[a.name]}
	}
}

// plan is the plan of the account: as its membership says, else as the gate last said, else the default.
func (a *account) plan(rs *rules) string {
	switch {
	case a.own != nil && a.own.plan != "":
		return a.own.plan
	case a.said != "":
		return a.said
	}
	return rs.DefaultPlan
}

// terms returns the figures of a rule for the account.
func (a *account) terms(rs *rules, r *rule) terms {
	t := r.base
	if len(rs.Plans) > 0 {
		if o, ok := rs.Plans[a.plan(rs)][r.Name]; ok {
			t = o.apply(t)
		}
	}
	if a.own != nil {
		if o, ok := a.own.override[r.Name]; ok {
			t = o.apply(t)
		}
	}
	return t
}

// state returns the account's state for a rule. The pointer is good until the next call.
func (a *account) state(rs *rules, r *rule) *state {
	st := &a.state0
	if r.slot > 0 {
		if r.slot > len(a.states) {
			a.states = append(a.states, make([]state, r.slot-len(a.states))...)
		}
		st = &a.states[r.slot-1]
	}
	if since := rs.slots[r.slot].since; st.since != since {
		*st = state{since: since}
	}
	return st
}

// schedule says when call is worth while again.
func (a *account) schedule(due int64) {
	if due == a.due {
		return
	}
	a.due = due
	s := a.shard
	switch {
	case due == never && a.heapIndex >= 0:
		heap.Remove(&s.due, a.heapIndex)
	case a.heapIndex >= 0:
		heap.Fix(&s.due, a.heapIndex)
	case due != never:
		heap.Push(&s.due, a)
	}
	if len(s.due) > 0 && s.due[0] == a {
		if alarm := s.alarm.Load(); alarm != nil {
			(*alarm)(due)
		}
	}
}

// dueHeap orders accounts by when they are due.
type dueHeap []*account

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

func (h *dueHeap) Push(x any) {
	a := x.(*account)
	a.heapIndex = len(*h)
	*h = append(*h, a)
}

func (h *dueHeap) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	a.heapIndex = -1
	return a
}
