package bloom

import (
	"time"

	"weir"
)

const (
	packet   = 1400                  // bytes, about the payload of one
	shortest = 20 * time.Millisecond // of a limiter's rate is worth a grant
	minPause = time.Millisecond
	maxTurn  = time.Second // in line, after which a flow asks whether those before it are gone
)

// Rations reports that bytes are limited.
func (p *pacer) Rations() bool { return true }

// Ask takes tokens for bytes before they flow. Flows of a network that find too few stand in line, and each leaves what
// those before it need. Whoever asks for the whole does not wait, and stands in no line.
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
	var room [MaxLevels]Network
	nets := f.nets(s, &room)
	if len(nets) == 0 {
		return most, again
	}
	f.chargeNext(s, nets, now.Sub(p.born))
	want, before := most, 0
	if !whole {
		want = min(most, s.levels[0].worth())
		before = p.lines.before(nets[0], f, now)
	}
	granted, wait := p.look(s, nets, want, most, before, now)
	if wait == 0 && !p.take(s, nets, f, granted, now) {
		wait = minPause // somebody was quicker
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

// look returns how many bytes the limiters of all networks have for a flow, or how long it takes until they have what it
// wants beside what those before it want.
func (p *pacer) look(s *setup, nets []Network, want, most int64, before int, now time.Time) (n int64, wait time.Duration) {
	n = most
	since := now.Sub(p.born)
	for i := range nets {
		v := &s.levels[i]
		all, _ := v.now.Room(nets[i], since-v.bornNow)
		one := v.Tokens(want)
		ahead := one * int64(before)
		if n = min(n, (all-ahead)*v.Grain); all < one+ahead {
			v.evenOut(nets[i], all, since)
			wait = max(wait, minPause, v.pause(one+ahead-all))
		}
	}
	return n, wait
}

// evenOut leaves a source that is at its limit no more in the table that will take over than it has in this one. Otherwise
// it would get a burst with every change of the key.
func (v *level) evenOut(n Network, left int64, since time.Duration) {
	if v.next == nil {
		return
	}
	all, _ := v.next.Room(n, since-v.bornNext)
	v.next.Charge(n, max(0, all-left), since-v.bornNext)
}

// take takes tokens for n bytes on every level, or none at all. f.mu is held.
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
					s.levels[j].now.Give(taken[j], took[j])
				}
			}
			return false
		}
	}
	f.credit, f.from, f.taken = credit, s, taken
	f.unnoted += n
	return true
}

// Return gives back what was granted and did not flow, to the limiters that it came from. What is less than a token stays
// with the flow.
func (p *pacer) Return(h weir.Hold, n int64, _, _ time.Time) {
	f, ok := h.Ref.(*flow)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.from == nil {
		return
	}
	f.unnoted = max(0, f.unnoted-n)
	for i := range f.from.levels {
		if f.taken[i].Last == 0 {
			continue
		}
		v := &f.from.levels[i]
		f.credit[i] += n
		tokens := max(0, f.credit[i]/v.Grain)
		f.credit[i] -= tokens * v.Grain
		v.now.Give(f.taken[i], tokens)
	}
}

// chargeNext charges the table that will take over for what was granted before. That comes late, when it is known what
// was given back. f.mu is held.
func (f *flow) chargeNext(s *setup, nets []Network, since time.Duration) {
	n := f.unnoted
	f.unnoted = 0
	for i := range nets {
		if v := &s.levels[i]; v.next != nil && n > 0 {
			v.next.Charge(nets[i], n/v.Grain, since-v.bornNext)
		}
	}
}
