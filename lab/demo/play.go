package demo

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/console"
	"weir/lab/machine"
)

// redraw is how often the view is drawn.
const redraw = 200 * time.Millisecond

type play struct {
	*pair
	house  *house
	show   show
	parts  parts
	began  time.Time // the scene
	halved time.Time // the half
	on     bool      // the throttle is at work
	seen   seen      // in this half
	strain strain    // where there are stamps
	queue  backlog   // where there is mail
}

// seen is what the status of the throttles showed.
type seen struct {
	delayed uint64         // how many requests were held back since the start
	bloom   *console.Bloom // the Bloom limiter when it was worst, if there is one
}

// parts say how long each half takes. 0 means until the context ends.
type parts struct{ without, with time.Duration }

// total returns how long the scene takes, or 0 when that is open.
func (p parts) total() time.Duration {
	if p.with == 0 {
		return 0
	}
	return p.without + p.with
}

// now is the side that is played.
func (p *play) now() *side { return p.side(p.on) }

func (p *play) perform(ctx context.Context) (r SceneReport, err error) {
	r = SceneReport{Name: p.Name, LimitPerSecond: p.LimitPerSecond}
	p.began = time.Now()
	p.show.open(p.pair)
	if r.Without, err = p.half(ctx, false, p.parts.without); err != nil {
		return r, err
	}
	if r.Half, err = p.half(ctx, true, p.parts.with); err != nil {
		return r, err
	}
	if p.Scene.Allows != nil {
		r.FloodLimit = p.Scene.Allows(r.Half)
	}
	if p.Scene.Checks != nil {
		r.Checks = p.Scene.Checks(r)
	}
	for i, a := range p.with.cast {
		if a.Role == Flood { // on both sides they come in the same order
			r.FloodNetworks += max(a.networks(p.with.stage).Ever, p.without.cast[i].networks(p.without.stage).Ever)
		}
	}
	p.show.close(p.Scene, &r)
	return r, nil
}

// half lets the cast act for a while, or until ctx ends. The actors finish what is under way.
func (p *play) half(ctx context.Context, on bool, length time.Duration) (Half, error) {
	p.on = on
	if err := p.look(); err != nil {
		return Half{}, err
	}
	before := p.seen.delayed
	p.seen.bloom = nil // of the other half
	p.strain.begin()
	if length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, length)
		defer cancel()
	}
	stage, cast := p.now().stage, p.now().cast
	p.halved, stage.length = time.Now(), length
	if ctx.Err() == nil {
		p.show.half(on, length)
	}
	for _, a := range cast {
		a.begin(on, newHalfTime(p.halved, length))
	}
	var workers sync.WaitGroup
	leave := p.now().enter(ctx, &workers, func(*player) bool { return true })
	p.watch(&workers)
	took := time.Since(p.halved)
	leave()
	p.tell()
	err := p.look()
	h := halfOf(cast, stage, took)
	h.Delayed, h.Bloom, h.Stamps = int64(p.seen.delayed-before), p.seen.bloom, p.strain.report()
	if p.Mail != nil {
		h.Mail = p.Mail(stage)
	}
	if p.Farm != nil {
		h.Farm = p.Farm(stage)
	}
	return h, err
}

func (p *play) look() error {
	status, err := p.now().stage.status()
	if err != nil {
		return err
	}
	p.seen.delayed = 0
	for _, t := range status.Throttles {
		p.seen.delayed += t.Verdicts["wait"]
		if b := t.Bloom; b != nil && (p.seen.bloom == nil || b.Collateral > p.seen.bloom.Collateral) {
			p.seen.bloom = b
		}
	}
	now := time.Now()
	p.strain.look(&status, p.flooded(now), now)
	p.queue.look(&status, now)
	return nil
}

// flooded reports whether the flood is there.
func (p *play) flooded(now time.Time) bool {
	return slices.ContainsFunc(p.now().cast, func(a *player) bool { return a.Role == Flood && a.away(now) == 0 })
}

func (p *play) tell() {
	for _, text := range p.house.hear(p.pair) {
		p.show.note(text)
	}
}

// watch draws the view until the workers have finished.
func (p *play) watch(workers *sync.WaitGroup) {
	finished := make(chan struct{})
	go func() {
		workers.Wait()
		close(finished)
	}()
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	p.show.draw(p.view(time.Now()))
	for {
		select {
		case <-tick.C:
			_ = p.look() // if something is wrong, it shows at the end of the half
			p.tell()
			p.show.draw(p.view(time.Now()))
		case <-finished:
			return
		}
	}
}

// round is after how long a half with an open end begins anew, for actors who do not come all the time.
const round = 30 * time.Second

type player struct {
	Actor
	tally tally
	half  halfTime
	turn  Span // in this half
}

