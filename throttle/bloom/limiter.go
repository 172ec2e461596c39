package bloom

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir"
)

// A Limiter limits each source network. Most programs want Allow. Gates want Judge; Throttle returns the weir.Throttle
// that the options ask for. Make one with New; the zero value cannot be used. It is safe for concurrent use, without
// locks.
//
// Advance should be called when it is due: it tends the tables, changes the keys and watches the damage.
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

// Rules lists the rules that answers name: one for each width of a network, and one for each group.
func (l *Limiter) Rules() []string {
	s := l.setup.Load()
	rules := append([]string{s.nets.ruleV4}, s.nets.ruleV6...)
	for name := range s.opts.Groups {
		rules = append(rules, groupRule(name))
	}
	return rules
}

// Throttle returns the limiter as a throttle for what its options count: events, or bytes, also metered as they flow.
func (l *Limiter) Throttle() weir.Throttle {
	if l.setup.Load().opts.Count == Bytes {
		return &pacer{Limiter: l}
	}
	return l
}

// A setup is what judging needs. It does not change. A rotation or new options replace it.
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

// edge is when the next unit of time begins, or now. The units of two tables begin together: otherwise one of them
// could give a unit more than the other after both were empty. A source would have it on top when the key changes.
func (v *level) edge(now time.Duration) time.Duration {
	return v.bornNow + v.times(int64((max(now-v.bornNow, 0)+v.Unit-1)/v.Unit))
}

// soon is when a network can have tokens, in time since the limiter was made, and not before.
func (v *level) soon(left, owed, tokens int64, now time.Duration) time.Duration {
	per := int64(v.PerUnit)
	each := per * int64(v.K)
	units := max(1, (v.now.needed(tokens)-left+each-1)/each+(owed+per-1)/per)
	return v.bornNow + v.times(int64(max(now-v.bornNow, 0)/v.Unit)+units)
}

// Prompt reports true: the filters are in memory.
func (*Limiter) Prompt() bool { return true }

// Judge takes the cost of an event from every level, or refuses and takes nothing.
func (l *Limiter) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	s := l.setup.Load()
	if !l.grant(s, ev, a) {
		l.judge(s, ev, ev.Charge(), a)
	}
	return nil
}

// grant is judge for the most common event: one of an IPv4 source without a group or exemption, whose first limiter has
// the tokens. It takes a third off the time of such an event.
func (l *Limiter) grant(s *setup, ev *weir.Event, a *weir.Answer) bool {
	v := &s.levels[0]
	cost := ev.Charge()
	if !ev.Source.Is4() || v.next != nil || v.Grain != 1 || cost != 1 || s.nets.ranges.Len() > 0 {
		return false
	}
	t, n := v.now, NetworkV4(ev.Source.As4(), s.nets.v4)
	ok := t.takeFirst(t.key.Hash(n), uint64(v.Parts), t.unit(ev.Time.Sub(l.born)-v.bornNow))
	if ok {
		// One by one: copying a Hold that was just written would wait for the writes.
		a.Hold.Ref, a.Hold.N, a.Hold.C, a.Hold.V = s, cost, n.last, 1
	}
	return ok
}

// locate returns the networks of an event's source, and the rule of its group. It refuses an event without a source.
func (s *setup) locate(ev *weir.Event, array *[MaxLevels]Network, a *weir.Answer) (nets []Network, group string,
	ok bool) {
	if !ev.Source.IsValid() {
		a.Verdict, a.Reason = weir.Refuse, weir.NoSource
		return nil, "", false
	}
	nets, group = s.nets.of(ev, array)
	return nets, group, true
}

func (l *Limiter) judge(s *setup, ev *weir.Event, cost int64, a *weir.Answer) {
	var array [MaxLevels]Network
	nets, group, ok := s.locate(ev, &array, a)
	if !ok {
		return
	}
	now := ev.Time.Sub(l.born)
	taken := weir.Hold{Ref: s, N: cost}
	granted, was := s.take(nets, now, &taken)
	if granted < len(nets) {
		until := time.Time{}
		if v := &s.levels[granted]; cost <= v.Burst() {
			until = l.born.Add(v.soon(was.left, was.owed, v.Tokens(cost), now))
		}
		s.refuse(granted, ev, group, until, a)
		return
	}
	if len(nets) > 0 {
		a.Hold = taken
	}
}

// refuse makes the answer a refusal by a level until a time; the zero time is for a cost that is never granted.
func (s *setup) refuse(level int, ev *weir.Event, group string, until time.Time, a *weir.Answer) {
	a.Verdict, a.Reason, a.Figure, a.Until = weir.Refuse, weir.OverLimit, s.figure(level, ev, group), until
	if until.IsZero() {
		a.Reason = weir.TooCostly
	}
	a.Figure.Reset = until
	a.Figures = append(a.Figures, a.Figure)
}

