package pacer

import (
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/clock"
)

// line is a throttle of which only the clock matters: it is due at the times it was given.
type line struct {
	mu    sync.Mutex
	alarm func(time.Time)
	due   []time.Time
	moved []time.Time // when it was advanced
	then  func()      // called once, under the lock, at the end of Advance
}

func (l *line) Alarm(f func(time.Time)) { l.alarm = f }

func (l *line) add(due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLocked(due)
}

func (l *line) addLocked(due time.Time) {
	l.due = append(l.due, due)
	slices.SortFunc(l.due, time.Time.Compare)
	l.alarm(due)
}

func (l *line) Advance(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = append(l.moved, now)
	for len(l.due) > 0 && !l.due[0].After(now) {
		l.due = l.due[1:]
	}
	var next time.Time
	if len(l.due) > 0 {
		next = l.due[0]
	}
	if then := l.then; then != nil {
		l.then = nil
		then()
	}
	return next
}

func TestPacer(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	begin := func() (*clock.Fake, *Pace, *line) {
		c := clock.NewFake(start)
		p, l := &Pace{Clock: c}, &line{}
		p.Start(l)
		return c, p, l
	}
	check := func(t *testing.T, l *line, want ...int) {
		t.Helper()
		var times []time.Time
		for _, s := range want {
			times = append(times, at(s))
		}
		if !slices.EqualFunc(l.moved, times, time.Time.Equal) {
			t.Errorf("advanced at %v, want %v", l.moved, times)
		}
	}

	t.Run("nothing is due", func(t *testing.T) {
		c, _, l := begin()
		c.Advance(time.Hour)
		check(t, l)
	})
	t.Run("one timer for the earliest", func(t *testing.T) {
		c, _, l := begin()
		for _, s := range []int{7, 3, 5, 9} {
			l.add(at(s))
			if n := c.Pending(); n != 1 {
				t.Errorf("%d timers", n)
			}
		}
		c.Advance(6 * time.Second)
		check(t, l, 3, 5)
		c.Advance(time.Hour)
		check(t, l, 3, 5, 7, 9)
		if n := c.Pending(); n != 0 {
			t.Errorf("%d timers left", n)
		}
	})
	t.Run("what comes up while it runs", func(t *testing.T) {
		c, _, l := begin()
		l.add(at(1))
		l.add(at(9))
		// Advance will answer 9; this comes up after it looked.
		l.then = func() { l.addLocked(at(2)) }
		c.Advance(5 * time.Second)
		check(t, l, 1, 2)
		c.Advance(5 * time.Second)
		check(t, l, 1, 2, 9)
	})
	t.Run("late is not lost", func(t *testing.T) {
		c, _, l := begin()
		l.add(at(-5))
		c.Advance(0)
		check(t, l, 0)
	})
	t.Run("a timer that was replaced while it fired", func(t *testing.T) {
		c, p, l := begin()
		r := &pacer{Pace: p, throttle: l}
		l.Alarm(r.alarm)
		l.add(at(5))
		stale := r.round
		l.add(at(3))
		r.run(stale)
		check(t, l)
		c.Advance(5 * time.Second)
		check(t, l, 3, 5)
	})
	t.Run("stopped", func(t *testing.T) {
		c, p, l := begin()
		l.add(at(1))
		p.Stop()
		l.add(at(0))
		c.Advance(time.Minute)
		check(t, l)
	})
}

// The machine's clock runs timers on goroutines of their own; nothing may be lost between them.
func TestPacerOnTheMachinesClock(t *testing.T) {
	t.Parallel()
	p, l := &Pace{Clock: clock.System}, &line{}
	p.Start(l)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				l.add(time.Now().Add(50 * time.Microsecond))
			}
		})
	}
	all.Wait()
	over := make(chan struct{})
	var look func() // with the lock held
	look = func() {
		if l.then = look; len(l.due) == 0 {
			l.then = nil
			close(over)
		}
	}
	l.mu.Lock()
	look()
	l.mu.Unlock()
	<-over
}
