package admission

import (
	"math"
	"time"
)

const (
	// mostOwed bounds, in seconds of its share, what the general pool can be owed; mostOwing, in seconds of a place,
	// what it can owe. Requests that take longer than that are rare.
	mostOwed, mostOwing = 30 * time.Second, time.Minute
	// forgive is the half-life of what is owed while nobody competes.
	forgive = 5 * time.Second
)

// A poolShare is what the general pool is owed, in nanoseconds of a place at the upstream. While those with a stamp
// wait, the pool earns its share of the capacity and pays for the places that it has. So it gets its share in time,
// whether its requests are slow or quick: of a single place it has every tenth second, not every tenth request.
type poolShare struct {
	part   float64 // of the capacity
	earns  float64 // places: the share of the capacity
	places int     // how many it may have at once while others wait, so that a sudden flood cannot take them all
	owed   float64
}

func (g *poolShare) size(part float64, capacity int) {
	g.part = part
	g.earns = part * float64(capacity)
	// A tenth of thirty is three, whatever floating point makes of it.
	g.places = max(1, int(math.Ceil(g.earns-1e-9)))
}

// pass accounts for a stretch of time in which the pool had so many places and so many of it were waiting.
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
	// Places that it took while nobody else wanted them are not held against it.
	change := (g.earns - float64(min(used, g.places))) * float64(d)
	if waiting == 0 && change > 0 { // it has all it wants
		change = min(change, max(0, -g.owed))
	}
	g.owed = max(-float64(g.places)*float64(mostOwing), min(g.owed+change, g.earns*float64(mostOwed)))
}

// poolNext reports whether the pool gets the next place, if both lanes wait and the pool has so many places.
func (g *poolShare) poolNext(used int) bool { return g.part > 0 && used < g.places && g.owed >= 0 }