// take takes the cost in a hold from all levels or none. It returns how many grant it, and what the next one had left.
//
// The next tables are charged with what all levels grant, and with nothing else: so they never have more than the limit
// leaves to a source, and nobody drains them with events that are refused.
func (s *setup) take(nets []Network, now time.Duration, taken *weir.Hold) (granted int, was balance) {
	for i := range nets {
		v, from := &s.levels[i], Taken{}
		if taken.N <= v.Burst() {
			from, was = v.now.take(nets[i], v.Tokens(taken.N), now-v.bornNow)
		}
		if from.Last == 0 {
			s.give(taken, nets[:i], now)
			return i, was
		}
		taken.V |= uint32(from.Last) << (4 * i)
	}
	for i := range nets {
		if v := &s.levels[i]; v.next != nil {
			last, part := v.next.Drain(nets[i], v.Tokens(taken.N), now-v.bornNext)
			taken.V |= uint32(last) << (4*i + nextAt)
			taken.At |= min(part, 1<<partBits-1) << (partBits * i)
		}
	}
	if len(nets) > 0 {
		taken.A, taken.B, taken.C = nets[0].a, nets[0].b, nets[0].last
	}
	return len(nets), was
}

// A hold has the narrowest network of a source in A, B and C, and in V, in four bits for each level, which limiter gave
// the last of the tokens: of the tables that decide, and from bit nextAt on of the next ones. Where the next one had
// too little, the bits are 0, and At has what it gave, in partBits for each level.
const (
	nextAt   = 4 * MaxLevels
	partBits = 64 / MaxLevels
)

// Settle gives back what was taken for an event that did not go on.
func (l *Limiter) Settle(h weir.Hold, o weir.Outcome) {
	if s, ok := h.Ref.(*setup); ok && !o.Done {
		var array [MaxLevels]Network
		s.give(&h, s.nets.held(&h, &array), o.Time.Sub(l.born))
	}
}

// Peek answers as Judge would, and tells how much the source has left.
func (l *Limiter) Peek(ev *weir.Event, a *weir.Answer) { l.peek(l.setup.Load(), ev, ev.Charge(), a) }

func (l *Limiter) peek(s *setup, ev *weir.Event, cost int64, a *weir.Answer) {
	var array [MaxLevels]Network
	nets, group, _ := s.locate(ev, &array, a)
	now := ev.Time.Sub(l.born)
	for i := range nets {
		v := &s.levels[i]
		all, owed := v.now.Available(nets[i], now-v.bornNow)
		f := s.figure(i, ev, group)
		if f.Remaining = all / int64(v.Parts) * v.Grain; all == int64(v.Capacity*v.K) {
			f.Remaining = v.Burst()
		}
		tokens := v.Tokens(min(max(cost, 1), v.Burst()))
		enough := all >= v.now.needed(tokens)
		if !enough {
			f.Reset = l.born.Add(v.soon(all, owed, tokens, now))
		}
		a.Figures = append(a.Figures, f)
		if a.Verdict != weir.Admit || cost == 0 || enough && cost <= v.Burst() {
			continue
		}
		a.Verdict, a.Reason, a.Figure, a.Until = weir.Refuse, weir.OverLimit, f, f.Reset
		if cost > v.Burst() {
			a.Reason, a.Until = weir.TooCostly, time.Time{}
		}
	}
}

// figure is the rule of a level, with nothing left.
func (s *setup) figure(level int, ev *weir.Event, group string) weir.Figure {
	f := weir.Figure{Rule: group, Unit: "requests", Limit: s.levels[level].limit,
		Window: weir.NewWindow(s.opts.Rate.Per, weir.NoCalendar)}
	if group == "" {
		f.Rule = s.nets.rule(ev.Source, level)
	}
	if s.opts.Count == Bytes {
		f.Unit = "bytes"
	}
	return f
}

// give gives back what was taken from the levels of some networks, in the tables that decide and in the next ones.
func (s *setup) give(taken *weir.Hold, nets []Network, now time.Duration) {
	for i, n := range nets {
		v := &s.levels[i]
		tokens, last := v.Tokens(taken.N), taken.V>>(4*i)
		v.now.giveBack(n, last, tokens, now-v.bornNow)
		if last >>= nextAt; last&15 != 0 {
			v.next.giveBack(n, last, tokens, now-v.bornNext)
		} else if part := taken.At >> (partBits * i) & (1<<partBits - 1); part > 0 {
			v.next.uncharge(n, part, now-v.bornNext)
		}
	}
}

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
