package bloom

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"weir"
)

// A pacer is a limiter that counts bytes: those that an event is known to have, at once; those that flow later, as they flow. What
// flows is never cut off: it is charged when it has flowed, what a source owes by that is kept in its limiters, and nothing more
// should flow until it is paid. Who owes a whole burst is not let in again before.
type pacer struct{ *Limiter }

var _ weir.Meter = (*pacer)(nil)

// A flow is one event whose bytes are metered.
type flow struct {
	source, other netip.Addr // as of the event
	unknown       bool
	hold          weir.Hold // of what was taken at once

	mu   sync.Mutex
	paid int64            // bytes that were taken at once and have not flowed yet
	rest [MaxLevels]int64 // bytes that flowed and do not make a token yet
}

// maxPause bounds how long a flow is held up at a time: whoever shares its limiters may be gone sooner.
const maxPause = 10 * time.Second

// Judge takes the bytes that the event is known to have. What flows later is charged by Flow.
func (p *pacer) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	s := p.setup.Load()
	if ev.Bytes > 0 {
		p.judge(s, ev, ev.Bytes, a)
	} else {
		p.indebted(s, ev, a)
	}
	if a.Verdict == weir.Admit {
		a.Hold = weir.Hold{Ref: &flow{source: ev.Source, other: ev.OtherSource, unknown: ev.SourceUnknown, hold: a.Hold, paid: max(ev.Bytes, 0)}, At: ev.Time.UnixNano()}
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
	nets, _ := s.nets.of(&weir.Event{Source: f.source, OtherSource: f.other, SourceUnknown: f.unknown}, &room)
	for i := range nets {
		v := &s.levels[i]
		f.rest[i] += n
		tokens := f.rest[i] / v.Grain
		f.rest[i] -= tokens * v.Grain
		if v.next != nil {
			v.next.Charge(nets[i], tokens, since-v.bornNext)
		}
		owed := v.now.Charge(nets[i], tokens, since-v.bornNow)
		if t := now.Add(v.pause(owed)); owed > 0 && t.After(until) {
			until = t
		}
	}
	return until
}

// pause is how long it takes until what is owed has come in: so many tokens a unit for all k limiters together.
func (v *level) pause(owed int64) time.Duration {
	units := (owed + int64(v.K*v.PerUnit) - 1) / int64(v.K*v.PerUnit)
	if units > int64(maxPause/v.Unit) {
		return maxPause
	}
	return time.Duration(units) * v.Unit
}

// indebted refuses a source that owes a whole burst on some level.
func (p *pacer) indebted(s *setup, ev *weir.Event, a *weir.Answer) {
	if !ev.Source.IsValid() {
		a.Verdict, a.Reason = weir.Refuse, weir.NoSource
		return
	}
	var room [MaxLevels]Network
	nets, group := s.nets.of(ev, &room)
	now := ev.Time.Sub(p.born)
	for i := range nets {
		v := &s.levels[i]
		owed := v.now.Charge(nets[i], 0, now-v.bornNow)
		if owed < int64(v.Capacity*v.K) {
			continue
		}
		a.Verdict, a.Reason, a.Figure = weir.Refuse, weir.OverLimit, s.figure(i, ev, group)
		a.Until = ev.Time.Add(v.pause(owed - int64(v.Capacity*v.K) + 1))
		a.Figure.Reset = a.Until
		a.Figures = append(a.Figures, a.Figure)
		return
	}
}

// Settle gives back what was taken at once for an event that did not go on.
func (p *pacer) Settle(h weir.Hold, o weir.Outcome) {
	if f, ok := h.Ref.(*flow); ok {
		p.Limiter.Settle(f.hold, o)
	}
}

// Peek tells what Judge would say, and how much the source has left.
func (p *pacer) Peek(ev *weir.Event, a *weir.Answer) {
	s := p.setup.Load()
	if p.indebted(s, ev, a); a.Verdict == weir.Admit {
		p.peek(s, ev, ev.Bytes, a)
	}
}
