package clock

import (
	"slices"
	"testing"
	"time"
)

func TestFakeRunsTimersInOrderAtTheirTime(t *testing.T) {
	start := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	c := NewFake(start)
	if !c.Next().IsZero() {
		t.Error("a timer that nobody set")
	}
	var ran []time.Duration
	note := func() { ran = append(ran, c.Now().Sub(start)) }
	c.AfterFunc(3*time.Second, note)
	c.AfterFunc(time.Second, func() {
		note()
		c.AfterFunc(time.Second, note) // falls due on the way
	})
	c.AfterFunc(time.Minute, note)
	stopped := c.AfterFunc(2*time.Second, note)
	if !stopped.Stop() || stopped.Stop() {
		t.Error("a timer can be stopped once")
	}
	c.Advance(10 * time.Second)
	if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}; !slices.Equal(ran, want) {
		t.Errorf("ran at %v, want %v", ran, want)
	}
	if c.Pending() != 1 || !c.Now().Equal(start.Add(10*time.Second)) || !c.Next().Equal(start.Add(time.Minute)) {
		t.Errorf("%d pending at %s, the next at %s", c.Pending(), c.Now(), c.Next())
	}
}

// TestFakeTellsOfTimers: who waits for a timer learns that one was set, once for all of them.
func TestFakeTellsOfTimers(t *testing.T) {
	c := NewFake(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	for range 2 {
		c.AfterFunc(time.Second, func() {})
		c.AfterFunc(time.Second, func() {})
		<-c.Set()
		select {
		case <-c.Set():
			t.Error("a timer that nobody set")
		default:
		}
	}
}

func TestFakeLeaps(t *testing.T) {
	c := NewFake(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	ran := 0
	var again func()
	again = func() {
		ran++
		c.AfterFunc(time.Second, again)
	}
	c.AfterFunc(time.Second, again)
	c.Leap(24 * time.Hour)
	if ran != 1 || c.Pending() != 1 {
		t.Errorf("ran %d times, %d pending", ran, c.Pending())
	}
}

func TestSystemMoves(t *testing.T) {
	done := make(chan struct{})
	before := System.Now()
	System.AfterFunc(0, func() { close(done) })
	<-done
	if System.Now().Before(before) {
		t.Error("the clock ran backwards")
	}
}
