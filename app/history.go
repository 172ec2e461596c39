package app

import (
	"math"
	"slices"
	"sync"
	"time"

	"weir"
	"weir/admission"
	"weir/console"
	"weir/gate/httpgate"
	"weir/internal/clock"
	"weir/policy"
	"weir/throttle/stamp"
)

// A history keeps the last hour of every gate and every throttle, for the console. One timer reads the counters that
// they have anyway. The records of gates and throttles that are no longer configured are dropped.
type history struct {
	clock clock.Clock
	now   func() *generation
	app   *App

	mu      sync.Mutex
	timer   clock.Timer
	stopped bool
	records map[any]*record // by what a reload keeps: traffic of gates, lanes of routes, counts of throttles
}

// watch begins to sample, unless it has begun before. It is called when a generation has taken effect.
func (h *history) watch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer == nil && !h.stopped {
		h.sampleAll()
	}
}

// stop ends the sampling. When it returns, no sample is under way.
func (h *history) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	if h.timer != nil {
		h.timer.Stop()
		h.timer = nil
	}
}

func (h *history) tick() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = nil
	if !h.stopped {
		h.sampleAll()
	}
}

// sampleAll samples every gate and throttle, forgets the others, and sets the timer for the next time.
func (h *history) sampleAll() {
	g, now := h.now(), h.clock.Now()
	records := map[any]*record{}
	sample := func(of any, c *columns, read reading) {
		r := h.records[of]
		if r == nil {
			r = newRecord(c)
		}
		r.sample(read, now)
		records[of] = r
	}
	for _, gt := range g.gates {
		sample(gt.seen, &gateColumns, readGate(g, gt, now))
		for _, at := range gt.ownRooms() {
			sample(at.lanes, &roomColumns, readRoom(g, at, now))
		}
	}
	for _, w := range h.app.watched(g) {
		sample(w.link.Counts, &throttleColumns, w.read())
		w.link.Watch.Age(h.app.clock.Now())
	}
	h.records = records
	h.timer = h.clock.AfterFunc(console.HistoryEvery, h.tick)
}

// recordOf returns the record of something. What has none yet gets one that begins with what was read just now.
func (h *history) recordOf(what any, c *columns, read reading, now time.Time) *record {
	r := h.records[what]
	if r == nil {
		r = newRecord(c)
		r.sample(read, now)
	}
	return r
}

// columns say what a record has: first counters, then levels, which rise and fall, and then quantiles of a spread.
type columns struct {
	counted, levels, spread []console.Measure
	lanes                   []console.Measure // of all these, the ones that only gates with a capacity have
}

func (c *columns) all() []console.Measure { return slices.Concat(c.counted, c.levels, c.spread) }

var gateColumns = columns{
	counted: []console.Measure{console.Admitted, console.Delayed, console.Challenged, console.Refused, console.Would,
		console.Connections, console.TurnedAway, console.Stamped, console.Pooled, console.Crowded},
	levels: []console.Measure{console.InFlight, console.Waiting, console.Load, console.Work, console.WorkSeconds,
		console.InLine},
	spread: []console.Measure{console.AddedMedian, console.AddedMost},
	lanes: []console.Measure{console.Stamped, console.Pooled, console.Crowded, console.Load, console.Work,
		console.WorkSeconds, console.InLine},
}

var throttleColumns = columns{
	counted: []console.Measure{console.Admitted, console.Delayed, console.Challenged, console.Refused,
		console.WouldAdmit, console.WouldDelay, console.WouldChallenge, console.WouldRefuse, console.Errors},
	levels: []console.Measure{console.Waiting},
}

// shares are the quantiles of columns.spread.
var shares = [...]float64{0.5, 0.99}

// A reading is the state of a gate or a throttle at one time.
type reading struct {
	counts []uint64  // since the start
	levels []float64 // now
	spread console.Spread
}

// readGate reads the counters of a gate.
func readGate(g *generation, gt *gate, now time.Time) reading {
	t, c := gt.seen, gt.seen.verdicts()
	v := c.Verdicts
	var s admission.Stats
	var work, takes float64
	if gt.lanes != nil {
		s, work, takes = readLanes(g, gt.bottlenecks()[0], now)
	}
	return reading{
		counts: []uint64{v[weir.Admit], max(v[weir.Wait], t.delayed.Load()), v[weir.Challenge], v[weir.Refuse],
			t.Would.Load(), t.Connections.Load(), t.TurnedAway.Load(), s.Stamped.LetIn, s.Pool.LetIn, s.TurnedAway},
		levels: []float64{float64(t.inFlight.Load()), float64(t.waiting.Load()), float64(s.Load), work, takes,
			float64(s.InLine + s.Called)},
		spread: c.Added,
	}
}

