package apigate

import (
	"context"
	"sync"
	"time"

	"weir"
	"weir/gate"
	"weir/policy"
)

// A hold is a decision that is not over: an admission that its client settles, or a place in line.
//
// A Pass belongs to one goroutine at a time: first to the one that decides, until the hold is in the register; then to
// the one that follows the wait, once a client awaits it; and last to the one that took the hold out of the register,
// which waits until the other has let go.
type hold struct {
	id    string
	keep  bool  // the client settles an admission; else the answer that tells of it does
	bytes int64 // to be charged by that answer
	who   gate.Who
	pass  policy.Pass

	expires time.Time // under register.mu
	place   int       // in register.due, under register.mu

	mu     sync.Mutex
	answer weir.Answer   // what is known so far; the pass itself may be in use
	called chan struct{} // closed when there is nothing more to wait for; nil until it is first awaited
	cancel context.CancelFunc
	ended  bool
}

// follow starts to wait for the turn, unless that has been done, and returns a channel that is closed when the wait is
// over; nil when the hold has ended. One goroutine waits for all clients that await the hold. It goes on when they
// leave, as a wait that is broken off loses its place.
func (h *hold) follow(g *Gate) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return nil
	}
	if h.called == nil {
		h.called = make(chan struct{})
		var ctx context.Context
		ctx, h.cancel = context.WithCancel(context.Background())
		go func() {
			defer close(h.called)
			defer h.cancel()
			h.wait(ctx, g)
		}()
	}
	return h.called
}

// wait takes the pass to its final verdict, or until ctx ends.
func (h *hold) wait(ctx context.Context, g *Gate) {
	defer g.Recover("a panic while awaiting a turn",
		func() { h.tell(&weir.Answer{Verdict: weir.Refuse, Reason: weir.Failure}) })
	for h.pass.Answer.Verdict == weir.Wait {
		if h.pass.Await(ctx, g.env.Clock.Now) != nil {
			return
		}
		h.tell(&h.pass.Answer)
	}
	if h.pass.Answer.Verdict == weir.Admit {
		// The next in line need not wait until a client hears of this.
		h.pass.Away(g.env.Clock.Now())
	}
}

// tell notes what is known so far.
func (h *hold) tell(a *weir.Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = *a
}

// told returns what is known so far.
func (h *hold) told() weir.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answer
}

// settle ends the hold now, with the outcome. Only the goroutine that took it out of the register may call it.
func (h *hold) settle(g *Gate, bytes int64, o weir.Outcome) {
	h.mu.Lock()
	h.ended = true
	called, cancel := h.called, h.cancel
	h.mu.Unlock()
	if called != nil {
		cancel()
		<-called
	}
	defer g.Recover("a panic while settling a hold", nil)
	o.Time = g.env.Clock.Now()
	end(&h.pass, bytes, o)
}

// end settles a pass after charging the bytes that flowed.
func end(p *policy.Pass, bytes int64, o weir.Outcome) {
	if bytes > 0 {
		p.Flow(bytes, o.Time)
	}
	p.Settle(o)
}
