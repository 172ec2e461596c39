//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"time"

	"weir"
	"weir/throttle/bloom"
)

// care is what has to be done for the tables now and then. The gate's lock is held.
type care struct {
	levels   []level
	now      int           // the half that decides
	charged  bool          // the other half is charged: it will take over
	rotated  time.Duration // when the half of now took over, on the kernel's clock
	over     int           // times in a row that there was too much damage
	told     bool          // that there is too much
	judged   uint64        // packets that were judged when the tables were last tended
	estimate estimate
}

// A level is the two tables for networks of one width.
type level struct {
	tables [2]*bloom.Table // nil: not in use
	born   [2]time.Duration
}

// estimate is what was last found.
type estimate struct{ drained, collateral, attackers float64 }

// tooOften is how many times in a row there must be too much damage before the operator is told.
const tooOften = 3

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

// takeOver goes on with tables that are in use, as the state says.
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

// behind is how far a sweep keeps behind the clock of the program, which may read it at any time: no counter that the
// program finds is ever ahead of it.
const behind = 10 * time.Millisecond

// tend tends every table and estimates the damage. The program does not say that it has used them; its counters do.
func (k *kernel) tend(now time.Duration) {
	worst := estimate{}
	c, err := readCounters(k.counters)
	used := err != nil || c.Passed+c.Limited != k.care.judged
	k.care.judged = c.Passed + c.Limited
	for i, v := range k.care.levels {
		shape := k.plan.shapes[i]
		for half, t := range v.tables {
			if t == nil {
				continue
			}
			if used {
				t.Touch()
			}
			at := now - behind - v.born[half]
			t.Tend(at)
			if half != k.care.now {
				continue
			}
			var e estimate
			e.drained, e.collateral, e.attackers = shape.Damage(t.Drained(at))
			if e.collateral >= worst.collateral {
				worst = e
			}
		}
	}
	k.care.estimate = worst
}

// watch tells when too many innocent networks are refused, and when no longer.
func (k *kernel) watch(tell func(bloom.Notice)) {
	c, allowed := &k.care, float64(k.plan.opts.Bloom.Collateral)
	n := bloom.Notice{Collateral: weir.Share(c.estimate.collateral), Allowed: weir.Share(allowed),
		Attackers: int64(c.estimate.attackers), Bytes: k.bytes()}
	if c.estimate.collateral <= allowed {
		c.over = 0
		if c.told && c.estimate.collateral < allowed/2 {
			c.told = false
			n.What = bloom.NoticeUnder
			tell(n)
		}
		return
	}
	if c.over++; c.over >= tooOften && !c.told {
		c.told = true
		n.What = bloom.NoticeOver
		tell(n)
	}
}

// rotate makes the next tables in the half that is not in use, and lets them take over when they have been charged for
// long enough. A packet that is being judged while the control word changes goes by the word that it has read.
func (k *kernel) rotate(now time.Duration) {
	c := &k.care
	next := 1 - c.now
	if !c.charged && k.atRest() {
		c.rotated = now // nobody shares anything with anybody
		k.memory.state.Rotated = uint64(now)
		return
	}
	takeover := c.rotated + k.plan.opts.Bloom.Rotate.Std()
	var learn time.Duration
	for _, s := range k.plan.shapes {
		learn = max(learn, s.Learn())
	}
	switch {
	case !c.charged && now >= takeover-learn:
		for i := range c.levels {
			v := &c.levels[i]
			v.tables[next], v.born[next] = k.memory.renew(k.plan, i, next, now), now
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

func (k *kernel) bytes() (n int64) {
	for _, s := range k.plan.shapes {
		n += 2 * s.Bytes()
	}
	return n
}

// tendEvery is how often the tables have to be cared for.
func (k *kernel) tendEvery() time.Duration {
	every := time.Minute
	for _, s := range k.plan.shapes {
		every = min(every, s.TendEvery())
	}
	return every
}