// always is the turn of an actor who comes whenever it is called.
var always = Span{0, 1<<63 - 1}

// A halfTime is when a half began and how long it takes, or one round of it where the end is open.
type halfTime struct {
	began time.Time
	takes time.Duration
	open  bool
}

func newHalfTime(began time.Time, length time.Duration) halfTime {
	if length <= 0 {
		return halfTime{began, round, true}
	}
	return halfTime{began, length, false}
}

// floods reports whether the actor comes and goes with the flood.
func (a *player) floods() bool { return a.Role == Flood || a.WithFlood }

func (a *player) begin(on bool, half halfTime) {
	a.tally.begin()
	a.half = half
	if a.Turn != nil {
		a.turn = a.Turn(on, half.takes)
	}
}

// away returns how long it is until the actor comes; 0 while it is there.
func (a *player) away(now time.Time) time.Duration {
	if a.Turn == nil {
		return 0
	}
	at := now.Sub(a.half.began)
	if a.half.open {
		at %= a.half.takes
	}
	switch {
	case a.turn.From >= a.turn.To:
		return a.half.takes + 1 // not in this half
	case at < a.turn.From:
		return a.turn.From - at
	case at >= a.turn.To:
		return max(a.half.takes-at, 0) + a.turn.From + 1
	}
	return 0
}

func (a *player) networks(s *Stage) Networks {
	if a.Networks == nil {
		return Networks{}
	}
	return a.Networks(s)
}

// work rests and acts until ctx ends. It rests first, so that people do not all come at once, and not before the flood.
// What is under way at the end is finished.
func (a *player) work(ctx context.Context, act func(context.Context) Result) {
	whole := context.WithoutCancel(ctx)
	result := Served
	for machine.Sleep(ctx, a.Pause(result)) {
		if wait := a.away(time.Now()); wait > 0 {
			machine.Sleep(ctx, wait)
			result = Served
			continue
		}
		began := time.Now()
		result = act(whole)
		if now := time.Now(); result != Nothing {
			a.tally.add(result, now.Sub(began), now)
		}
	}
}

// A view is a scene at one moment, for the live table.
type view struct {
	on             bool          // the throttle is at work
	elapsed, total time.Duration // of the scene; a total of 0 is an open end
	left           time.Duration // of the half without the throttle
	rule           string        // the limit
	rows           []row
	bloom          *console.Bloom // when it was worst in this half, where there is one
	dials          []dial         // load and work, where stamps are asked for; what waits, where there is mail
	holds          bool           // something may be held
}

// A dial shows a value that rises and falls.
type dial struct {
	name, value, unit string
	history           []float64 // in each of the last seconds, oldest first
}

type row struct {
	name string
	role Role
	rates
	held     int64     // in this half, and still
	networks int64     // that it came from in this half; 0 where that does not matter
	p50, p99 float64   // milliseconds, of the half so far
	history  []float64 // served in each of the last seconds, oldest first
}

func (p *play) view(now time.Time) view {
	v := view{on: p.on, elapsed: now.Sub(p.began), total: p.parts.total(),
		rule: p.Scene.Rule, bloom: p.seen.bloom,
		dials: append(p.strain.dials(p.on, p.began, now), p.queue.dials(p.began, now)...), holds: p.Scene.holds()}
	if !p.on {
		v.left = max(p.parts.without-now.Sub(p.halved), 0)
	}
	for i, a := range p.now().cast {
		history := a.tally.history(p.began, now)
		if p.on { // the seconds of the other half stay: they show the change
			for j, n := range p.without.cast[i].tally.history(p.began, now) {
				history[j] += n
			}
		}
		f := a.tally.figures()
		v.rows = append(v.rows, row{name: a.Name, role: a.Role, rates: a.tally.rates(p.halved, now),
			held: max(f.Held, 0), networks: a.networks(p.now().stage).Half,
			p50: f.P50, p99: f.P99, history: history})
	}
	return v
}

func (s *strain) dials(on bool, began, now time.Time) []dial {
	if !s.known {
		return nil
	}
	load := dial{"LOAD", percent(s.load.now), "of what the service can do", s.load.history(began, now)}
	work := dial{"WORK", milliseconds(s.work.now), "of a phone, asked for a stamp", s.work.history(began, now)}
	switch {
	case s.work.now == 0:
		work.value, work.unit = "dormant", ""
	case !on:
		work.unit = "of a phone, would be asked"
	}
	return []dial{load, work}
}

// history returns how many were served in each of the last whole seconds since began, oldest first.
func (t *tally) history(began, now time.Time) []float64 {
	var h []float64
	for s := max(began.Unix(), now.Unix()-sparkMost); s < now.Unix(); s++ {
		h = append(h, float64(t.at(s).served))
	}
	return h
}
