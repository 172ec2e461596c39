package quota

import (
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"

	"weir"
)

// traits are what else is known of an account: flags, how many events it was charged, up to maxEvents, and how many are
// under way. After probation, the figure of events is until when a store knows that it was accepted.
type traits struct {
	word  uint32        // changes under the shard's lock: flags, the figure of events, and how many have begun
	ended atomic.Uint32 // changes when an event ends, which needs no lock: flags, and how many have ended
}

const (
	owed      = 1 << iota // a store has to be told that it was reset
	accepted              // the upstream accepted it, or the options name it: nobody pushes it out
	shared                // it is a set of strangers
	charged               // its source was charged with it
	contended             // a limit of it may be contested: see state.contested, which costs more to ask
	anonymous             // its key names nobody: it stays on probation, as sources do

	oneEvent  = 1 << 6 // the figure of events, of 10 bits
	maxEvents = 1<<10 - 1
	oneBegun  = 1 << 16 // the events that have begun, the last 16 bits of them
)

// Of the word that changes when events end.
const (
	turnedAway = 1 << iota // the upstream turned the account away
	unanswered             // an event of it ended without an answer that says anything about it

	oneEnded = 1 << 16 // the events that have ended, the last 16 bits of them
)

func (t *traits) has(flag uint32) bool { return t.word&flag != 0 }
func (t *traits) set(flag uint32)      { t.word |= flag }
func (t *traits) unset(flag uint32)    { t.word &^= flag }
func (t *traits) onProbation() bool    { return !t.has(accepted) }

// begin counts an event of an account on probation. End must be told of its end.
func (t *traits) begin() {
	if t.events() < maxEvents {
		t.word += oneEvent
	}
	t.word += oneBegun
}

func (t *traits) end(o opinion) {
	flag := uint32(0)
	switch o {
	case none:
		flag = unanswered
	case rejects:
		flag = turnedAway
	}
	if t.ended.Load()&flag != flag {
		t.ended.Or(flag)
	}
	t.ended.Add(oneEnded)
}

// events is how many events the account was charged, up to maxEvents.
func (t *traits) events() uint32 { return t.word / oneEvent % (maxEvents + 1) }

// note notes until when a store knows that the account was accepted, and reports whether the store must be told.
func (t *traits) note(until int64) bool {
	day := uint32(until/86400%maxEvents + 1)
	if t.events() == day {
		return false
	}
	t.unset(maxEvents * oneEvent)
	t.set(day * oneEvent)
	return true
}

// idling reports whether no event of the account is under way, as far as they are counted.
func (t *traits) idling() bool { return t.word/oneBegun == t.ended.Load()/oneEnded }

// invented reports whether the upstream turned away all events of the account.
func (t *traits) invented() bool {
	return t.idling() && !t.has(accepted) && t.ended.Load()&(turnedAway|unanswered) == turnedAway
}

// worth orders accounts on probation: the first to be pushed out has the least. Keys that were turned away come before
// all others, and of those the ones that were used least.
func (t *traits) worth() uint32 {
	worth := t.events()
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

// opinionOf says what an outcome means for an account. Answers that may come before a login mean nothing.
func opinionOf(o *weir.Outcome) opinion {
	switch s := o.Status; {
	case !o.Done:
		return unasked
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return rejects
	case s == http.StatusSwitchingProtocols, s >= 200 && s < 300, s == http.StatusNotModified:
		return accepts
	case s == http.StatusBadRequest, s == http.StatusProxyAuthRequired, s == http.StatusRequestTimeout,
		s == http.StatusTooManyRequests:
		return none
	case s >= 400 && s < 500:
		return accepts
	}
	return none
}

// A stranger is an event of an account without an entry in the table. It says whose it is, so that it may earn one.
type stranger struct {
	*account        // the set of strangers that it is charged to
	pushed   bool   // it may have been pushed out
	name     string // of its own account
	plan     string // as the gate says
	hash     uint64
	from     origin
}

// origin is where an event of an account comes from, if that matters when the event ends.
func (t *table) origin(rs *rules, a *account, from netip.Addr) origin {
	if a.onProbation() && a.mayEarn() && t.crowded(rs) {
		return t.sources.of(rs, from)
	}
	return counted
}

// approve takes in that the upstream accepted an account on probation, brought from an origin. Its shard is locked.
func (t *table) approve(rs *rules, a *account, from origin, now int64) {
	if a.index < 0 || !a.mayEarn() || !a.onProbation() || !t.sources.fits(rs, acceptedKeys, from, now, true) {
		return
	}
	if a.has(charged) {
		t.sources.give(rs, newKeys, from, now)
	}
	a.accept()
	a.remember(rs)
}

// mayEarn reports whether the account may earn a place in the table.
func (a *account) mayEarn() bool { return a.name != "" && !a.has(anonymous) }

// accept lets an account keep its entry for as long as it is limited. Its shard is locked. A source stays on
// probation: an attacker who has many addresses must not fill the table.
func (a *account) accept() {
	if a.index < 0 || !a.mayEarn() || !a.onProbation() {
		return
	}
	s := a.shard
	s.swap(int(a.index), int(s.newcomer.Add(-1)))
	a.set(accepted)
	a.unset(maxEvents * oneEvent)
}

// leave takes in how an event of a stranger ended, with its shard locked. The lock may be given up in between. taken is
// what the event was charged to, and at when. Once the stranger's account has an entry of its own, that is moved there.
func (t *table) leave(rs *rules, g *stranger, o opinion, taken uint64, cost, at, now int64) {
	s := g.shard
	a := s.accounts.get(g.hash)
	if a == nil && o == accepts {
		a = t.admit(rs, g, now)
	}
	if a == nil || !a.is(g.name, netip.Addr{}) || o == unasked {
		return
	}
	if o == accepts {
		t.approve(rs, a, g.from, now)
	}
	if g.pushed {
		return // its set of strangers goes on counting it
	}
	g.each(rs, taken, func(r *rule, t *terms, st *state) {
		if r.way == level {
			return
		}
		r.roll(st, t, now)
		r.giveBack(st, t, at, r.price(cost), now)
		t, st = a.terms(rs, r), a.state(r)
		r.roll(st, t, now)
		if r.way == inPeriods && at < st.start {
			return // it was charged in a period that is over
		}
		a.charge(r, st, t, now, r.price(cost))
	})
}

// admit gives a stranger that the upstream accepted an entry of its own, on probation, or returns nil when there is
// none. What may have been pushed out begins with what its set of strangers has used: it has used no more than that.
func (t *table) admit(rs *rules, g *stranger, now int64) *account {
	s := g.shard
	if !t.sources.fits(rs, acceptedKeys, g.from, now, false) || !t.freeEntry(rs, s, now, true) {
		return nil
	}
	if a := s.accounts.get(g.hash); a != nil { // another event was faster
		t.count.Add(-1)
		return a
	}
	a := s.add(g.hash, newAccount(s, g.name, netip.Addr{}), false)
	rs.characterize(a)
	a.update(rs)
	a.setPlan(rs, g.plan)
	if g.pushed {
		for _, r := range rs.list {
			if r.way != level && g.counts(r) {
				from := g.state(r)
				r.roll(from, g.terms(rs, r), now)
				*a.state(r) = from.copy()
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
		c.ring = st.ring.copy()
	}
	return c
}

func (a *account) remember(rs *rules) {
	if a.index >= 0 && slices.ContainsFunc(rs.list, func(r *rule) bool { return r.kept }) {
		a.shard.changed.set(int(a.index))
	}
}
