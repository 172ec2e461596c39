package bloom

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir"
)

// A pacer is a limiter that counts bytes. Bytes that an event is known to have are charged at once. Bytes that flow
// later are charged before they flow if the gate asks, so that any number of flows together keeps to the limit, and
// otherwise when they have flowed. Then the source owes them and is granted nothing until they are paid. A source that
// owes a whole burst, or has a full line of waiting flows, is refused.
type pacer struct {
	*Limiter
	lines lines
}

var _ weir.Rationer = (*pacer)(nil)

// A flow is one event whose bytes are metered.
type flow struct {
	source  netip.Addr // as of the event
	unknown bool
	hold    weir.Hold // of what was taken at once

	mu     sync.Mutex
	paid   int64            // bytes that were taken at once and have not flowed yet
	credit [MaxLevels]int64 // bytes of tokens that were taken beyond what flowed; below zero what makes no token yet
	from   *setup           // where tokens were last taken by Ask
	taken  [MaxLevels]Taken
	line   atomic.Pointer[Network] // the line that it stands in
}

// maxPause bounds how long a flow waits before it asks again: those that share its limiters may be gone sooner.
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
		a.Hold = weir.Hold{Ref: &flow{source: ev.Source, unknown: ev.SourceUnknown, hold: a.Hold,
			paid: max(ev.Bytes, 0)}, At: ev.Time.UnixNano()}
	}
	return nil
}

// Flow charges bytes that have flowed without being asked for, and returns when the debt will be paid.
func (p *pacer) Flow(h weir.Hold, n int64, now time.Time) (until time.Time) {
	f, ok := h.Ref.(*flow)
	if !ok {
		return until
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n -= f.use(n)
	s := p.setup.Load()
	since := now.Sub(p.born)
	var array [MaxLevels]Network
	nets := f.nets(s, &array)
	for i := range nets {
		v := &s.levels[i]
		f.credit[i] -= n
		tokens := max(0, -f.credit[i]/v.Grain)
		f.credit[i] += tokens * v.Grain
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

// use counts bytes against those that were taken with the event, and returns how many. f.mu is held.
func (f *flow) use(n int64) int64 {
	n = min(n, f.paid)
	f.paid -= n
	return n
}

func (f *flow) nets(s *setup, array *[MaxLevels]Network) []Network {
	nets, _ := s.nets.of(&weir.Event{Source: f.source, SourceUnknown: f.unknown}, array)
	return nets
}

// pause is how long it takes until a debt is paid by what all k limiters get together.
func (v *level) pause(owed int64) time.Duration {
	units := (owed + int64(v.K*v.PerUnit) - 1) / int64(v.K*v.PerUnit)
	if units > int64(maxPause/v.Unit) {
		return maxPause
	}
	return time.Duration(units) * v.Unit
}

// indebted refuses a source that owes a whole burst on some level, or whose line is full.
func (p *pacer) indebted(s *setup, ev *weir.Event, a *weir.Answer) {
	var array [MaxLevels]Network
	nets, group, _ := s.locate(ev, &array, a)
	now := ev.Time.Sub(p.born)
	for i := range nets {
		v := &s.levels[i]
		owed := v.now.Charge(nets[i], 0, now-v.bornNow)
		if owed < int64(v.Capacity*v.K) {
			continue
		}
		s.refuse(i, ev, group, ev.Time.Add(v.pause(owed-int64(v.Capacity*v.K)+1)), a)
		return
	}
	if len(nets) > 0 && p.lines.full(nets[0]) {
		s.refuse(0, ev, group, ev.Time.Add(maxTurn), a)
	}
}

// Settle gives back what was taken at once for an event that did not go on.
func (p *pacer) Settle(h weir.Hold, o weir.Outcome) {
	f, ok := h.Ref.(*flow)
	if !ok {
		return
	}
	p.Limiter.Settle(f.hold, o)
	f.mu.Lock()
	defer f.mu.Unlock()
	p.lines.leave(f)
}

// Peek answers as Judge would, and tells how much the source has left.
func (p *pacer) Peek(ev *weir.Event, a *weir.Answer) {
	s := p.setup.Load()
	if p.indebted(s, ev, a); a.Verdict == weir.Admit {
		p.peek(s, ev, ev.Bytes, a)
	}
}
