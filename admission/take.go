package admission

import (
	"time"

	"weir"
)

// Taking says how the general pool may take an event that did not pay.
type Taking struct {
	Covers int  // how many requests a ticket is worth whose number has been called
	AtOnce bool // it cannot be held: it is taken only where there is a place at once
	Always bool // as in the source document: only a number that has been called helps
}

// Take reports whether the general pool takes an event of which a stamp is asked, and notes the place in the event.
// It does where the number of its ticket has been called, where there is a place at once, and where it would be held
// no longer than pool_wait. Enter then takes or holds it. The standing is that of its ticket, if it has one.
func (l *Lanes) Take(ev *weir.Event, how Taking, now time.Time) (Standing, bool) {
	who := l.client(ev)
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	if !how.Always { // in the document's flow the pool leaves nothing to others but priority
		l.asked = at
	}
	var s Standing
	if ev.Place.Number != 0 {
		s = l.present(ev.Place.Number, ev.Source, how.Covers, at)
		switch s.State {
		case Called:
			ev.Place.Called = true
			return s, true
		case Spent:
			ev.Place = weir.Place{}
		}
	}
	if how.Always || !l.roomFor(who, how.AtOnce, at) {
		return s, false
	}
	ev.Place.Held = true
	if p := l.room.entries[ev.Place.Number]; p != nil { // it is held, and leaves the line
		l.takeOut(p)
		l.note(lineLeft, p, at)
	}
	return s, true
}

// HasRoom reports whether the pool would take an event, as Take does for one without a ticket, and takes nothing.
func (l *Lanes) HasRoom(ev *weir.Event, how Taking, now time.Time) bool {
	who := l.client(ev)
	l.mu.Lock()
	defer l.mu.Unlock()
	return !how.Always && l.roomFor(who, how.AtOnce, l.tick(now))
}

func (l *Lanes) roomFor(who client, atOnce bool, at int64) bool {
	if l.poolOpen(at) {
		return true
	}
	r := request{client: who, round: held}
	if atOnce || l.o.Strict && l.inLane(stamped) > 0 || l.clients[who] >= l.o.PerClient || l.full(pool) &&
		l.instead(r) == nil {
		return false
	}
	return l.expect(r, at) <= float64(*l.o.PoolWait)
}
