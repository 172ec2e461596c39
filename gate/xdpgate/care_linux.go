//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"time"

	"weir/throttle/bloom"
)

// care is what the upkeep of the tables needs to remember. The gate's lock is held.
type care struct {
	bloom.Watch
	levels  []level
	now     int           // the half that decides
	charged bool          // the other half is charged: it will take over
	rotated time.Duration // when the deciding half took over, on the kernel's clock
	judged  uint64        // packets that had been judged when the tables were last tended
}

// A level is the two tables for networks of one width.
type level struct {
	tables [2]*bloom.Table // nil: not in use
	born   [2]time.Duration
}

// fresh makes the tables of a first start: the first half decides.
func (k *kernel) fresh(now time.Duration) {
	s := k.memory.state
	s.Control, s.Rotated, s.Rotations = 0, uint64(now), 0
	k.care = care{levels: make([]level, len(k.plan.shapes)), rotated: now}
	for i := range k.care.levels {
		v := &k.care.levels[i]
		v.tables[0], v.born[0] = k.memory.renew(k.plan, i, 0, now), now
	}
}

// takeOver goes on with the tables that are in use, as the shared state says.
func (k *kernel) takeOver(now time.Duration) {
	s := k.memory.state
	control := k.memory.control()
	k.care = care{levels: make([]level, len(k.plan.shapes)), now: int(control & controlHalf),
		charged: control&controlCharge != 0, rotated: time.Duration(s.Rotated)}
	for i := range k.care.levels {
		v := &k.care.levels[i]
		for half := range v.tables {
			if half == k.care.now || k.care.charged {
				v.tables[half], v.born[half] = k.memory.resume(k.plan, i, half, now),
					time.Duration(s.Half[i][half].Origin)
			}
		}
	}
}

// behind is how far a sweep keeps behind the program's clock, which the program may read at any time. So the program
// never finds a counter that is ahead of its clock.
const behind = 10 * time.Millisecond

// tend tends every table and estimates the damage. The program does not say that it has used them; its counters do.
func (k *kernel) tend(now time.Duration) {
	k.care.Estimate = bloom.Estimate{}
	c, err := readCounters(k.counters)
	used := err != nil || c.Passed+c.Limited != k.care.judged
	k.care.judged = c.Passed + c.Limited
	for i, v := range k.care.levels {
		for half, t := range v.tables {
			if t == nil {
				continue
			}
			if used {
				t.Touch()
			}
			at := now - behind - v.born[half]
			t.Tend(at)
			if half == k.care.now {
				k.care.Worst(k.plan.shapes[i].Damage(t.Drained(at)))
			}
		}
	}
}

// rotate makes the next tables in the half that is not in use, and lets them take over when they have been charged long
// enough. A packet that is being judged while the control word changes goes by the word that it has read.
func (k *kernel) rotate(now time.Duration) {
	c := &k.care
	next := 1 - c.now
	if !c.charged && k.atRest() {
		c.rotated = now // no network shares a limiter with one that was used
		k.memory.state.Rotated = uint64(now)
		return
	}
	takeover := c.rotated + k.plan.opts.Bloom.Rotate.Std()
	learn := k.plan.shapes.Learn()
	switch {
	case !c.charged && now >= takeover-learn:
		for i := range c.levels {
			v := &c.levels[i]
			// The units of both tables begin together, so that neither gives a unit more than the other. The program
			// does not know times before a table was made.
			unit := k.plan.shapes[i].Unit
			made := v.born[c.now] + (now-v.born[c.now])/unit*unit
			v.tables[next], v.born[next] = k.memory.renew(k.plan, i, next, made), made
			v.tables[next].Empty()
		}
		c.charged = true
		k.memory.flag(controlCharge, true)
	case c.charged && now >= takeover && now >= c.levels[0].born[next]+learn:
		control := k.memory.control()&^controlCharge ^ controlHalf
		k.memory.set(control)
		for i := range c.levels {
			c.levels[i].tables[c.now] = nil
		}
		c.now, c.charged, c.rotated = next, false, now
		k.memory.state.Rotated = uint64(now)
		k.memory.state.Rotations++
	}
}

// atRest reports whether all limiters are full.
func (k *kernel) atRest() bool {
	for _, v := range k.care.levels {
		if t := v.tables[k.care.now]; t != nil && !t.AtRest() {
			return false
		}
	}
	return true
}

// tendEvery is how often the tables must be tended.
func (k *kernel) tendEvery() time.Duration {
	every := time.Minute
	for _, s := range k.plan.shapes {
		every = min(every, s.TendEvery())
	}
	return every
}
