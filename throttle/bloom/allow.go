package bloom

import (
	"net/netip"
	"time"

	"weir"
)

// Allow reports whether the network of an address may have n now, and takes them if so: n events, or n bytes where the
// options count bytes. A refusal takes nothing. An n below 1 counts as 1, and the zero Addr is refused.
//
// Most programs want Allow and nothing else of a Limiter but Advance. Judge also tells until when a source is refused,
// and Settle gives back what was taken. Allow is safe for concurrent use, takes no locks and allocates nothing.
func (l *Limiter) Allow(now time.Time, addr netip.Addr, n int64) bool {
	ev, s := weir.Event{Time: now, Source: addr, Cost: n}, l.setup.Load()
	if l.grant(s, &ev, new(weir.Answer)) {
		return true
	}
	if !addr.IsValid() {
		return false
	}
	var array [MaxLevels]Network
	nets, _ := s.nets.of(&ev, &array)
	granted, _ := s.take(nets, now.Sub(l.born), &weir.Hold{N: ev.Charge()})
	return granted == len(nets)
}
