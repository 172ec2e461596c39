package bloom

import (
	"slices"
	"time"

	"weir"
)

// care is what the upkeep of the tables needs to remember. l.mu is held.
type care struct {
	Watch
	rotated  time.Duration // when the current tables took over
	learn    time.Duration // how long the next tables are charged before they take over
	early    bool          // the next tables have more lines and take over as soon as they know the flood
	limiters int64         // of the next tables
}

// An Estimate says what the drained limiters of a table mean.
type Estimate struct {
	Drained    float64 // the share of the limiters that have nothing left
	Collateral float64 // the share of innocent networks that is refused
	Attackers  float64 // how many networks are far over their limit
}

// A Watch holds the latest estimate and decides when the operator is told about it. The zero value has told nothing.
type Watch struct {
	Estimate
	over int  // how many times in a row there was too much damage
	told bool // the operator knows that there is too much
}

// tooOften is how many times in a row there must be too much damage before anything is done about it.
const tooOften = 3

// Worst keeps the worse of two estimates, by the innocent networks that are refused.
func (w *Watch) Worst(e Estimate) {
	if e.Collateral >= w.Collateral {
		w.Estimate = e
	}
}

// Look compares the estimate with what is allowed. It returns NoticeOver or NoticeUnder if the operator must be told,
// and otherwise "".
func (w *Watch) Look(allowed weir.Share) string {
	if w.Collateral <= float64(allowed) {
		w.over = 0
		if w.told && w.Collateral < float64(allowed)/2 {
			w.told = false
			return NoticeUnder
		}
		return ""
	}
	if w.over++; w.over >= tooOften && !w.told {
		w.told = true
		return NoticeOver
	}
	return ""
}

// Notice returns a notice about the estimate.
func (w *Watch) Notice(what string, allowed weir.Share, bytes int64) Notice {
	return Notice{What: what, Collateral: weir.Share(w.Collateral), Allowed: allowed, Attackers: int64(w.Attackers),
		Bytes: bytes}
}

// Stats returns the estimate beside the size of the tables and the number of rotations.
func (w *Watch) Stats(bytes int64, rotations uint64) Stats {
	return Stats{Bytes: bytes, Drained: w.Drained, Collateral: w.Collateral,
		Attackers: int64(w.Attackers), Rotations: rotations}
}

// A Notice is something that the operator should know.
type Notice struct {
	What       string     // NoticeOver, NoticeUnder or NoticeGrown
	Collateral weir.Share // the share of innocent networks that is refused, as estimated
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
	Bytes      int64   `json:"bytes" metric:"weir_bloom_bytes" help:"Memory of a Bloom limiter's tables, both of a rotation."`
	Drained    float64 `json:"drained" metric:"weir_bloom_drained_ratio" help:"Share of a Bloom limiter's counters that have nothing left."`
	Collateral float64 `json:"collateral" metric:"weir_bloom_collateral_ratio" help:"Estimated share of innocent networks that a Bloom limiter refuses now."`
	Attackers  int64   `json:"attackers" metric:"weir_bloom_attackers" help:"Estimated number of networks that are far over their limit."`
	Rotations  uint64  `json:"rotations" metric:"weir_bloom_rotations_total" help:"How often a Bloom limiter has changed its key."`
}

// Stats returns the state that the last Advance found.
func (l *Limiter) Stats() Stats { return *l.stats.Load() }

// Collateral estimates the share of innocent networks that is refused now, on the worst level.
func (l *Limiter) Collateral() weir.Share { return weir.Share(l.Stats().Collateral) }

// Notify registers the function that is given notices. There is one at a time. It must not call back.
func (l *Limiter) Notify(f func(Notice)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notify = f
}

// Alarm registers the function that is told when Advance is due. There is one at a time.
func (l *Limiter) Alarm(f func(time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarm = f
	f(l.born.Add(l.tendEvery()))
}

func (l *Limiter) begin(o Options, shapes Shapes, now time.Duration) {
	s := &setup{opts: o, nets: newNetworks(o)}
	for i, shape := range shapes {
		s.levels = append(s.levels, level{Shape: shape, limit: limitOf(o, i), now: NewTable(shape, NewKey()),
			bornNow: now})
	}
	l.care = care{rotated: now, learn: shapes.Learn(), limiters: shapes[0].Limiters()}
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

// Configure gives the limiter new options. It keeps what sources have used, unless their limit has changed.
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
	if !alike || !slices.Equal(old.opts.V6, o.V6) || old.opts.V4 != o.V4 {
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

// Retire ends the upkeep of a limiter that is no longer used.
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
	l.care.Estimate = Estimate{}
	for _, v := range l.setup.Load().levels {
		v.now.Tend(now - v.bornNow)
		l.care.Worst(v.now.Shape().Damage(v.now.Drained(now - v.bornNow)))
		if v.next != nil {
			v.next.Tend(now - v.bornNext)
		}
	}
}

// watch tells the operator about too much damage, and asks for larger tables.
func (l *Limiter) watch() {
	c := &l.care
	if what := c.Look(l.setup.Load().opts.Collateral); what != "" {
		l.tell(what)
	}
	if c.over < tooOften || c.early { // larger tables are being made
		return
	}
	if n := min(max(2*c.limiters, l.needed()), l.most()); n > c.limiters {
		c.limiters, c.early = n, true
	}
}

// needed is how many limiters a table takes for one and a half times the estimated number of attackers.
func (l *Limiter) needed() int64 {
	o := l.setup.Load().opts
	plan, err := o.plan(int64(l.care.Attackers * 1.5))
	if err != nil {
		return 0
	}
	return plan.Limiters()
}

func (l *Limiter) most() int64 {
	s := l.setup.Load()
	bits := int64(0) // of one limiter on each level, with its part of the time counters
	for _, v := range s.levels {
		bits += 2 * lineBits * int64(v.Bits)
	}
	return min(int64(s.opts.MaxMemory)*8/bits*timeAt, MaxLines*Lanes)
}

// rotate makes the next tables, and lets them take over when they have been charged long enough.
func (l *Limiter) rotate(now time.Duration) {
	s, c := l.setup.Load(), &l.care
	charged := s.levels[0].next != nil
	if !charged && !c.early && s.atRest() {
		c.rotated = now // no network shares a limiter with one that was used
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
			v.next, v.bornNext = NewTable(v.sized(c.limiters), NewKey()), v.edge(now)
			v.next.Empty()
		}
		l.setup.Store(&next)
	case charged && now >= takeover && now >= s.levels[0].bornNext+c.learn,
		// By then, sources that use up to half of their limit have their burst.
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
	s := l.setup.Load()
	l.notify(l.care.Notice(what, s.opts.Collateral, s.bytes()))
}

func (l *Limiter) note() {
	stats := l.care.Stats(l.setup.Load().bytes(), l.rotation.Load())
	l.stats.Store(&stats)
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
