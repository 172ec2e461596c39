package admission

import (
	"hash/maphash"
	"time"

	"weir"
)

// The table of those who were turned away: sets of four entries, 2 MiB in all, made when it is first needed.
const (
	awaySets = 1 << 16
	awayWays = 4
	// awayFor is how long somebody is remembered who does not come again.
	awayFor = int64(2 * time.Minute)
	// An entry counts time in seconds; they come again after 2^20 of them.
	awayMask = 1<<20 - 1
)

// away remembers which clients were turned away. A retry is no new demand, and a client that was challenged and comes
// back with a stamp is none either. An entry is 40 bits of the client's hash, the second in which it was last seen, and
// whether it has come in since. The oldest entry of a set is forgotten when a fifth client comes.
type away struct {
	seed  maphash.Seed
	table *[awaySets][awayWays]uint64
	last  int64 // when somebody was last turned away
}

const awayIn = 1 << 20 // it has come in since

func (a *away) find(who client) (set *[awayWays]uint64, tag uint64) {
	h := who.hash(a.seed)
	return &a.table[h%awaySets], h >> 24 << 24
}

// age is how many seconds ago an entry was last seen. Times come from tick and never run backwards.
func age(e uint64, second int64) int64 { return (second - int64(e&awayMask)) & awayMask }

// note notes that a client was turned away, and reports whether it is new demand: its first try since it was let in.
func (a *away) note(who client, at int64) bool {
	if who.family == 0 {
		return true
	}
	if a.table == nil {
		a.table = new([awaySets][awayWays]uint64)
	}
	a.last = at
	set, tag := a.find(who)
	second := at / int64(time.Second)
	slot, oldest := 0, int64(-1)
	for i, e := range set {
		old := age(e, second)
		if e != 0 && e&^(1<<24-1) == tag && old <= awayFor/int64(time.Second) {
			set[i] = tag | uint64(second)&awayMask
			return e&awayIn != 0
		}
		if e == 0 {
			old = awayMask
		}
		if old > oldest {
			slot, oldest = i, old
		}
	}
	set[slot] = tag | uint64(second)&awayMask
	return true
}

// back notes that a client is let in, and reports whether it was turned away before.
func (a *away) back(who client, at int64) bool {
	if a.table == nil || at-a.last > awayFor || who.family == 0 {
		return false
	}
	set, tag := a.find(who)
	second := at / int64(time.Second)
	for i, e := range set {
		if e != 0 && e&^(1<<24-1) == tag && age(e, second) <= awayFor/int64(time.Second) {
			set[i] = e | awayIn
			return e&awayIn == 0
		}
	}
	return false
}

// TurnedAway notes that an event was challenged or refused because of the load, and has no ticket in line. It counts as
// demand, once for each client until it has been let in: a retry asks for nothing new. The gate calls it for all such
// events, also for those that Enter refused.
func (l *Lanes) TurnedAway(ev *weir.Event, now time.Time) {
	who := l.client(ev)
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	l.counts.TurnedAway++
	if l.away.note(who, at) {
		l.window.current().away++
		l.noteAway(who, false)
	}
	l.stir()
}
