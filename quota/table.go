package quota

import (
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

// An account is what is known of one account, or of one source where there is no account, or of a set of strangers. With many
// accounts, most of the cost of a decision is to fetch the account from memory: so it is two cache lines long, and what few
// accounts have stands elsewhere.
type account struct {
	name    string
	line    *line    // nil while nobody has waited
	profile *profile // nil for most
	version uint32   // of the rules that the profile was taken from
	pins    int32    // events that will come back to it: bytes may flow
	first   state    // of the rule in slot 0
	more    *[]state // of those behind it
	shard   *shard
	index   int32 // in shard.ring; -1 for strangers, and for those who are forgotten
	owed    bool  // a store has to be told that it was reset
}

// A profile is what sets an account apart.
type profile struct {
	source   netip.Addr          // where there is no name
	plan     string              // as the members say
	said     string              // the plan as the gate last said
	override map[string]Override // as the options say
	terms    []terms             // by slot, for all that
}

func newAccount(s *shard, name string, source netip.Addr) *account {
	a := &account{shard: s, name: name, index: -1}
	if source.IsValid() {
		a.profile = &profile{source: source}
	}
	return a
}

// source is where an account without a name comes from.
func (a *account) source() netip.Addr {
	if a.profile == nil {
		return netip.Addr{}
	}
	return a.profile.source
}

// says takes in which plan the gate says that the account is on, and returns what it said before.
func (a *account) says(rs *rules, plan string) (before string) {
	if a.profile == nil {
		if plan == "" {
			return ""
		}
		a.profile = &profile{}
	}
	if before = a.profile.said; before != plan || a.profile.terms == nil {
		a.profile.said = plan
		a.update(rs)
	}
	return before
}

// A shard is a part of the table with a lock of its own.
type shard struct {
	mu       sync.Mutex
	accounts index        // of two accounts with the same hash the second is a stranger
	ring     []*account   // all of them, to walk over when looking for one to forget
	size     atomic.Int32 // of the ring
	changed  marks        // places in the ring whose counters a store does not know of
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
	keeping   keeping
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
	if ev.Account != "" && !rs.doubts(ev) {
		return t.get(rs, ev.Account, netip.Addr{}, now, create)
	}
	if ev.Account == "" && rs.OnMissing == MissingRefuse || !ev.Source.IsValid() {
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
	return a.name == name && (name != "" || a.source() == source)
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
	a.index = int32(len(s.ring))
	s.ring = append(s.ring, a)
	s.changed.grow(int(a.index))
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
		if a.owed || !a.idle(rs, now) {
			continue
		}
		s.leave(a)
		s.size.Add(-1)
		s.accounts.remove(t.hash(a.name, a.source()))
		t.count.Add(-1)
		found = true
		if len(s.ring) == 0 {
			break
		}
	}
	return found, looked
}

// leave takes an account out of the ring; the last one takes its place.
func (s *shard) leave(a *account) {
	at, end := int(a.index), len(s.ring)-1
	last := s.ring[end]
	s.changed.clear(at)
	if at != end && s.changed.has(end) {
		s.changed.set(at)
		s.changed.clear(end)
	}
	s.ring[at], last.index = last, a.index
	s.ring[end] = nil
	s.ring = s.ring[:end]
	a.index = -1
}

// idle reports whether nothing would be lost by forgetting the account.
func (a *account) idle(rs *rules, now int64) bool {
	if a.pins > 0 || (a.line != nil && a.line.first != nil) {
		return false
	}
	for _, r := range rs.list {
		if a.has(r) && !r.idle(a.state(rs, r), a.terms(rs, r), now) {
			return false
		}
	}
	return true
}

// has reports whether the account has a state for the rule; else it is fresh.
func (a *account) has(r *rule) bool { return r.slot == 0 || a.more != nil && r.slot <= len(*a.more) }

// update takes from the rules of the day what they say about the account.
func (a *account) update(rs *rules) {
	a.version = rs.version
	known := a.name != "" && rs.known(a.name)
	if a.profile == nil {
		if !known && rs.DefaultPlan == "" {
			return
		}
		a.profile = &profile{}
	}
	p := a.profile
	p.plan, p.override = "", nil
	if known {
		p.plan, p.override = rs.Members[a.name], rs.Overrides[a.name]
	}
	p.terms = rs.terms(a.plan(rs), p.override)
}

// plan is the plan of the account: as its membership says, else as the gate last said, else the default.
func (a *account) plan(rs *rules) string {
	switch p := a.profile; {
	case p != nil && p.plan != "":
		return p.plan
	case p != nil && p.said != "":
		return p.said
	}
	return rs.DefaultPlan
}

// terms returns the figures of a rule for the account.
func (a *account) terms(rs *rules, r *rule) *terms {
	if a.profile == nil {
		return &r.base
	}
	if a.version != rs.version {
		a.update(rs)
	}
	return &a.profile.terms[r.slot]
}

// state returns the account's state for a rule. The pointer is good until the next call.
func (a *account) state(rs *rules, r *rule) *state {
	st := &a.first
	if r.slot > 0 {
		st = a.behind(r.slot)
	}
	if since := rs.slots[r.slot].since; st.since != since {
		*st = state{since: since}
	}
	return st
}

func (a *account) behind(slot int) *state {
	if a.more == nil {
		a.more = new([]state)
	}
	if missing := slot - len(*a.more); missing > 0 {
		*a.more = append(*a.more, make([]state, missing)...)
	}
	return &(*a.more)[slot-1]
}
