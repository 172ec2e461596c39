package gatetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/internal/clock"
	"weir/policy"
	"weir/throttle/quota"
)

// Chain returns a chain of throttles, called t0, t1 and so on.
func Chain(t testing.TB, throttles ...weir.Throttle) *policy.Chain {
	t.Helper()
	return chain(t, func(i int) string { return fmt.Sprintf("t%d", i) }, throttles)
}

// Plans returns a chain of throttles, called plans, edge and third.
func Plans(t testing.TB, throttles ...weir.Throttle) *policy.Chain {
	t.Helper()
	return chain(t, func(i int) string { return []string{"plans", "edge", "third"}[i] }, throttles)
}

func chain(t testing.TB, name func(int) string, throttles []weir.Throttle) *policy.Chain {
	t.Helper()
	var links []*policy.Link
	for i, th := range throttles {
		links = append(links, policy.NewLink(name(i), th, policy.Closed))
	}
	return ChainOf(t, links...)
}

// ChainOf returns a chain of links.
func ChainOf(t testing.TB, links ...*policy.Link) *policy.Chain {
	t.Helper()
	c, err := policy.New(links, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Quota returns a quota that moves with the clock.
func Quota(t testing.TB, c *clock.Fake, o quota.Options) *quota.Quota {
	t.Helper()
	q, err := quota.New(o)
	if err != nil {
		t.Fatal(err)
	}
	var alarm func(due time.Time)
	alarm = func(due time.Time) {
		if !due.IsZero() {
			c.AfterFunc(max(due.Sub(c.Now()), 0), func() { alarm(q.Advance(c.Now())) })
		}
	}
	q.Alarm(alarm)
	return q
}

// PerMinute is a rule that limits requests.
func PerMinute(n int64) quota.Policy {
	return quota.Policy{Name: "per-minute", Limit: quota.Count(n), Period: weir.Period{Length: time.Minute}}
}

// AtOnce is a rule that limits what is under way.
func AtOnce(n int64) quota.Policy {
	return quota.Policy{Name: "at-once", Kind: quota.Concurrent, Limit: quota.Count(n)}
}

// Delayed makes a rule let others wait.
func Delayed(p quota.Policy) quota.Policy {
	p.Over, p.Delay = quota.OverDelay, quota.Delay{Max: 1000, MaxWait: weir.Duration(time.Hour)}
	return p
}

// A Throttle does what a test says, where no real one can be made to do it at the right moment. It counts its holds.
type Throttle struct {
	Answer  func(ev *weir.Event, a *weir.Answer) error // nil admits
	Held    atomic.Int64
	Done    atomic.Int64
	Undone  atomic.Int64
	GoneOn  atomic.Int64 // what was said to be away
	Settled chan weir.Outcome
}

// NewThrottle returns a throttle that answers like this; nil admits everything.
func NewThrottle(answer func(ev *weir.Event, a *weir.Answer) error) *Throttle {
	return &Throttle{Answer: answer, Settled: make(chan weir.Outcome, 10_000)}
}

// Judge answers as it was told, and holds what may go on.
func (t *Throttle) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	if t.Answer != nil {
		if err := t.Answer(ev, a); err != nil {
			return err
		}
	}
	if a.Verdict <= weir.Wait {
		a.Hold = weir.Hold{Ref: t, N: 1}
		t.Held.Add(1)
	}
	return nil
}

// Settle counts, and tells of the outcome.
func (t *Throttle) Settle(_ weir.Hold, o weir.Outcome) {
	t.Held.Add(-1)
	if o.Done {
		t.Done.Add(1)
	} else {
		t.Undone.Add(1)
	}
	t.Settled <- o
}

// Away counts what is on its way.
func (t *Throttle) Away(weir.Hold, time.Time) { t.GoneOn.Add(1) }

// Peek says nothing.
func (t *Throttle) Peek(*weir.Event, *weir.Answer) {}

// A Line is a throttle that makes everybody wait, and lets the test call the turns.
type Line struct {
	*Throttle
	Turns chan *weir.Turn
}

// NewLine returns an empty line.
func NewLine() *Line {
	l := &Line{Turns: make(chan *weir.Turn, 1000)}
	l.Throttle = NewThrottle(func(_ *weir.Event, a *weir.Answer) error {
		a.Verdict, a.Reason, a.Turn = weir.Wait, weir.OverLimit, weir.NewTurn()
		a.Figure = weir.Figure{Rule: "line", Unit: "requests", Limit: 1}
		l.Turns <- a.Turn
		return nil
	})
	return l
}
