package bloom

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"weir"
)

// A pacer is a limiter that counts bytes: those that an event is known to have, at once; those that flow later, as they flow. What
// flows is never cut off. It is charged when it has flowed, and the debt is paid before more may flow.
type pacer struct{ *Limiter }

var _ weir.Meter = (*pacer)(nil)

// A flow is one event whose bytes are metered.
type flow struct {
	source netip.Addr
	hold   weir.Hold // of what was taken at once

	mu   sync.Mutex
	paid int64            // bytes that were taken at once and have not flowed yet
	owed [MaxLevels]int64 // bytes that flowed and are not paid for
}

// maxPause bounds how long a flow is held up at a time: whoever shares its limiters may be gone sooner.
const maxPause = 10 * time.Second

// Judge takes the bytes that the event is known to have. What flows later is charged by Flow.
func (p *pacer) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	if ev.Bytes > 0 {
		p.judge(p.setup.Load(), ev, ev.Bytes, a)
	} else if !ev.Source.IsValid() {
		a.Verdict, a.Reason = weir.Refuse, weir.NoSource
	}
	if a.Verdict == weir.Admit {
		a.Hold = weir.Hold{Ref: &flow{source: ev.Source, hold: a.Hold, paid: max(ev.Bytes, 0)}, At: ev.Time.UnixNano()}
	}
	return nil
}

// Flow charges bytes that have flowed and returns when the debt will be paid.
func (p *pacer) Flow(h weir.Hold, n int64, now time.Time) (until time.Time) {
	f, ok := h.Ref.(*flow)
	if !ok {
		return until
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	paid := min(n, f.paid)
	f.paid -= paid
	n -= paid
	s := p.setup.Load()
	since := now.Sub(p.born)
	var room [MaxLevels]Network
	nets, _ := s.nets.of(f.source, &room)
	for i := range nets {
		v := &s.levels[i]
		f.owed[i] += n
		if whole := f.owed[i] / v.Grain; whole > 0 {
			if v.next != nil {
				v.next.TakeUpTo(nets[i], whole, since-v.bornNext)
			}
			f.owed[i] -= v.now.TakeUpTo(nets[i], whole, since-v.bornNow) * v.Grain
		}
		if debt := f.owed[i] / v.Grain; debt > 0 {
			// All k limiters together get so many tokens a unit.
			units := (debt-1)/int64(v.K*v.PerUnit) + 1
			pause := maxPause
			if units < int64(maxPause/v.Unit) {
				pause = time.Duration(units) * v.Unit
			}
			if t := now.Add(pause); t.After(until) {
				until = t
			}
		}
	}
	return until
}

// Settle gives back what was taken at once for an event that did not go on.
func (p *pacer) Settle(h weir.Hold, o weir.Outcome) {
	if f, ok := h.Ref.(*flow); ok {
		p.Limiter.Settle(f.hold, o)
	}
}

// Peek tells what Judge would say, and how much the source has left.
func (p *pacer) Peek(ev *weir.Event, a *weir.Answer) { p.peek(p.setup.Load(), ev, ev.Bytes, a) }
