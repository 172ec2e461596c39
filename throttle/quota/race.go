package quota

import (
	"math"
	"time"
)

// Where several nodes use up what is left of a limit faster than they hear of each other, each would take it. So they
// race by rules: in each lap a node takes of what is left no more than its share, which is that of what it has used. By
// the next lap it has heard what the others took. Nobody races for more than half of a limit, and a node that uses it
// alone has all of it.
type race struct {
	end   int64 // of the lap
	share int64 // what this node may take in it
	taken int64
}

const (
	// lap is longer than a message is under way, with the time that charges are gathered for it.
	lap = int64(5 * time.Millisecond)
	// leastRaced is the least limit that nodes race for: of lower ones a share of what is left is hardly one.
	leastRaced = 100
)

// enter takes in that the others have used more since they were last heard: does what is left last for some more
// messages of each?
func (r *rule) enter(st *state, t *terms, more int64) {
	p := st.peers()
	switch left := t.limit - st.used - st.others; {
	case left <= mul(more, foresight*int64(len(p.list))):
		if p.race == nil {
			p.race = new(race)
		}
	case left > t.limit/2: // it is another period
		p.race = nil
	}
}

// lapReady is when n fit into what this node may take. They fit into the limit.
func (r *rule) lapReady(st *state, t *terms, now, n int64) int64 {
	p := st.peers()
	left := t.limit - st.used - st.others
	if p.race == nil || t.limit < leastRaced || left > t.limit/2 || r.way != inPeriods && r.way != inStretches || r.bytes {
		return now
	}
	c := p.race
	if now >= c.end || c.end-now > lap {
		own, all := st.used, st.used+st.others
		if r.way == inStretches {
			own, all = 0, st.used
			for slot := range int64(buckets + 1) {
				own += st.ring.own(slot)
			}
		}
		// Who begins to use it has half of an even share at first.
		nodes := int64(len(p.list) + 1)
		part := float64(max(own, all/(2*nodes), 1)) / float64(max(all, 1))
		*c = race{end: now + lap, share: int64(math.Ceil(float64(left) * min(part, 1)))}
	}
	if c.taken > 0 && c.taken+n > c.share {
		return c.end
	}
	return now
}
