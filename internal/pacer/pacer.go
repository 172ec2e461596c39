// Package pacer moves throttles that have work of their own, such as calling the next in line, when it is due.
//
// Most callers want Pace.Start.
package pacer

import (
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/internal/clock"
)

// A Pace moves throttles by one clock. It is safe for concurrent use, and needs no end while its throttles may wait.
type Pace struct {
	Clock clock.Clock
	over  atomic.Bool
}

// Stop keeps every throttle from being moved again.
func (p *Pace) Stop() { p.over.Store(true) }

// A pacer moves one throttle: it keeps a timer for the time at which something is due next. It needs no end of its own:
// a throttle in which nobody waits is never due, and is forgotten with its pacer when nobody uses it any more.
type pacer struct {
	*Pace
	throttle weir.Clocked

	mu      sync.Mutex // taken under the throttle's locks, and never held while the throttle is called
	timer   clock.Timer
	due     time.Time // of the timer, or of what came up while running; zero when nothing is due
	round   uint64    // counts timers, so that one that was replaced while it fired is known
	running bool
}

// Start begins to move a throttle that has not judged anything yet.
func (p *Pace) Start(t weir.Clocked) {
	r := &pacer{Pace: p, throttle: t}
	t.Alarm(r.alarm)
}

// alarm notes that something is due. It is called under the throttle's locks.
func (p *pacer) alarm(due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over.Load() || due.IsZero() || (!p.due.IsZero() && !due.Before(p.due)) {
		return
	}
	p.due = due
	if !p.running { // else the timer is set when all is known
		p.set()
	}
}

// set replaces the timer by one for p.due.
func (p *pacer) set() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.round++
	round := p.round
	p.timer = p.Clock.AfterFunc(p.due.Sub(p.Clock.Now()), func() { p.run(round) })
}

// run moves the throttle and sets the next timer.
func (p *pacer) run(round uint64) {
	p.mu.Lock()
	if p.round != round || p.over.Load() {
		p.mu.Unlock()
		return
	}
	p.timer, p.due, p.running = nil, time.Time{}, true
	p.mu.Unlock()

	next := p.throttle.Advance(p.Clock.Now())
	p.alarm(next)

	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	if !p.due.IsZero() {
		p.set()
	}
}
