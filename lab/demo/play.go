package demo

import (
	"context"
	"slices"
	"sync"
	"time"

	"weir/console"
)

// redraw is how often whoever watches is shown something new.
const redraw = 200 * time.Millisecond

type play struct {
	scene  *Scene
	stage  *Stage
	cast   []*player
	show   show
	parts  parts
	began  time.Time // the scene
	halved time.Time // the half
	on     bool      // the throttle is at work
	seen   seen      // in this half
	strain strain    // where there are stamps
	mail   backlog   // where there is mail
}

// seen is what the throttles have told.
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

func (p *play) perform(ctx context.Context) (r SceneReport, err error) {
	r = SceneReport{Name: p.scene.Name, LimitPerSecond: p.scene.LimitPerSecond}
	for i := range p.scene.Cast {
		p.cast = append(p.cast, &player{Actor: p.scene.Cast[i]})
	}
	p.began = time.Now()
	p.show.open(p.scene, p.stage)
	if r.Without, err = p.half(ctx, false, p.parts.without); err != nil {
		return r, err
	}
	if r.Half, err = p.half(ctx, true, p.parts.with); err != nil {
		return r, err
	}
	if p.scene.Allows != nil {
		r.FloodLimit = p.scene.Allows(r.Half)
	}
	if p.scene.Checks != nil {
		r.Checks = p.scene.Checks(r)
	}
	for _, a := range p.cast {
		if a.Role == Flood {
			r.FloodNetworks += a.networks(p.stage).Ever
		}
	}
	p.show.close(p.scene, &r)
	return r, nil
}

// half lets the cast act for a while, or until ctx ends. Everybody finishes what is under way.
func (p *play) half(ctx context.Context, on bool, length time.Duration) (Half, error) {
	if err := p.stage.throttle(on); err != nil {
		return Half{}, err
	}
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
	p.on, p.halved, p.stage.length = on, time.Now(), length
	if ctx.Err() == nil {
		p.show.half(on, length)
	}
	var workers sync.WaitGroup
	var leave []func()
	for _, a := range p.cast {
		a.begin(on, newHalfTime(p.halved, length))
	}
	for _, a := range p.cast {
		if a.Later != nil {
			a.Later(p.stage, a.tally.later())
		}
		act, done := a.Enter(p.stage)
		leave = append(leave, done)
		for range a.Workers {
			workers.Go(func() { a.work(ctx, act) })
		}
	}
	p.watch(&workers)
	took := time.Since(p.halved)
	for _, done := range leave {
		done()
	}
	p.tell()
	err := p.look()
	h := halfOf(p.cast, p.stage, took)
	h.Delayed, h.Bloom, h.Stamps = int64(p.seen.delayed-before), p.seen.bloom, p.strain.report()
	if p.scene.Mail != nil {
		h.Mail = p.scene.Mail(p.stage)
	}
	return h, err
}

func (p *play) look() error {
	status, err := p.stage.status()
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
	p.mail.look(&status, now)
	return nil
}

// flooded reports whether the flood is there.
func (p *play) flooded(now time.Time) bool {
	return slices.ContainsFunc(p.cast, func(a *player) bool { return a.Role == Flood && a.away(now) == 0 })
}

// tell shows what has happened since.
func (p *play) tell() {
	for _, text := range p.stage.noted() {
		p.show.note(text)
	}
}

// watch shows how it goes until the workers have finished.
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
