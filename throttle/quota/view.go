package quota

import (
	"net/netip"
	"time"

	"weir"
)

// AccountState is what a quota knows of one account.
type AccountState struct {
	Account string        `json:"account"`
	Plan    string        `json:"plan,omitempty"`
	Rules   []weir.Figure `json:"rules"`
	Waiting int           `json:"waiting"`
}

// Stats is the size of a quota's table.
type Stats struct {
	Accounts int `json:"accounts"`
	// of those accounts: the ones that no upstream has accepted yet, and the sources
	Probation int    `json:"probation"`
	Waiting   int    `json:"waiting"`
	Strangers uint64 `json:"strangers"`  // events of accounts without an entry in the table, since the start
	PushedOut uint64 `json:"pushed_out"` // accounts on probation that were pushed out by others, since the start
	Capped    uint64 `json:"capped"`     // answers that said a higher cost than the options allow, since the start
	Unsavable uint64 `json:"unsavable"`  // counters that no store takes: an id that is too long, or no text
	// In a farm, what was told to the other nodes and heard of them; nil elsewhere.
	Farm *SharedStats `json:"farm,omitempty"`
	// Where policies have farm: exact, how this node deals with the engine; nil elsewhere.
	Lent *LenderStats `json:"lent,omitempty"`
}

// Account returns the state of one account, or of one source address where it is counted without an account. It reports
// false when nothing is known of it: it then has all of its limits.
func (q *Quota) Account(name string, now time.Time) (AccountState, bool) {
	rs := q.rules.Load()
	a := q.table.known(rs, name)
	if a == nil {
		return AccountState{}, false
	}
	defer a.shard.mu.Unlock()
	at := a.shard.clock(nanos(now))
	state := AccountState{Account: name, Plan: a.plan(rs)}
	if l := a.line(); l != nil {
		state.Waiting = l.waiting
	}
	for _, r := range rs.list {
		if t := a.terms(rs, r); !t.exempt {
			st := a.state(r)
			r.roll(st, t, at)
			state.Rules = grow(state.Rules)
			f := &state.Rules[len(state.Rules)-1]
			r.figure(f, st, t, at)
			f.Remaining = max(0, f.Remaining-st.ahead) // the rest is kept for those in line
		}
	}
	return state, true
}

// Reset forgets what an account has used and calls those of it who wait. Places at once stay taken until they are given
// back. Dirty reports it. It returns false when nothing is known of the account.
func (q *Quota) Reset(name string, now time.Time) bool {
	rs := q.rules.Load()
	a := q.table.known(rs, name)
	if a == nil && rs.lender != nil { // the engine may know it
		if a, _ = q.table.get(rs, name, netip.Addr{}, netip.Addr{}, nanos(now), restore); a.index < 0 {
			a.shard.mu.Unlock()
			return false
		}
	}
	if a == nil {
		return false
	}
	defer a.shard.mu.Unlock()
	at := a.shard.clock(nanos(now))
	for _, r := range rs.list {
		switch {
		case r.way == level:
		case r.lends(a.terms(rs, r)):
			p := a.borrows(rs, r).borrower
			p.forget = true
			p.call(at)
		default:
			st := a.state(r)
			a.wipe(r, st, a.terms(rs, r), max(nanos(now), st.resetAt()+1), at)
		}
	}
	a.callDue(rs, a.shard.clock(at))
	return true
}

// wipe forgets what an account has used of a rule, as it was reset at a time.
func (a *account) wipe(r *rule, st *state, t *terms, reset, now int64) {
	st.forget(r.way)
	if r.shared != nil {
		p := st.meet()
		p.reset, p.wiped = reset, now
		a.shard.latest = max(a.shard.latest, now+1) // what is charged from now on is charged later
	}
	a.mark(r, st, t, now)
	if r.kept && a.index >= 0 && a.shard.table.keeping.on.Load() {
		a.set(owed)
	}
}

// Rules lists the names of the policies, as answers have them.
func (q *Quota) Rules() (names []string) {
	for _, r := range q.rules.Load().list {
		names = append(names, r.Name)
	}
	return names
}

// Stats returns the size of the table.
func (q *Quota) Stats() Stats {
	s := Stats{Accounts: int(q.table.count.Load()), Probation: q.table.newcomers(), Strangers: q.table.strange.Load(),
		PushedOut: q.table.pushedOut.Load(), Capped: q.capped.Load(), Unsavable: q.table.keeping.unsavable.Load()}
	for i := range q.table.shards {
		s.Waiting += int(q.table.shards[i].waiting.Load())
	}
	if shared := q.rules.Load().shared; shared != nil {
		s.Farm = new(shared.Stats())
	}
	if lender := q.rules.Load().lender; lender != nil {
		s.Lent = new(lender.Stats())
	}
	return s
}

// known returns an account of the table with its shard locked, by its name or its source address, or nil.
func (t *table) known(rs *rules, name string) *account {
	if a := t.lookup(rs, name, netip.Addr{}); a != nil {
		return a
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return t.lookup(rs, "", sourceOf(rs, addr))
	}
	return nil
}

func (t *table) lookup(rs *rules, name string, source netip.Addr) *account {
	hash := t.hash(name, source)
	s := &t.shards[hash%shards]
	s.mu.Lock()
	a := s.accounts.get(hash)
	if a == nil || !a.is(name, source) {
		s.mu.Unlock()
		return nil
	}
	if a.version != rs.version {
		a.update(rs)
	}
	return a
}
