package bloom

import (
	"reflect"
	"slices"
	"time"

	"weir"
)

// care is what has to be done for the tables now and then. l.mu is held.
type care struct {
	rotated  time.Duration // when the tables of now took over
	learn    time.Duration // how long the next ones are charged before they do
	early    bool          // the next ones have more lines and take over as soon as they know the flood
	limiters int64         // of the next tables
	over     int           // times in a row that there was too much damage
	told     bool          // that there is too much
	estimate estimate
}

// estimate is what was last found.
type estimate struct{ drained, collateral, attackers float64 }

// tooOften is how many times in a row there must be too much damage before something is done about it.
const tooOften = 3

// A Notice is something that the operator should know.
type Notice struct {
	What       string     // NoticeOver, NoticeUnder or NoticeGrown
	Collateral weir.Share // of innocent networks refused, as estimated
	Allowed    weir.Share
	Attackers  int64 // networks far over their limit, as estimated
	Bytes      int64 // of the tables
}

// What a notice may be about.
const (
	NoticeOver  = "over"  // more innocent networks are refused than allowed
	NoticeUnder = "under" // no longer
	NoticeGrown = "grown" // larger tables were made
)

// Stats is the state of a limiter.
type Stats struct {
	Bytes      int64      `json:"bytes"`      // of the tables, both of a rotation
	Drained    weir.Share `json:"drained"`    // of the limiters that have nothing left
	Collateral weir.Share `json:"collateral"` // of innocent networks refused, as estimated
	Attackers  int64      `json:"attackers"`  // networks far over their limit, as estimated
	Rotations  uint64     `json:"rotations"`  // of the key, since the start
}

// Stats returns the state as it was last found.
func (l *Limiter) Stats() Stats { return *l.stats.Load() }

// Collateral estimates the share of innocent networks refused now, on the worst level: drained limiters, power k.
func (l *Limiter) Collateral() weir.Share { return l.Stats().Collateral }

// Notify registers the one function that is told what the operator should know. It must not call back.
func (l *Limiter) Notify(f func(Notice)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify = f
}

