package quota

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/identify"
	"weir/internal/queue"
)

const (
	shards    = 256  // so that two events rarely want the same lock
	strangers = 1024 // limits shared by the accounts that have no entry in the table; a multiple of shards
	looks     = 8    // how many accounts are looked at to find one to forget
	pushes    = 4    // how often an account is pushed out for an entry, as another event may take it
)

// An account is what is known of one account, of one source without an account, or of a set of strangers. With many
// accounts, fetching one from memory is most of a decision's cost: so it is two cache lines long.
type account struct {
	hash    uint64 // by which the index finds it; 0 for strangers
	name    string
	rest    *rest  // nil for most
	version uint32 // of the rules that the profile was taken from
	index   int32  // in shard.ring; -1 for strangers, and for those who are forgotten
	traits
	pins  int32 // events that will come back to it: bytes may flow
	first state // of the rule in slot 0
	shard *shard
}

// The rest is what an account under one policy needs only when it has to wait, or is not like all others.
type rest struct {
	line    *line    // nil while nobody has waited
	profile *profile // nil for most
	states  []state  // of the rules behind the first
}

// own returns the rest of an account, to be filled in.
func (a *account) own() *rest {
	if a.rest == nil {
		a.rest = new(rest)
	}
	return a.rest
}

// line is where those of the account wait; nil while nobody has waited.
func (a *account) line() *line {
	if a.rest == nil {
		return nil
	}
	return a.rest.line
}

// profile is nil for an account that is like all others.
func (a *account) profile() *profile {
	if a.rest == nil {
		return nil
	}
	return a.rest.profile
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
		a.own().profile = &profile{source: source}
	}
	return a
}

func (a *account) source() netip.Addr {
	p := a.profile()
	if p == nil {
		return netip.Addr{}
	}
	return p.source
}

// setPlan notes the plan that the gate says the account is on, and returns what it said before.
func (a *account) setPlan(rs *rules, plan string) (before string) {
	p := a.profile()
	if p == nil {
		if plan == "" {
			return ""
		}
		p = new(profile)
		a.own().profile = p
	}
	if before = p.said; before != plan || p.terms == nil {
		p.said = plan
		a.update(rs)
	}
	return before
}

// A shard is a part of the table with a lock of its own. It is four cache lines long, and a decision needs the first.
type shard struct {
	mu       sync.Mutex
	latest   int64 // the latest time that anybody has brought
	accounts index // of two accounts with the same hash the second is a stranger

	ring     []*account   // all of them, to walk over when looking for one to forget; those on probation stand first
	size     atomic.Int32 // of the ring
	newcomer atomic.Int32 // how many of the ring are on probation
	changed  marks        // positions in the ring whose counters a store does not know of
	untold   marks        // positions in the ring whose counters the other nodes of a farm do not know of
	hand     uint32
	pushHand uint32
	number   uint16 // which one it is
	dirty    bool   // something of it is to be told to the other nodes of a farm

	pushed  pushed
	due     queue.Ranked[line]
	table   *table
	waiting atomic.Int64
	behind  int64 // how much earlier than latest it was when the last event read the clock
}

// maxLate is how late after reading the clock an event may be judged. A later one has a clock that was set back.
const maxLate = int64(time.Minute)

// clock returns the time of an event in the shard. An event that read the clock before others and comes after them gets
// their time: no period begins again, and nothing is charged to the past. The shard is locked.
func (s *shard) clock(now int64) int64 {
	if behind := s.latest - now; behind > 0 && behind <= maxLate {
		s.behind = behind
		return s.latest
	}
	s.latest, s.behind = now, 0
	return now
}

type table struct {
	shards    [shards]shard // first, so that they begin where a cache line does
	seed      maphash.Seed
	strangers [strangers]*account
	count     atomic.Int64
	hand      atomic.Uint32
	alarm     atomic.Pointer[func(int64)]
	strange   atomic.Uint64
	pushedOut atomic.Uint64
	sources   sources
	keeping   keeping
}

func newTable() *table {
	t := &table{seed: maphash.MakeSeed(), sources: newSources()}
	for i := range t.shards {
		t.shards[i].table, t.shards[i].number = t, uint16(i)
		t.shards[i].due = queue.NewRanked(func(a, b *line) bool { return a.due < b.due },
			func(l *line) *int { return &l.position })
	}
	for i := range t.strangers {
		t.strangers[i] = newAccount(&t.shards[i%shards], "", netip.Addr{})
		t.strangers[i].set(shared | accepted)
	}
	return t
}

// A manner says what becomes of an account that is not in the table.
type manner uint8

const (
	peek    manner = iota // it is made up and forgotten again
	enter                 // it is given an entry, if need be that of one on probation
	restore               // it is given an entry if one is free
)

