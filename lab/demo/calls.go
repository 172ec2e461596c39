package demo

import (
	"context"
	"sync"
	"time"

	"weir/console"
)

// A call is what a visitor of the page has started in a scene: people on both sides, and a flood. It ends by itself.
// Its fields are under the lock of the house.
type call struct {
	ctx     context.Context // of the people; that of the flood ends with it
	people  context.CancelFunc
	leaving bool               // the people go home
	flood   context.CancelFunc // nil while there is none
	ebbing  bool               // the flood goes
	until   time.Time          // when the flood goes by itself
	home    *time.Timer        // sends the people home after the flood
	paying  bool

	floods sync.WaitGroup
	gone   chan struct{} // closed when all have left
}

// end sends everybody home. They finish what is under way. A nil call has ended.
func (c *call) end() {
	if c != nil {
		c.leaving = true
		c.people()
	}
}

// ebb sends the flood away. A nil call has none.
func (c *call) ebb() {
	if c != nil && c.flood != nil {
		c.ebbing = true
		c.flood()
	}
}

// Errors of visitors.
var (
	errOver     = console.Rejected("the demo is over, or has not begun")
	errScripted = console.Rejected("the terminal plays this scene now: wait until it is over, or take another one")
	errNobody   = console.Rejected("nobody is here: begin with the flood")
	errLeaving  = console.Rejected("they are just leaving: try again in a moment")
	errFree     = console.Invalid("nobody is asked to pay in this scene")
)

// scene returns a scene that visitors may act in. It is called under the lock.
func (h *house) scene(name string) (*pair, error) {
	p := h.pairOf(name)
	switch {
	case p == nil:
		return nil, console.NotFound("there is no such scene")
	case !h.open:
		return nil, errOver
	case p.scripted:
		return nil, errScripted
	}
	return p, nil
}

// Flood brings people and a flood to both sides of a scene. There is one such flood at a time: another one ends.
func (h *house) Flood(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, err := h.scene(name)
	if err != nil {
		return err
	}
	if c := p.called; c != nil {
		switch {
		case c.leaving || c.ebbing:
			return errLeaving
		case c.flood != nil:
			return nil // it is there
		}
		c.home.Stop()
	}
	for _, other := range h.pairs {
		other.called.ebb()
	}
	if p.called == nil {
		h.invite(p)
	}
	h.release(p)
	return nil
}

// invite lets people come.
func (h *house) invite(p *pair) {
	c := &call{gone: make(chan struct{})}
	c.ctx, c.people = context.WithCancel(context.Background())
	p.called, p.told = c, nil
	p.pay(false)
	p.begin(h.flood)
	h.playing.Go(func() {
		p.act(c.ctx, func(a *player) bool { return !a.floods() })
		c.floods.Wait() // it ends with the people, and none comes any more
		h.mu.Lock()
		defer h.mu.Unlock()
		c.people()
		p.pay(true)
		p.called = nil
		close(c.gone)
	})
}

// release lets the flood come to the people who are there. When it has gone, they stay for a while.
func (h *house) release(p *pair) {
	c := p.called
	var ctx context.Context
	ctx, c.flood = context.WithTimeout(c.ctx, h.flood)
	c.until = time.Now().Add(h.flood)
	c.floods.Go(func() {
		p.act(ctx, (*player).floods)
		h.mu.Lock()
		defer h.mu.Unlock()
		c.flood()
		c.flood, c.ebbing = nil, false
		c.home = time.AfterFunc(h.stay, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if c.flood == nil {
				c.end()
			}
		})
	})
}

// Pay makes the people of a scene pay for stamps, or not.
func (h *house) Pay(name string, on bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, err := h.scene(name)
	switch {
	case err != nil:
		return err
	case p.Pay == nil:
		return errFree
	case p.called == nil:
		return errNobody
	}
	p.pay(on)
	return nil
}

// Stop ends the flood of a scene. Where there is none, the people go home.
func (h *house) Stop(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, err := h.scene(name)
	switch {
	case err != nil:
		return err
	case p.called == nil:
		return errNobody
	case p.called.flood != nil:
		p.called.ebb()
	default:
		p.called.end()
	}
	return nil
}

// claim takes a scene for the script. What visitors have started there ends first.
func (h *house) claim(p *pair) {
	h.mu.Lock()
	c := p.called
	p.scripted = true
	p.told = nil
	c.end()
	h.mu.Unlock()
	if c != nil {
		<-c.gone
	}
}

// yield gives a scene to visitors.
func (h *house) yield(p *pair) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.scripted = false
}

// sides are both, the one in shadow first.
func (p *pair) sides() []*side { return []*side{p.without, p.with} }

// pay makes the people of both sides pay for stamps, or not, where they can.
func (p *pair) pay(on bool) {
	if p.Pay == nil {
		return
	}
	for _, s := range p.sides() {
		p.Pay(s.stage, on)
	}
	if p.called != nil {
		p.called.paying = on
	}
}

// begin counts anew. Nobody waits for their turn: a visitor says when the flood comes.
func (p *pair) begin(length time.Duration) {
	now := time.Now()
	for _, s := range p.sides() {
		s.stage.length = length
		for _, a := range s.cast {
			a.begin(s.stage.AtWork(), newHalfTime(now, length))
			a.turn = always
		}
	}
}

// act lets some of the cast act on both sides until ctx ends and they have left.
func (p *pair) act(ctx context.Context, who func(*player) bool) {
	var both sync.WaitGroup
	for _, s := range p.sides() {
		both.Go(func() {
			var workers sync.WaitGroup
			leave := s.enter(ctx, &workers, who)
			workers.Wait()
			leave()
		})
	}
	both.Wait()
}