// A watched is a throttle, or something else that judges events, whose past is kept.
type watched struct {
	name, kind, unit string
	link             *policy.Link
	waiting          func() int // nil where nobody waits
	refresh          func()     // brings the counts of the link up to date; nil where they are
}

func (w *watched) read() reading {
	if w.refresh != nil {
		w.refresh()
	}
	r := reading{counts: make([]uint64, len(throttleColumns.counted)), levels: []float64{0}}
	for i, v := range weir.Verdicts {
		r.counts[i], r.counts[len(weir.Verdicts)+i] = w.link.Counts.Total(v)
	}
	r.counts[2*len(weir.Verdicts)] = w.link.Counts.Errors.Load()
	if w.waiting != nil {
		r.levels[0] = float64(w.waiting())
	}
	return r
}

// watched lists what judges events in a generation: throttles by name, the block list, capacities, imported rules of
// Envoy, and limiters of network interfaces.
func (a *App) watched(g *generation) (all []watched) {
	for _, t := range g.throttles {
		w := watched{name: t.name, kind: t.kind, unit: "events", link: t.link}
		if q := t.accounts(); q != nil {
			w.waiting = func() int { return q.Stats().Waiting }
		}
		if t.judgesMail() {
			w.unit = "recipients"
		}
		all = append(all, w)
	}
	all = append(all, watched{name: a.bans.link.Name, kind: "ban", unit: "events", link: a.bans.link})
	for _, gt := range g.gates {
		all = append(all, gt.limits()...)
	}
	for _, p := range g.packets {
		all = append(all, watched{name: p.name(), kind: "xdp", unit: "packets", link: p.link, refresh: p.count})
	}
	return all
}

// limits lists what judges events at a gate and is not a throttle of the configuration: capacities, and imported rules
// of Envoy.
func (g *gate) limits() (all []watched) {
	for _, at := range g.bottlenecks() {
		of := g.label
		if at.route != "" {
			of = httpgate.RouteLoad(of, at.route)
		}
		all = append(all, watched{name: at.name(of), kind: capacityLink, unit: "requests", link: at.link})
	}
	if rules, ok := g.state.(*envoyLimits); ok {
		all = append(all, rules.watched(g.label)...)
	}
	return all
}

// view is the watched in the form in which the console shows throttles.
func (w *watched) view() console.Throttle {
	link := *w.link
	link.Name = w.name
	return console.Throttle{Link: &link, Kind: w.kind}
}

// units are what kinds of gates count. All other kinds count requests.
var units = map[string]string{"tcp": "connections", "udp": "packets", "smtp": "recipients"}

// A record is the past of one gate or throttle.
type record struct {
	columns      *columns
	spread       bool // the last reading had a spread
	fine, coarse tier
}

func newRecord(c *columns) *record {
	return &record{columns: c, fine: tier{every: console.HistoryEvery, most: console.HistoryLength},
		coarse: tier{every: console.HourEvery, most: console.HourLength}}
}

func (r *record) sample(now reading, at time.Time) {
	r.spread = len(now.spread.Counts) > 0
	r.fine.sample(r.columns, now, at)
	r.coarse.sample(r.columns, now, at)
}

// A tier is the past at one resolution.
type tier struct {
	every time.Duration
	most  int

	at     time.Time // when the current sample began; zero before the first
	counts []uint64  // the counters at that time
	spread []uint64  // the counters of the spread at that time
	sums   []float64 // of the levels that were read since
	reads  int       // how many levels are in a sum

	ring moments
}

// moments are the samples of a tier: a ring of rows.
type moments struct {
	ends   []int64   // milliseconds since 1970
	over   []float32 // how many seconds each covers
	values []float32 // a row of columns for each
	next   int       // where the oldest is, once it is full
}

// sample adds what was read. If the current sample is over, it is kept, and the next one begins.
func (t *tier) sample(c *columns, now reading, at time.Time) {
	if t.at.IsZero() || at.Before(t.at) { // there is nothing to subtract from, or the clock was set back
		t.begin(now, at)
		return
	}
	for i, level := range now.levels {
		t.sums[i] += level
	}
	t.reads++
	passed := at.Sub(t.at)
	if passed < t.every-t.every/20 { // timers are never early, but the clock may have been corrected a little
		return
	}
	row := make([]float32, 0, len(c.counted)+len(c.levels)+len(c.spread))
	for i, n := range now.counts {
		row = append(row, float32(n-min(n, t.counts[i]))) // 0 if the counter has started again
	}
	for _, sum := range t.sums {
		row = append(row, float32(sum/float64(t.reads)))
	}
	for i := range c.spread {
		if len(now.spread.Counts) == 0 {
			row = append(row, float32(math.NaN()))
			continue
		}
		row = append(row, now.spread.Quantile(shares[i], t.spread))
	}
	t.ring.put(at.UnixMilli(), float32(passed.Seconds()), row, t.most)
	t.begin(now, at)
}

