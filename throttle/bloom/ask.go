package bloom

import (
	"time"

	"weir"
)

const (
	packet   = 1400                  // bytes, about the payload of one
	shortest = 20 * time.Millisecond // a grant is worth at least as much of a limiter's rate
	minPause = time.Millisecond
	maxTurn  = time.Second // after this time in line a flow asks whether those before it are gone
)

// Rations reports that bytes are limited.
func (p *pacer) Rations() bool { return true }

// Ask takes tokens for bytes before they flow. Flows of a network that find too few wait in line, and each leaves what
// those before it need. A flow that asks for the whole does not wait in line.
func (p *pacer) Ask(h weir.Hold, most int64, whole bool, now time.Time) (granted int64, again time.Time) {
	f, ok := h.Ref.(*flow)
	if !ok {
		return most, again
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paid >= most || f.paid > 0 && !whole {
		return f.use(most), again
	}
	s := p.setup.Load()
	var array [MaxLevels]Network
	nets := f.nets(s, &array)
	if len(nets) == 0 {
		return most, again
	}
	want, before := most, 0
	if !whole {
		want = min(most, s.levels[0].worth())
		before = p.lines.before(nets[0], f, now)
	}
	granted, wait := p.look(s, nets, want, most, before, now)
	if wait == 0 && !p.take(s, nets, f, granted, now) {
		wait = minPause // another flow was quicker
	}
	switch {
	case wait == 0:
		p.lines.leave(f)
		return granted, again
	case whole:
		return 0, again
	}
	return 0, p.lines.join(nets[0], f, now.Add(wait), now)
}

// worth is how many bytes are worth waiting for: about a packet, more where the limit is high, at most half of what a
// limiter holds. Flows at a low limit then send packets in turn, and not single bytes.
func (v *level) worth() int64 {
	some := int64(v.PerUnit) * int64(shortest/min(v.Unit, shortest)) * v.Grain
	return max(1, min(max(some, packet), int64(v.Capacity)*v.Grain/2))
}

// look returns how many bytes all limiters have for a flow, or how long until they have enough for it and those before.
func (p *pacer) look(s *setup, nets []Network, want, most int64, before int, now time.Time) (n int64,
	wait time.Duration) {
	n = most
	since := now.Sub(p.born)
	for i := range nets {
		v := &s.levels[i]
		all, _ := v.now.Available(nets[i], since-v.bornNow)
		one := v.Tokens(want)
		ahead := one * int64(before)
		n = min(n, max(want, (all-ahead)*v.Grain))
		if missing := v.now.needed(one) + ahead - all; missing > 0 {
			wait = max(wait, minPause, v.pause(missing))
		}
	}
	return n, wait
}

// take takes tokens for n bytes on every level, or none at all. The next table is charged with as many, and owes what
// it does not have, so that it has no more for a source than the limit leaves. f.mu is held.
func (p *pacer) take(s *setup, nets []Network, f *flow, n int64, now time.Time) bool {
	since := now.Sub(p.born)
	var taken [MaxLevels]Taken
	var took [MaxLevels]int64
	credit := f.credit
	for i := range nets {
		v := &s.levels[i]
		missing := max(0, n-credit[i])
		took[i] = (missing + v.Grain - 1) / v.Grain
		if credit[i] += took[i]*v.Grain - n; took[i] == 0 {
			continue
		}
		var ok bool
		if taken[i], ok = v.now.Take(nets[i], took[i], since-v.bornNow); !ok {
			for j := range i {
				if took[j] > 0 {
					s.levels[j].now.Give(taken[j], took[j], since-s.levels[j].bornNow)
				}
			}
			return false
		}
	}
	for i := range nets {
		if v := &s.levels[i]; v.next != nil {
			v.next.Charge(nets[i], took[i], since-v.bornNext)
		}
	}
	f.credit, f.from, f.taken = credit, s, taken
	return true
}

// Return gives back what was granted and did not flow, to where it came from. Less than a token stays with the flow.
func (p *pacer) Return(h weir.Hold, n int64, asked, now time.Time) {
	f, ok := h.Ref.(*flow)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.from == nil {
		return
	}
	var array [MaxLevels]Network
	nets := f.nets(f.from, &array)
	taken, since := asked.Sub(p.born), now.Sub(p.born)
	for i := range nets {
		v := &f.from.levels[i]
		f.credit[i] += n
		tokens := max(0, f.credit[i]/v.Grain)
		f.credit[i] -= tokens * v.Grain
		if f.taken[i].Last != 0 && taken >= v.bornNow {
			v.now.Give(f.taken[i], tokens, since-v.bornNow)
		}
		if v.next != nil && taken >= v.bornNext { // it was charged, too
			v.next.uncharge(nets[i], tokens, since-v.bornNext)
		}
	}
}

// uncharge gives back tokens that Charge took, or Drain from all limiters: first to those that owe, evenly as they were
// charged.
func (t *Table) uncharge(n Network, tokens int64, now time.Duration) {
	var array [MaxK]Slot
	slots := t.slots(t.key.Hash(n), &array)
	t.reach(t.unit(now))
	for _, evenly := range [...]bool{true, false} {
		for i := range slots {
			back := min(tokens, t.owed(slots[i:i+1]))
			if evenly {
				back = min(back, tokens/int64(len(slots)-i))
			}
			tokens -= t.giveUpTo(slots[i], back)
		}
	}
	t.Give(Taken{t.key.Hash(n), uint8(len(slots))}, tokens, now)
}
