package policy

import (
	"slices"
	"time"

	"weir"
)

// Ask asks every throttle that rations bytes for up to most of them before they flow, and returns how many may. Where
// it is none, again is when to ask again. The whole is granted or not, and nobody waits for it. Call Flow for what has
// flowed, and Return for what has not. Throttles in shadow are not asked; Flow charges them.
func (p *Pass) Ask(most int64, whole bool, now time.Time) (granted int64, again time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	granted = most
	for i, link := range p.chain.links {
		h := &p.held[i]
		r, ok := link.Throttle.(weir.Rationer)
		if !ok || h.hold.IsZero() || link.Shadow.Load() {
			continue
		}
		n, then := r.Ask(h.hold, granted, whole, now)
		h.granted += n
		if n < granted {
			// All or nothing: those before give back what this one does not grant.
			p.giveBack(i, granted-n, now, now)
			granted = n
		}
		if n == 0 {
			return 0, then
		}
	}
	return granted, again
}

// Meters reports whether a throttle of the chain counts bytes.
func (c *Chain) Meters() bool {
	return slices.ContainsFunc(c.links, func(link *Link) bool {
		_, ok := link.Throttle.(weir.Meter)
		return ok
	})
}

// MetersNow is Meters with the limits that throttles have at the moment: one that could count bytes, and has no limit
// on them, does not count. An event that was judged under such limits need not ask, nor tell what flows.
func (c *Chain) MetersNow() bool {
	for _, link := range c.links {
		if _, ok := link.Throttle.(weir.Meter); !ok {
			continue
		}
		if r, ok := link.Throttle.(weir.Rationer); !ok || r.Rations() {
			return true
		}
	}
	return false
}

// Rations reports whether a throttle of the chain that is not in shadow has a limit on bytes.
func (c *Chain) Rations() bool {
	for _, link := range c.links {
		if r, ok := link.Throttle.(weir.Rationer); ok && !link.Shadow.Load() && r.Rations() {
			return true
		}
	}
	return false
}

// Return gives back bytes that were asked for at a time and did not flow.
func (p *Pass) Return(n int64, asked, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > 0 {
		p.giveBack(len(p.held), n, asked, now)
	}
}

// giveBack returns bytes to the first links. p.mu is held.
func (p *Pass) giveBack(links int, n int64, asked, now time.Time) {
	for i := range links {
		h := &p.held[i]
		back := min(n, h.granted) // a link that was in shadow has granted nothing
		if back == 0 || h.hold.IsZero() {
			continue
		}
		h.granted -= back
		p.chain.links[i].Throttle.(weir.Rationer).Return(h.hold, back, asked, now)
	}
}

// Flow tells every throttle that counts bytes what has flowed, and returns until when the flow should pause; zero means
// not at all. What a throttle has granted before is not charged again. After Settle it does nothing.
func (p *Pass) Flow(n int64, now time.Time) (until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, link := range p.chain.links {
		h := &p.held[i]
		if h.hold.IsZero() {
			continue
		}
		m, ok := link.Throttle.(weir.Meter)
		if !ok {
			continue
		}
		granted := min(n, h.granted)
		if h.granted -= granted; granted > 0 && granted == n {
			continue
		}
		if pause := m.Flow(h.hold, n-granted, now); pause.After(until) && !link.Shadow.Load() {
			until = pause
		}
	}
	return until
}
