package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/console"
	"weir/lab/machine"
)

// redraw is how often the report so far is shown.
const redraw = 200 * time.Millisecond

type play struct {
	*pair
	house  *house
	show   show
	parts  parts
	halved time.Time // the half began
	on     bool      // the throttle is at work
	before uint64    // what was held back when the half began
	seen   seen      // in this half
	strain strain    // where there are stamps
	report SceneReport
}

// seen is what the status of the throttles showed.
type seen struct {
	delayed uint64         // how many requests were held back since the start
	bloom   *console.Bloom // the Bloom limiter when it was worst, if there is one
}

// parts say how long each half takes. 0 means until the context ends.
type parts struct{ without, with time.Duration }

// now is the side that is played.
func (p *play) now() *side { return p.side(p.on) }

func (p *play) perform(ctx context.Context) (SceneReport, error) {
	r := &p.report
	*r = SceneReport{Name: p.Name, LimitPerSecond: p.LimitPerSecond}
	p.show.open(p.pair)
	if err := p.half(ctx, &r.Without, false, p.parts.without); err != nil {
		return *r, err
	}
	if err := p.half(ctx, &r.Half, true, p.parts.with); err != nil {
		return *r, err
	}
	if p.Scene.Allows != nil {
		r.FloodLimit = p.Scene.Allows(r.Half)
	}
	if p.Scene.Checks != nil {
		r.Checks = p.Scene.Checks(*r)
	}
	for i, a := range p.with.cast {
		if a.Role == Flood { // on both sides they come in the same order
			r.FloodNetworks += max(a.networks(p.with.stage).Ever, p.without.cast[i].networks(p.without.stage).Ever)
		}
	}
	p.show.close(p.Scene, r)
	return *r, nil
}

// half lets the cast act for a while, or until ctx ends. The actors finish what is under way.
func (p *play) half(ctx context.Context, h *Half, on bool, length time.Duration) error {
	p.on = on
	if err := p.look(); err != nil {
		return err
	}
	p.before = p.seen.delayed
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
	p.watch(h, &workers)
	took := time.Since(p.halved)
	leave()
	p.tell()
	err := p.look()
	*h = p.soFar(took)
	if p.Mail != nil {
		h.Mail = p.Mail(stage)
	}
	if p.Farm != nil {
		h.Farm = p.Farm(stage)
	}
	return err
}

// soFar returns the figures of the half, but for those that are only there at its end.
func (p *play) soFar(took time.Duration) Half {
	h := halfOf(p.now().cast, p.now().stage, took)
	h.Delayed, h.Bloom, h.Stamps = int64(p.seen.delayed-p.before), p.seen.bloom, p.strain.report()
	return h
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

// watch shows the report so far until the workers have finished.
func (p *play) watch(h *Half, workers *sync.WaitGroup) {
	finished := make(chan struct{})
	go func() {
		workers.Wait()
		close(finished)
	}()
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		took := time.Since(p.halved)
		*h = p.soFar(took)
		p.show.draw(p.Scene, &p.report, p.hint(took))
		select {
		case <-tick.C:
			_ = p.look() // if something is wrong, it shows at the end of the half
			p.tell()
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

// hint says what goes on.
func (p *play) hint(took time.Duration) string {
	switch {
	case !p.on:
		return fmt.Sprintf("In shadow: it counts, everything passes. At work in %s.",
			max(p.parts.without-took, 0).Round(time.Second))
	case p.parts.with == 0:
		return p.Rule + " Ctrl-C ends the demo."
	}
	return fmt.Sprintf("%s %s left.", p.Rule, max(p.parts.with-took, 0).Round(time.Second))
}
