package quota

import (
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"weir"
)

// traits are what else is known of an account, in one word: flags, how many events it was charged, up to maxEvents, and how many of
// them are under way. Events are counted while it is on probation; the figure is then until when a store knows that it was accepted.
// Flags change under the shard's lock, but for those that an event sets when it ends: that needs no lock.
type traits struct{ word atomic.Uint32 }

const (
	owed       = 1 << iota // a store has to be told that it was reset
	accepted               // the upstream accepted it, or the options name it: nobody pushes it out
	shared                 // it is a set of strangers
	turnedAway             // the upstream turned it away
	unanswered             // an event of it ended without an answer that says anything about it

	oneEvent  = 1 << 5 // the figure of events, of 11 bits
	maxEvents = 1<<11 - 1
	underWay  = 1 << 16 // one event under way
)

func (t *traits) has(flag uint32) bool { return t.word.Load()&flag != 0 }
func (t *traits) set(flag uint32)      { t.word.Or(flag) }
func (t *traits) unset(flag uint32)    { t.word.And(^flag) }
func (t *traits) onProbation() bool    { return !t.has(accepted) }

// begin counts an event, and reports whether end must be told of its end.
func (t *traits) begin() bool {
	word := t.word.Load()
	switch {
	case word&accepted != 0:
		return false
	case word/oneEvent%(maxEvents+1) == maxEvents:
		t.word.Add(underWay)
	default:
		t.word.Add(underWay + oneEvent)
	}
	return true
}

// end takes in how an event ended.
func (t *traits) end(o opinion) {
	flag := uint32(0)
	switch o {
	case none:
		flag = unanswered
	case rejects:
		flag = turnedAway
	}
	if flag != 0 && !t.has(flag) {
		t.set(flag)
	}
	t.word.Add(^uint32(underWay - 1))
}

// tell notes until when a store knows that the account was accepted, and reports whether that is news.
func (t *traits) tell(until int64) bool {
	day := uint32(until/86400%maxEvents+1) * oneEvent
	if t.word.Load()&(maxEvents*oneEvent) == day {
		return false
	}
	t.unset(maxEvents * oneEvent)
	t.set(day)
	return true
}

// idling reports whether no event of the account is under way, as far as they are counted.
func (t *traits) idling() bool { return t.word.Load() < underWay }

// invented reports whether all that the account ever got is to be turned away.
func (t *traits) invented() bool {
	word := t.word.Load()
	return word&turnedAway != 0 && word&(unanswered|accepted) == 0 && word < underWay
}

// worth orders accounts on probation: the first to be pushed out has the least. Keys that were turned away come before all others, and
// of those the ones that were used least.
func (t *traits) worth() uint32 {
	worth := t.word.Load() / oneEvent % (maxEvents + 1)
	if !t.invented() {
		worth += maxEvents + 1
	}
	return worth
}

// An opinion is what an answer of the upstream says about the account that asked.
type opinion uint8

const (
	unasked opinion = iota // the event did not get there
	none                   // nothing
	accepts                // it knows the account
	rejects                // it turned the account away
)

// opinionOf says what an outcome tells about an account. Servers give some answers before they look at who asks, and a redirect may
// lead to a login: those say nothing.
func opinionOf(o weir.Outcome) opinion {
	switch s := o.Status; {
	case !o.Done:
		return unasked
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return rejects
	case s == http.StatusSwitchingProtocols, s >= 200 && s < 300, s == http.StatusNotModified:
		return accepts
	case s == http.StatusBadRequest, s == http.StatusProxyAuthRequired, s == http.StatusRequestTimeout, s == http.StatusTooManyRequests:
		return none
	case s >= 400 && s < 500:
		return accepts
	}
	return none
}

// An arrival is an event of an account that the table does not know for sure. Others need none.
type arrival struct {
	*account            // whom it is charged to
	guest    bool       // that is a set of strangers
	pushed   bool       // the account may have been pushed out
	name     string     // a guest's
	plan     string     // a guest's, as the gate says
	hash     uint64     // a guest's
	from     netip.Addr // where it comes from. Without a guest: who was charged with a newcomer; invalid once that is settled
}

// accept gives an account in the table its place for as long as it is limited. Its shard is locked. A source stays on probation: an
// address is nobody's account, and who has many of them must not fill the table.
func (a *account) accept() {
	if a.index < 0 || a.name == "" || !a.onProbation() {
		return
	}
	s := a.shard
	s.swap(int(a.index), int(s.newcomer.Add(-1)))
	a.set(accepted)
	a.unset(maxEvents * oneEvent)
}

// settled takes in what the upstream said about the account of an arrival. The shard is locked, before and after, and may be unlocked in
// between. taken is what the event was charged to, and at when.
func (t *table) settled(rs *rules, ar *arrival, o opinion, taken uint64, cost, at, now int64) {
	if !ar.guest {
		if o == accepts && ar.from.IsValid() {
			t.bringers.give(rs, ar.from, whole-tenth)
			ar.from = netip.Addr{}
		}
		return
	}
	s := ar.shard
	a := s.accounts.get(ar.hash)
	if a == nil && o == accepts {
		a = t.admit(rs, s, ar, now)
	}
	if a == nil || !a.is(ar.name, netip.Addr{}) || o == unasked {
		return
	}
	if o == accepts && a.onProbation() {
		a.accept()
		a.remember(rs)
	}
	if ar.pushed {
		return // what strangers share goes on counting it
	}
	each(taken, func(slot int) {
		r := rs.slots[slot].rule
		if r.way == level {
			return
		}
		terms, st := ar.terms(rs, r), ar.state(rs, r)
		r.roll(st, terms, now)
		r.give(st, terms, at, r.price(cost), now)
		terms, st = a.terms(rs, r), a.state(rs, r)
		r.roll(st, terms, now)
		if r.way == inPeriods && at < st.start {
			return // it was charged in a period that is over
		}
		a.charge(r, st, terms, now, r.price(cost))
	})
}

// admit gives a guest that the upstream accepted a place of its own, or returns nil when there is none. What may have been pushed out
// begins with what its set of strangers has used: it has used no more than that.
func (t *table) admit(rs *rules, s *shard, ar *arrival, now int64) *account {
	unit := t.crowded(rs) && ar.from.IsValid()
	if unit && !t.bringers.take(rs, ar.from, now, tenth) {
		return nil
	}
	if !t.makeRoom(rs, s, now, true) {
		return nil
	}
	if a := s.accounts.get(ar.hash); a != nil { // somebody else was faster
		t.count.Add(-1)
		return a
	}
	a := s.add(ar.hash, newAccount(s, ar.name, netip.Addr{}), false)
	a.update(rs)
	a.says(rs, ar.plan)
	if ar.pushed {
		for _, r := range rs.list {
			if r.way != level && ar.counts(r) {
				from := ar.state(rs, r)
				r.roll(from, ar.terms(rs, r), now)
				*a.state(rs, r) = from.copy()
			}
		}
	}
	return a
}

// copy returns what a state has counted, without those who wait.
func (st *state) copy() state {
	c := *st
	c.waiting, c.ahead, c.pace = 0, 0, 0
	if st.ring != nil {
		ring := *st.ring
		ring.changed = 1<<len(ring.cells) - 1
		c.ring = &ring
	}
	return c
}

// remember sees to it that a store is told of the account.
func (a *account) remember(rs *rules) {
	if i := slices.IndexFunc(rs.list, func(r *rule) bool { return r.kept }); i >= 0 {
		a.mark(rs.list[i])
	}
}
