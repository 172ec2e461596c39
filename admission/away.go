package admission

import (
	"hash/maphash"
	"time"

	"weir"
	"weir/internal/tables"
)

// The table of those who were turned away: 3 MiB.
const (
	awaySets = 1 << 16
	awayWays = 4
	// awayFor is for how many seconds a client is remembered that does not come again.
	awayFor = 120
)

// An absence is when a client was last turned away, in seconds, and whether it has come in since.
type absence struct {
	last uint32
	in   bool
}

// Worth makes a full table forget the client that was turned away longest ago. Times are those of tick.
func (a *absence) Worth(second int64) uint64 {
	if ago := uint32(second) - a.last; ago <= awayFor {
		return uint64(awayFor - ago + 1)
	}
	return 0
}

// away remembers which clients were turned away, so that each of them counts as demand once: not again when it retries,
// nor when it was challenged and comes back with a stamp.
type away struct {
	seed  maphash.Seed
	table *tables.Sets[absence, *absence]
	last  int64 // when somebody was last turned away
}

func second(at int64) int64 { return at / int64(time.Second) }

// note notes that a client was turned away, and reports whether it is new demand: its first try since it was let in.
func (a *away) note(who client, at int64) bool {
	if who.family == 0 {
		return true
	}
	a.last = at
	set := a.table.Lock(who.hash(a.seed))
	defer set.Unlock()
	v := set.Enter(second(at))
	fresh := v.last == 0 || v.in
	*v = absence{last: uint32(second(at))}
	return fresh
}

// back notes that a client is let in, and reports whether it was turned away before.
func (a *away) back(who client, at int64) bool {
	if a.table.Empty() || second(at-a.last) > awayFor || who.family == 0 {
		return false
	}
	set := a.table.Lock(who.hash(a.seed))
	defer set.Unlock()
	v := set.Find(second(at))
	if v == nil || v.in {
		return false
	}
	v.in = true
	return true
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
	l.noteChange()
}
