package bloom

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"weir"
)

// A Limiter limits each source network. It is a weir.Throttle for events; Throttle returns the one that its options ask for. It is
// safe for concurrent use; judging takes no locks and allocates nothing.
//
// Advance should be called when it is due, as of any weir.Clocked: it sweeps the tables, changes the keys and watches the damage.
type Limiter struct {
	born  time.Time // time is counted from here, so that a clock that is set does not matter
	setup atomic.Pointer[setup]

	mu       sync.Mutex // Advance, Configure, Retire
	care     care
	alarm    func(time.Time)
	notify   func(Notice)
	retired  bool
	stats    atomic.Pointer[Stats]
	rotation atomic.Uint64
}

// New returns a limiter whose sources have all their tokens.
func New(o Options, now time.Time) (*Limiter, error) {
	shapes, err := o.Shapes()
	if err != nil {
		return nil, err
	}
	l := &Limiter{born: now, alarm: func(time.Time) {}, notify: func(Notice) {}}
	l.begin(o.WithDefaults(), shapes, 0)
	return l, nil
}

// Throttle returns the limiter as a throttle for what its options count: events, or bytes, which are also metered as they flow.
func (l *Limiter) Throttle() weir.Throttle {
	if l.setup.Load().opts.Count == Bytes {
		return &pacer{Limiter: l}
	}
	return l
}

// A setup is all that judging needs. It does not change; a rotation or new options put another one in its place.
type setup struct {
	opts   Options
	nets   networks
	levels []level
}

// A level is the structure for networks of one width. Those of IPv4 are on the first.
type level struct {
	Shape
	limit     int64 // of a source, per opts.Rate.Per
	now, next *Table
	bornNow   time.Duration // when the tables were made, since the limiter was
	bornNext  time.Duration
}

// take asks for tokens. The table that will take over is charged too, whatever the answer, so that it knows the flood by then.
func (v *level) take(n Network, tokens int64, now time.Duration) (Place, bool) {
	if v.next != nil {
		v.next.Take(n, tokens, now-v.bornNext)
	}
	return v.now.Take(n, tokens, now-v.bornNow)
}

// soon is when the next tokens come, in time since the limiter was made.
func (v *level) soon(now time.Duration) time.Duration {
	return v.bornNow + (max(now-v.bornNow, 0)/v.Unit+1)*v.Unit
}

// Judge takes the cost of an event from every level, or refuses and takes nothing.
func (l *Limiter) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	s := l.setup.Load()
	if !s.grant(ev, a) {
		l.judge(s, ev, ev.Charge(), a)
	}
	return nil
}

// grant is judge for what comes most, and nothing else: an IPv4 source about which the operator has said nothing, and whose first
// limiter has the tokens. It takes a third off the time of such an event.
func (s *setup) grant(ev *weir.Event, a *weir.Answer) bool {
	v := &s.levels[0]
	if !ev.Source.Is4() || v.next != nil || v.Grain != 1 || s.nets.ranges.Len() > 0 {
		return false
	}
	cost := ev.Charge()
	p, ok := v.now.takeFirst(NetworkV4(ev.Source.As4(), s.nets.v4), cost)
	if ok {
		a.Hold = weir.Hold{Ref: s, N: cost, A: uint64(p) + 1}
	}
	return ok
}

func (l *Limiter) judge(s *setup, ev *weir.Event, cost int64, a *weir.Answer) {
	if !ev.Source.IsValid() {
		a.Verdict, a.Reason = weir.Refuse, weir.NoSource
		return
	}
	var room [MaxLevels]Network
	nets, group := s.nets.of(ev, &room)
	now := ev.Time.Sub(l.born)
	var taken places
	for i := range nets {
		v := &s.levels[i]
		tokens, why := v.Tokens(cost), weir.OverLimit
		if tokens > int64(v.Capacity) {
			why = weir.TooCostly
		} else if p, ok := v.take(nets[i], tokens, now); ok {
			taken.put(i, p)
			continue
		}
		s.give(taken, i, cost)
		a.Verdict, a.Reason, a.Figure = weir.Refuse, why, s.figure(i, ev, group)
		if why == weir.OverLimit {
			a.Until = l.born.Add(v.soon(now))
			a.Figure.Reset = a.Until
		}
		a.Figures = append(a.Figures, a.Figure)
		return
	}
	if len(nets) > 0 {
		a.Hold = weir.Hold{Ref: s, N: cost, A: taken.a, B: taken.b}
	}
}

// Settle gives back what was taken for an event that did not go on.
func (l *Limiter) Settle(h weir.Hold, o weir.Outcome) {
	if s, ok := h.Ref.(*setup); ok && !o.Done {
		s.give(places{h.A, h.B}, len(s.levels), h.N)
	}
}

// Peek tells what Judge would say, and how much the source has left.
func (l *Limiter) Peek(ev *weir.Event, a *weir.Answer) { l.peek(l.setup.Load(), ev, ev.Charge(), a) }

func (l *Limiter) peek(s *setup, ev *weir.Event, cost int64, a *weir.Answer) {
	if !ev.Source.IsValid() {
		a.Verdict, a.Reason = weir.Refuse, weir.NoSource
		return
	}
	var room [MaxLevels]Network
	nets, group := s.nets.of(ev, &room)
	now := ev.Time.Sub(l.born)
	for i := range nets {
		v := &s.levels[i]
		all, largest := v.now.Room(nets[i], now-v.bornNow)
		f := s.figure(i, ev, group)
		f.Remaining = all * v.Grain
		tokens := v.Tokens(cost)
		if all == 0 || tokens > largest {
			f.Reset = l.born.Add(v.soon(now))
		}
		a.Figures = append(a.Figures, f)
		if a.Verdict != weir.Admit || tokens <= largest {
			continue
		}
		a.Verdict, a.Reason, a.Figure, a.Until = weir.Refuse, weir.OverLimit, f, f.Reset
		if tokens > int64(v.Capacity) {
			a.Reason, a.Until = weir.TooCostly, time.Time{}
		}
	}
}

// figure is the rule of a level, with nothing left.
func (s *setup) figure(level int, ev *weir.Event, group string) weir.Figure {
	f := weir.Figure{Rule: group, Unit: "requests", Limit: s.levels[level].limit, Window: s.opts.Rate.Per}
	if group == "" {
		f.Rule = s.nets.rule(ev.Source, level)
	}
	if s.opts.Count == Bytes {
		f.Unit = "bytes"
	}
	return f
}

// give returns what was taken from the first n levels.
func (s *setup) give(taken places, n int, cost int64) {
	for i := range n {
		if p, took := taken.get(i); took {
			s.levels[i].now.Give(p, s.levels[i].Tokens(cost))
		}
	}
}

// places are where tokens were taken, one place for each level, in two words. A place is stored plus one, so that zero is none.
type places struct{ a, b uint64 }

func (p *places) put(level int, at Place) {
	if level < 2 {
		p.a |= (uint64(at) + 1) << (32 * level)
	} else {
		p.b |= (uint64(at) + 1) << (32 * (level - 2))
	}
}

func (p *places) get(level int) (Place, bool) {
	w := p.a
	if level >= 2 {
		w, level = p.b, level-2
	}
	at := uint32(w >> (32 * level))
	return Place(at - 1), at != 0
}
