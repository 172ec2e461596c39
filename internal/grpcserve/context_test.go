package grpcserve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestCallContext: a call's context ends as any other does, whoever asks first and whatever for.
func TestCallContext(t *testing.T) {
	ended := func(c *callContext) bool {
		select {
		case <-c.Done():
			return true
		default:
			return false
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := &callContext{}
		if _, ok := c.Deadline(); ok || c.Err() != nil || ended(c) || c.Value("key") != nil {
			t.Error("a context without a deadline has one, or has ended")
		}
		c.cancel()
		if c.cancel(); c.Err() != context.Canceled || !ended(c) {
			t.Errorf("after cancel: %v", c.Err())
		}
		late := &callContext{}
		if late.cancel(); !ended(late) {
			t.Error("the channel that is made after the end is open")
		}

		timed := &callContext{deadline: time.Now().Add(time.Second)}
		if at, ok := timed.Deadline(); !ok || !at.Equal(time.Now().Add(time.Second)) || timed.Err() != nil {
			t.Errorf("deadline %v, error %v", at, timed.Err())
		}
		asked := &callContext{deadline: time.Now().Add(time.Second)}
		child, cancel := context.WithCancel(asked)
		defer cancel()
		<-child.Done()
		if time.Now().Before(asked.deadline) || asked.Err() != context.DeadlineExceeded || !ended(asked) ||
			child.Err() != context.DeadlineExceeded {
			t.Errorf("at its deadline: %v, the child %v", asked.Err(), child.Err())
		}
		if timed.Err() != context.DeadlineExceeded || !ended(timed) {
			t.Errorf("one that nobody waited for: %v", timed.Err())
		}
		if asked.cancel(); asked.Err() != context.DeadlineExceeded {
			t.Errorf("the first reason counts, not %v", asked.Err())
		}
		early := &callContext{deadline: time.Now().Add(time.Hour)}
		_ = early.Done()
		early.cancel() // and its timer: the bubble would wait for it
	})
}
