package grpcserve

import (
	"context"
	"sync"
	"time"
)

// A callContext is the context of a call that a worker answers. It ends at its deadline, when the call is called off or
// answered, or when its connection ends. Few who are given it wait for that, so the channel and the timer are made when
// somebody asks for them.
type callContext struct {
	deadline time.Time // zero for none

	mu    sync.Mutex
	err   error
	done  chan struct{}
	timer *time.Timer
}

var _ context.Context = (*callContext)(nil)

func (c *callContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *callContext) Value(any) any { return nil }

func (c *callContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		c.end(context.DeadlineExceeded)
	}
	return c.err
}

func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done != nil {
		return c.done
	}
	c.done = make(chan struct{})
	switch {
	case c.err != nil:
		close(c.done)
	case !c.deadline.IsZero():
		c.timer = time.AfterFunc(time.Until(c.deadline), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.end(context.DeadlineExceeded)
		})
	}
	return c.done
}

// cancel ends it.
func (c *callContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(context.Canceled)
}

// end is called with mu locked. The first reason counts.
func (c *callContext) end(why error) {
	if c.err != nil {
		return
	}
	c.err = why
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.done != nil {
		close(c.done)
	}
}
