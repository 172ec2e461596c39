package clock

import (
	"slices"
	"sync"
	"time"
)

// A Fake is a clock for tests. It moves only by Advance and Leap.
type Fake struct {
	mu     sync.Mutex
	now    time.Time
	timers []*fakeTimer
	set    chan struct{} // full after a timer was set
}

type fakeTimer struct {
	clock *Fake
	at    time.Time
	f     func()
}

// NewFake returns a clock that stands at t.
func NewFake(t time.Time) *Fake { return &Fake{now: t, set: make(chan struct{}, 1)} }

// Set returns a channel that has something to be received when a timer has been set since the last receive.
func (c *Fake) Set() <-chan struct{} { return c.set }

func (c *Fake) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc runs f when the clock has been moved by d or more, on the goroutine that moves it.
func (c *Fake) AfterFunc(d time.Duration, f func()) Timer {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{c, c.now.Add(d), f}
	c.timers = append(c.timers, t)
	select {
	case c.set <- struct{}{}:
	default: // it has not been received yet
	}
	return t
}

// Advance moves the clock by d, stopping at every timer on the way, in order.
func (c *Fake) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for {
		next := c.earliest()
		if next == nil || next.at.After(end) {
			break
		}
		c.drop(next)
		if next.at.After(c.now) {
			c.now = next.at
		}
		c.mu.Unlock()
		next.f()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

// Leap moves the clock by d at once, as on a machine that was asleep. Timers that are due run afterwards, and timers
// that they set wait for the next move.
func (c *Fake) Leap(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
	c.Advance(0)
}

// Pending returns how many timers have yet to run.
func (c *Fake) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// Next returns when the next timer runs, or the zero time if none is set.
func (c *Fake) Next() (at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.earliest(); t != nil {
		at = t.at
	}
	return at
}

// earliest returns the timer that runs next, or nil. c.mu is held.
func (c *Fake) earliest() *fakeTimer {
	if len(c.timers) == 0 {
		return nil
	}
	return slices.MinFunc(c.timers, func(a, b *fakeTimer) int { return a.at.Compare(b.at) })
}

func (t *fakeTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.clock.drop(t)
}

func (c *Fake) drop(t *fakeTimer) bool {
	i := slices.Index(c.timers, t)
	if i < 0 {
		return false
	}
	c.timers = slices.Delete(c.timers, i, i+1)
	return true
}