func (t *tier) begin(now reading, at time.Time) {
	t.at, t.counts, t.spread, t.reads = at, now.counts, now.spread.Counts, 0
	t.sums = make([]float64, len(now.levels))
}

func (m *moments) put(at int64, over float32, row []float32, most int) {
	if len(m.ends) < most {
		if m.ends == nil {
			m.ends, m.over = make([]int64, 0, most), make([]float32, 0, most)
			m.values = make([]float32, 0, most*len(row))
		}
		m.ends, m.over, m.values = append(m.ends, at), append(m.over, over), append(m.values, row...)
		return
	}
	m.ends[m.next], m.over[m.next] = at, over
	copy(m.values[m.next*len(row):], row)
	m.next = (m.next + 1) % most
}

// each calls f for every sample, the oldest first.
func (m *moments) each(f func(at int64, over float32, row []float32)) {
	for i := range m.ends {
		k, width := (m.next+i)%len(m.ends), len(m.values)/len(m.ends)
		f(m.ends[k], m.over[k], m.values[k*width:][:width])
	}
}

// series writes the samples after a time into columns. Counters become rates per second. lanes says whether the gate
// has a capacity.
func (r *record) series(s *console.Series, hour bool, since int64, lanes bool) {
	t := &r.fine
	if hour {
		t = &r.coarse
	}
	names := r.columns.all()
	s.Seconds, s.At, s.Columns = t.every.Seconds(), []int64{}, map[console.Measure]console.Values{}
	columns := make([]console.Values, len(names))
	t.ring.each(func(at int64, over float32, row []float32) {
		if at <= since {
			return
		}
		s.At = append(s.At, at)
		for i, v := range row {
			if i < len(r.columns.counted) {
				v /= over
			}
			columns[i] = append(columns[i], v)
		}
	})
	for i, name := range names {
		if !lanes && slices.Contains(r.columns.lanes, name) || !r.spread && slices.Contains(r.columns.spread, name) {
			continue
		}
		if columns[i] == nil {
			columns[i] = console.Values{}
		}
		s.Columns[name] = columns[i]
	}
}

// totals adds up the counters of the last hour: the samples, and what has come since.
func (r *record) totals(now reading) console.Totals {
	t := &r.coarse
	total := console.Totals{Since: t.at, Events: map[console.Measure]float64{}}
	t.ring.each(func(at int64, over float32, row []float32) {
		began := time.UnixMilli(at).Add(-time.Duration(float64(over) * float64(time.Second)))
		if began.Before(total.Since) {
			total.Since = began.Round(time.Millisecond)
		}
		for i, name := range r.columns.counted {
			total.Events[name] += float64(row[i])
		}
	})
	for i, name := range r.columns.counted {
		total.Events[name] += float64(now.counts[i] - min(now.counts[i], t.counts[i]))
	}
	return total
}

// stamps returns the throttle of a chain that asks for stamps, or nil. If there are several it is the first, which is
// the one that the gate uses.
func (g *generation) stamps(chain *policy.Chain) *throttle {
	if chain == nil {
		return nil
	}
	for _, link := range chain.Links() {
		if _, ok := link.Throttle.(*stamp.Throttle); ok {
			return g.throttle(link.Name)
		}
	}
	return nil
}

// History returns the past of the gates with a capacity, in the order of Status. After each gate come its routes that
// have a capacity of their own.
func (b backend) History() (all []console.GateHistory) {
	g, h := b.current.Load(), b.history
	h.mu.Lock()
	defer h.mu.Unlock()
	add := func(name, address string, chain *policy.Chain, r *record) {
		past := console.GateHistory{Gate: name, Address: address}
		if t := g.stamps(chain); t != nil {
			past.Stamps = t.name
		}
		if r != nil {
			var s console.Series
			r.series(&s, false, 0, true)
			past.Samples = s.Samples()
		}
		all = append(all, past)
	}
	for _, gt := range g.gates {
		if gt.lanes != nil {
			add(gt.listen, gt.address(), gt.chain, h.records[gt.seen])
		}
		for _, at := range gt.ownRooms() {
			add(at.of, httpgate.RouteLoad(gt.address(), at.route), at.chain, h.records[at.lanes])
		}
	}
	return all
}