// find returns the account of an event with its shard locked, or nil when the event has none.
func (t *table) find(rs *rules, ev *weir.Event, now int64, m manner) (*account, *stranger) {
	if rs.key != nil {
		return t.findKey(rs, ev, now, m)
	}
	if ev.Account != "" && !rs.doubts(ev) {
		if a := t.lookup(rs, ev.Account, netip.Addr{}); a != nil { // as most are
			return a, nil
		}
		return t.get(rs, ev.Account, netip.Addr{}, ev.Source, now, m)
	}
	if ev.Account == "" && rs.OnMissing == MissingRefuse || !ev.Source.IsValid() {
		return nil, nil
	}
	return t.get(rs, "", sourceOf(rs, ev.Source), ev.Source, now, m)
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

// get returns an account with its shard locked, or a set of strangers and the stranger. from may be invalid.
func (t *table) get(rs *rules, name string, source, from netip.Addr, now int64, m manner) (*account, *stranger) {
	hash := t.hash(name, source)
	s := &t.shards[hash%shards]
	s.mu.Lock()
	a := s.accounts.get(hash)
	var g *stranger
	if a == nil || !a.is(name, source) {
		a, g = t.enrol(rs, s, hash, name, source, from, s.clock(now), m)
	}
	if a.version != rs.version {
		a.update(rs)
	}
	return a, g
}

func (a *account) is(name string, source netip.Addr) bool {
	return a.name == name && (name != "" || a.source() == source)
}

// enrol finds an entry for an account that is not in the table, or a set of strangers. s is locked, before and after.
func (t *table) enrol(rs *rules, s *shard, hash uint64, name string, source, from netip.Addr, now int64, m manner) (
	*account, *stranger,
) {
	known := name != "" && rs.known(name)
	if m == peek {
		if known || t.welcome(rs, s, hash, from, now) {
			return newAccount(s, name, source), nil
		}
		return t.stranger(hash), nil
	}
	charge, by := false, counted
	switch {
	case known:
		t.count.Add(1)
	case m == restore:
		if !t.freeEntry(rs, s, now, false) {
			return t.stranger(hash), nil
		}
	default:
		by = t.sources.of(rs, from)
		marked := s.pushed.has(hash, now)
		charge = !marked && t.crowded(rs)
		if marked || charge && !t.sources.fits(rs, newKeys, by, now, true) {
			return t.share(rs, stranger{hash: hash, name: name, from: by, pushed: marked})
		}
		if !t.freeEntry(rs, s, now, true) {
			if charge {
				t.sources.give(rs, newKeys, by, now)
			}
			return t.share(rs, stranger{hash: hash, name: name, from: by})
		}
	}
	if a := s.accounts.get(hash); a != nil { // somebody else was faster, or the hash is the same
		t.count.Add(-1)
		if charge {
			t.sources.give(rs, newKeys, by, now)
		}
		if a.is(name, source) {
			return a, nil
		}
		return t.share(rs, stranger{hash: hash, name: name, from: by})
	}
	a := s.add(hash, newAccount(s, name, source), known)
	rs.characterize(a)
	if charge {
		a.set(charged)
	}
	return a, nil
}

// welcome reports whether enrol would give an account an entry of its own.
func (t *table) welcome(rs *rules, s *shard, hash uint64, from netip.Addr, now int64) bool {
	if s.pushed.has(hash, now) || t.crowded(rs) && !t.sources.fits(rs, newKeys, t.sources.of(rs, from), now, false) {
		return false
	}
	return t.count.Load() < int64(rs.MaxAccounts) || t.newcomers() > 0
}

// crowded reports whether the table is so full that what one source may bring is bounded: half of it.
func (t *table) crowded(rs *rules) bool { return 2*t.count.Load() >= int64(rs.MaxAccounts) }

// newcomers is how many accounts are on probation.
func (t *table) newcomers() (n int) {
	for i := range t.shards {
		n += int(t.shards[i].newcomer.Load())
	}
	return n
}

// freeEntry takes an entry for an account of a shard, and reports whether there was one. The shard is locked before and
// after, not always in between. It drops an account without use, or with push one on probation.
func (t *table) freeEntry(rs *rules, s *shard, now int64, push bool) bool {
	if t.take(rs) {
		return true
	}
	if found, _ := s.forget(t, rs, now); found && t.take(rs) {
		return true
	}
	s.mu.Unlock()
	looked := 0
	for i, found := 0, false; !found && i < shards && looked < 2*looks; i++ {
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
	if t.take(rs) {
		return true
	}
	if !push {
		return false
	}
	for i, found := 0, true; found && i < pushes; i++ {
		s.mu.Unlock()
		found = t.pushOut(rs, now)
		s.mu.Lock()
		if t.take(rs) {
			return true
		}
	}
	return false
}

func (t *table) take(rs *rules) bool {
	if t.count.Add(1) <= int64(rs.MaxAccounts) {
		return true
	}
	t.count.Add(-1)
	return false
}

func (t *table) share(rs *rules, g stranger) (*account, *stranger) {
	t.strange.Add(1)
	a := t.stranger(g.hash)
	if g.name == "" || rs.anonymous(g.name) {
		return a, nil // a source cannot earn an entry
	}
	g.account = a
	return a, &g
}

// stranger is the set of strangers of an account. It is in the same shard, so that the same lock protects both.
func (t *table) stranger(hash uint64) *account {
	return t.strangers[hash%shards+shards*(hash>>40%(strangers/shards))]
}

func (s *shard) add(hash uint64, a *account, known bool) *account {
	a.hash, a.index = hash, int32(len(s.ring))
	s.ring = append(s.ring, a)
	s.changed.grow(int(a.index))
	s.untold.grow(int(a.index))
	s.size.Add(1)
	s.accounts.put(a)
	if known {
		a.set(accepted)
	} else {
		s.swap(int(s.newcomer.Add(1))-1, int(a.index))
	}
	return a
}

// swap exchanges two positions of the ring.
func (s *shard) swap(i, j int) {
	if i == j {
		return
	}
	s.ring[i], s.ring[j] = s.ring[j], s.ring[i]
	s.ring[i].index, s.ring[j].index = int32(i), int32(j)
	s.changed.swap(i, j)
	s.untold.swap(i, j)
}

// forget looks at a few accounts and drops those that have used nothing, never one that is still limited.
func (s *shard) forget(t *table, rs *rules, now int64) (found bool, looked int) {
	now = s.clock(now)
	for range min(looks, len(s.ring)) {
		looked++
		s.hand = (s.hand + 1) % uint32(len(s.ring))
		a := s.ring[s.hand]
		if a.has(owed) || !a.idle(rs, now) {
			continue
		}
		s.drop(t, rs, a)
		found = true
		if len(s.ring) == 0 {
			break
		}
	}
	return found, looked
}

func (s *shard) drop(t *table, rs *rules, a *account) {
	a.lapse(rs)
	s.leave(a)
	s.size.Add(-1)
	s.accounts.remove(a)
	t.count.Add(-1)
}

// leave takes an account out of the ring; the last one moves there.
func (s *shard) leave(a *account) {
	if a.onProbation() {
		s.swap(int(a.index), int(s.newcomer.Add(-1)))
	}
	end := len(s.ring) - 1
	s.swap(int(a.index), end)
	s.changed.clear(end)
	s.untold.clear(end)
	s.ring[end] = nil
	s.ring = s.ring[:end]
	a.index = -1
}

// idle reports whether nothing would be lost by forgetting the account.
func (a *account) idle(rs *rules, now int64) bool {
	if a.pins > 0 || a.waits() {
		return false
	}
	for _, r := range rs.list {
		if a.counts(r) && !r.idle(a.state(r), a.terms(rs, r), now) {
			return false
		}
	}
	return true
}

// counts reports whether the account has a state for the rule; else it is fresh.
func (a *account) counts(r *rule) bool {
	return r.slot == 0 || a.rest != nil && r.slot <= len(a.rest.states)
}

// update takes from the current rules what they say about the account.
func (a *account) update(rs *rules) {
	a.version = rs.version
	a.take(rs)
	for _, r := range rs.list {
		if r.shared != nil && a.counts(r) {
			if st := a.state(r); st.ring != nil {
				r.recount(st, a.terms(rs, r))
			}
		}
	}
	a.noteContended(rs)
}

// take makes the account's profile.
func (a *account) take(rs *rules) {
	named := a.name != "" && rs.names(a.name)
	p := a.profile()
	if p == nil {
		if !named && rs.DefaultPlan == "" && !(a.has(shared) && (rs.shared != nil || rs.lender != nil)) {
			return
		}
		p = new(profile)
		a.own().profile = p
	}
	p.plan, p.override = "", nil
	if named {
		p.plan, p.override = rs.Members[rs.owner(a.name)], rs.figures(a.name)
		if rs.known(a.name) {
			a.accept()
		}
	}
	if p.terms = rs.terms(a.plan(rs), p.override); a.has(shared) {
		p.terms = rs.strangerTerms(a.plan(rs))
	}
}

// plan is the plan of the account: as its membership says, else as the gate last said, else the default.
func (a *account) plan(rs *rules) string {
	switch p := a.profile(); {
	case p != nil && p.plan != "":
		return p.plan
	case p != nil && p.said != "":
		return p.said
	}
	return rs.DefaultPlan
}

// terms is short, so that it is inlined for the accounts that are like all others.
func (a *account) terms(rs *rules, r *rule) *terms {
	if a.rest == nil {
		return &r.base
	}
	return a.ownTerms(rs, r)
}

func (a *account) ownTerms(rs *rules, r *rule) *terms {
	p := a.profile()
	if p == nil {
		return &r.base
	}
	if a.version != rs.version {
		a.update(rs)
	}
	return &p.terms[r.slot]
}

// state returns the account's state for a rule. The pointer is good until the next call.
func (a *account) state(r *rule) *state {
	if r.slot == 0 && a.first.since == r.since {
		return &a.first
	}
	return a.another(r)
}

// another is state for a rule that is not the first, or that the account meets for the first time.
func (a *account) another(r *rule) *state {
	st := &a.first
	if r.slot > 0 {
		own := a.own()
		if missing := r.slot - len(own.states); missing > 0 {
			own.states = append(own.states, make([]state, missing)...)
		}
		st = &own.states[r.slot-1]
	}
	if st.since != r.since {
		*st = state{since: r.since}
	}
	return st
}