// Alarm registers the one function that is told when something is due.
func (l *Limiter) Alarm(f func(time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarm = f
	f(l.born.Add(l.tendEvery()))
}

func (l *Limiter) begin(o Options, shapes []Shape, now time.Duration) {
	s := &setup{opts: o, nets: newNetworks(o)}
	for i, shape := range shapes {
		s.levels = append(s.levels, level{Shape: shape, limit: limitOf(o, i), now: NewTable(shape, NewKey()),
			bornNow: now})
	}
	l.care = care{rotated: now, learn: learn(shapes), limiters: shapes[0].Limiters()}
	l.setup.Store(s)
	l.note()
}

func limitOf(o Options, level int) int64 {
	limit := o.Rate.Count
	for range level {
		limit *= int64(o.Wider)
	}
	return limit
}

// Configure gives the limiter new options. What sources have used is kept unless their limit has changed.
func (l *Limiter) Configure(o Options, now time.Time) error {
	shapes, err := o.Shapes()
	if err != nil {
		return err
	}
	o = o.WithDefaults()
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.setup.Load()
	before, _ := old.opts.Shapes()
	alike := slices.EqualFunc(before, shapes, func(a, b Shape) bool {
		b.Lines = a.Lines
		return a == b
	})
	if !alike || !reflect.DeepEqual(old.opts.V6, o.V6) || old.opts.V4 != o.V4 {
		l.begin(o, shapes, now.Sub(l.born))
		return nil
	}
	if !slices.Equal(before, shapes) {
		// The limit is the same, and so is what sources have used: the next tables have the new size.
		l.care.limiters, l.care.early = shapes[0].Limiters(), true
	}
	next := *old
	next.opts, next.nets = o, newNetworks(o)
	l.setup.Store(&next)
	return nil
}

// Retire ends the care for a limiter that is not used any more.
func (l *Limiter) Retire(time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
}

func (l *Limiter) tendEvery() time.Duration {
	every := time.Duration(maxTend)
	for _, v := range l.setup.Load().levels {
		every = min(every, v.TendEvery())
	}
	return every
}

// learn is how long the slowest of several tables takes to learn.
func learn(shapes []Shape) (d time.Duration) {
	for _, s := range shapes {
		d = max(d, s.Learn())
	}
	return d
}

// Advance tends the tables, changes the keys, and grows the tables when too many innocent networks are refused.
func (l *Limiter) Advance(at time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired {
		return time.Time{}
	}
	now := at.Sub(l.born)
	l.tend(now)
	l.watch()
	l.rotate(now)
	l.note()
	return at.Add(l.tendEvery())
}

// tend tends every table and estimates the damage.
func (l *Limiter) tend(now time.Duration) {
	worst := estimate{}
	for _, v := range l.setup.Load().levels {
		var e estimate
		v.now.Tend(now - v.bornNow)
		e.drained, e.collateral, e.attackers = v.now.Shape().Damage(v.now.Drained(now - v.bornNow))
		if e.collateral >= worst.collateral {
			worst = e
		}
		if v.next != nil {
			v.next.Tend(now - v.bornNext)
		}
	}
	l.care.estimate = worst
}

// watch tells the operator about too much damage, and asks for larger tables.
func (l *Limiter) watch() {
	o := l.setup.Load().opts
	over := l.care.estimate.collateral > float64(o.Collateral)
	if !over {
		l.care.over = 0
		if l.care.told && l.care.estimate.collateral < float64(o.Collateral)/2 {
			l.care.told = false
			l.tell(NoticeUnder)
		}
		return
	}
	if l.care.over++; l.care.over < tooOften {
		return
	}
	if !l.care.told {
		l.care.told = true
		l.tell(NoticeOver)
	}
	if l.care.early {
		return // larger ones are being made
	}
	if n := min(max(2*l.care.limiters, l.needed()), l.most()); n > l.care.limiters {
		l.care.limiters, l.care.early = n, true
	}
}

// needed is how many limiters a table takes for the attackers that there are, as estimated, and half as many more.
func (l *Limiter) needed() int64 {
	o := l.setup.Load().opts
	plan, err := Size(o.K, int64(l.care.estimate.attackers*1.5), o.Collateral, 0)
	if err != nil {
		return 0
	}
	return plan.Limiters()
}

func (l *Limiter) most() int64 {
	s := l.setup.Load()
	bits := int64(0) // of one limiter on each level, with what it has of the time counters
	for _, v := range s.levels {
		bits += 2 * lineBits * int64(v.Bits)
	}
	return min(int64(s.opts.MaxMemory)*8/bits*timeAt, MaxLines*Lanes)
}

// rotate makes the next tables, and lets them take over when they have been charged for long enough.
func (l *Limiter) rotate(now time.Duration) {
	s, c := l.setup.Load(), &l.care
	charged := s.levels[0].next != nil
	if !charged && !c.early && s.atRest() {
		c.rotated = now // nobody shares anything with anybody
		return
	}
	takeover := c.rotated + s.opts.Rotate.Std()
	grows := c.early && (!charged || s.levels[0].next.Shape() != s.levels[0].sized(c.limiters))
	switch {
	case grows || !charged && now >= takeover-c.learn:
		next := *s
		next.levels = slices.Clone(s.levels)
		for i := range next.levels {
			v := &next.levels[i]
			v.next, v.bornNext = NewTable(v.sized(c.limiters), NewKey()), now
			v.next.Empty()
		}
		l.setup.Store(&next)
	case charged && now >= takeover && now >= s.levels[0].bornNext+c.learn,
		// Those who use up to half of their limit have their burst by then.
		charged && c.early && now >= s.levels[0].bornNext+c.learn/learnFills*2:
		next := *s
		next.levels = slices.Clone(s.levels)
		for i := range next.levels {
			v := &next.levels[i]
			v.Shape = v.next.Shape()
			v.now, v.bornNow, v.next = v.next, v.bornNext, nil
		}
		l.setup.Store(&next)
		l.rotation.Add(1)
		c.rotated = now
		if c.early {
			c.early, c.over = false, 0
			if next.levels[0].Lines > s.levels[0].Lines {
				l.tell(NoticeGrown)
			}
		}
	}
}

func (l *Limiter) tell(what string) {
	s, e := l.setup.Load(), l.care.estimate
	l.notify(Notice{What: what, Collateral: weir.Share(e.collateral), Allowed: s.opts.Collateral,
		Attackers: int64(e.attackers), Bytes: s.bytes()})
}

func (l *Limiter) note() {
	e := l.care.estimate
	l.stats.Store(&Stats{
		Bytes: l.setup.Load().bytes(), Drained: weir.Share(e.drained), Collateral: weir.Share(e.collateral),
		Attackers: int64(e.attackers), Rotations: l.rotation.Load(),
	})
}

// atRest reports whether all limiters are full.
func (s *setup) atRest() bool {
	for _, v := range s.levels {
		if !v.now.AtRest() {
			return false
		}
	}
	return true
}

func (s *setup) bytes() (n int64) {
	for _, v := range s.levels {
		n += 2 * v.now.Shape().Bytes()
	}
	return n
}
