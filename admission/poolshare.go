package admission

import (
	"math"
	"time"
)

const (
	// mostOwed bounds what the pool can be owed: its share for that long. mostOwing bounds what the pool can owe: each
	// of its places for that long. Few requests take longer.
	mostOwed, mostOwing = 30 * time.Second, time.Minute
	// forgive is the half-life of owed while the lanes do not compete.
	forgive = 5 * time.Second
)

// A poolShare gives the general pool its share of the capacity, in time. While requests with a stamp wait, the pool
// earns its share and pays for the places that it has. So slow requests do not give it more than quick ones: of a
// capacity of one, a share of 10% has every tenth second, not every tenth request.
type poolShare struct {
	part   float64 // the share of the capacity, from 0 to 1
	earns  float64 // the same in places
	places int     // how many the pool may have at once while stamps wait, so that a sudden flood cannot take all
	owed   float64 // place-nanoseconds that the pool has earned and not used; below zero it owes them
}

func (g *poolShare) size(part float64, capacity int) {
	g.part = part
	g.earns = part * float64(capacity)
	// A tenth of thirty is three, whatever floating point makes of it.
	g.places = max(1, int(math.Ceil(g.earns-1e-9)))
}

// pass accounts for a stretch of time d. In it the pool had used places, and waiting requests of it waited. paying says
// whether requests with a stamp waited.
func (g *poolShare) pass(d time.Duration, paying bool, used, waiting int) {
	if !paying || used+waiting == 0 {
		if g.owed != 0 {
			g.owed *= math.Exp2(-float64(d) / float64(forgive))
			if math.Abs(g.owed) < float64(time.Microsecond) {
				g.owed = 0
			}
		}
		return
	}
	// It does not pay for places that it took while nobody else wanted them.
	change := (g.earns - float64(min(used, g.places))) * float64(d)
	if waiting == 0 && change > 0 { // it has all it wants
		change = min(change, max(0, -g.owed))
	}
	g.owed = max(-float64(g.places)*float64(mostOwing), min(g.owed+change, g.earns*float64(mostOwed)))
}

// poolNext reports whether the pool gets the next place, if both lanes wait and the pool has so many places.
func (g *poolShare) poolNext(used int) bool { return g.part > 0 && used < g.places && g.owed >= 0 }
