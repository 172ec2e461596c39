package demo

import (
	"context"
	"sync"
	"time"
)

// redraw is how often whoever watches is shown something new.
const redraw = 200 * time.Millisecond

// A player is an actor at work.
type player struct {
	Actor
	tally tally
}

// A play is one scene being played.
type play struct {
	scene  *Scene
	stage  *Stage
	cast   []*player
	show   show
	parts  parts
	began  time.Time // the scene
	halved time.Time // the half
	on     bool      // the throttle is at work
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

// perform plays both halves.
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
	p.show.close(p.scene, &r)
	return r, nil
}

// half lets the cast act for a while, or until ctx ends. Everybody finishes what is under way.
func (p *play) half(ctx context.Context, on bool, length time.Duration) (Half, error) {
	if err := p.stage.throttle(on); err != nil {
		return Half{}, err
	}
	before, err := p.stage.delayed()
	if err != nil {
		return Half{}, err
	}
	if length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, length)
		defer cancel()
	}
	p.on, p.halved = on, time.Now()
	if ctx.Err() == nil {
		p.show.half(on, length)
	}
	var workers sync.WaitGroup
	var leave []func()
	for _, a := range p.cast {
		a.tally.begin()
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
	after, err := p.stage.delayed()
	return halfOf(p.cast, took, after-before), err
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
			p.show.draw(p.view(time.Now()))
		case <-finished:
			return
		}
	}
}

// work rests and acts until ctx ends: people do not all come at the stroke of the clock, and not before the flood. What is under
// way at the end is finished all the same.
func (a *player) work(ctx context.Context, act func(context.Context) Result) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	whole := context.WithoutCancel(ctx)
	result := Served
	for {
		if pause := a.Pause(result); pause > 0 {
			rest.Reset(pause)
			select {
			case <-rest.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		began := time.Now()
		result = act(whole)
		now := time.Now()
		a.tally.add(result, now.Sub(began), now)
	}
}
