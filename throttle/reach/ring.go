package reach

import (
	"math"
	"time"
)

// fraction is one recipient in a slot: an inverse probability is no whole number.
const fraction = 1 << 8

// A ring counts new recipients in slots of all windows, the latest first, each window and the one before it.
type ring struct {
	at    int64 // seconds: the time of the latest slots
	slots [ringSlots]uint32
}

// maxTime is the latest time that is kept.
const maxTime = math.MaxInt32 << 8

func seconds(t time.Time) int64 { return min(max(t.Unix(), 0), maxTime) }

// lost is a time before which a clock is not believed: machines without a battery begin there. Time then stands still.
const lost = 50 * 365 * secDay

func instant(at int64) time.Time { return time.Unix(at, 0).UTC() }

// maxBack is how far a clock may run backwards before it is believed. Until then the slots stay where they are.
const maxBack = secHour

// move lets the clock run to now. A clock that ran far ahead and came back leaves everything as just counted.
func (g *ring) move(now int64) {
	if now <= g.at {
		if g.at-now > maxBack {
			g.at = now
		}
		return
	}
	from, to := gridOf(g.at), gridOf(now)
	g.at = now
	for i := range shapes {
		by := to[i] - from[i]
		if by == 0 {
			continue
		}
		slots := g.of(i)
		if by >= int64(len(slots)) {
			clear(slots)
			continue
		}
		copy(slots[by:], slots)
		clear(slots[:by])
	}
}

// of are the slots of a window and the one before it.
func (g *ring) of(i int) []uint32 { return g.slots[shapes[i].from : shapes[i].from+2*shapes[i].slots] }

// forget clears the windows before the current ones: what a flagged user tried there is not usual.
func (g *ring) forget() {
	for i := range shapes {
		clear(g.of(i)[shapes[i].slots:])
	}
}

func (g *ring) add(n float64) {
	units := uint64(min(n, math.MaxUint32/fraction)*fraction + 0.5)
	for i := range shapes {
		slot := &g.slots[shapes[i].from]
		*slot = uint32(min(uint64(*slot)+units, math.MaxUint32))
	}
}

// sum is how many were counted in a window, previous in the one before it, and latest in its latest slots.
func (g *ring) sum(w Window) float64      { return total(g.of(int(w))[:w.shape().slots]) }
func (g *ring) previous(w Window) float64 { return total(g.of(int(w))[w.shape().slots:]) }

func (g *ring) latest(w Window, slots int64) float64 { return total(g.of(int(w))[:slots]) }

func total(slots []uint32) float64 {
	sum := uint64(0)
	for _, n := range slots {
		sum += uint64(n)
	}
	return float64(sum) / fraction
}
