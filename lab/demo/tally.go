package demo

import (
	"sync"
	"time"
)

// A tally counts what became of what an actor did, over one half and second by second. Safe for concurrent use.
type tally struct {
	mu      sync.Mutex
	number  int // of the half
	half    counts
	latency histogram // of what was served in this half
	ring    [ringSeconds]second
}

// counts are results by kind.
type counts struct{ sent, served, refused, failed, held int64 }

func (c *counts) add(r Result) {
	c.sent++
	c.become(r)
}

// become counts what became of something.
func (c *counts) become(r Result) {
	switch r {
	case Served:
		c.served++
	case Refused:
		c.refused++
	case Held:
		c.held++
	default:
		c.failed++
	}
}

// ringSeconds is how many seconds are remembered one by one.
const ringSeconds = 64

// A second of the clock and what happened in it.
type second struct {
	unix int64
	counts
}

// add counts one result that took so long, at the time it came.
func (t *tally) add(r Result, took time.Duration, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.half.add(r)
	if r == Served {
		t.latency.add(took)
	}
	t.second(at).add(r)
}

// second returns what is counted in a second of the clock.
func (t *tally) second(at time.Time) *counts {
	s := &t.ring[at.Unix()%ringSeconds]
	if s.unix != at.Unix() {
		*s = second{unix: at.Unix()}
	}
	return &s.counts
}

// later returns how to count what became of something that was held. What belongs to another half is not counted any
// more.
func (t *tally) later() func(Result, time.Duration, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	number := t.number
	return func(r Result, took time.Duration, at time.Time) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.number != number {
			return
		}
		t.half.held--
		t.half.become(r)
		t.second(at).become(r)
		if r == Served {
			t.latency.add(took)
		}
	}
}

// begin starts a half. The seconds stay: they show the change.
func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.number++
	t.half, t.latency = counts{}, histogram{}
}

// figures sums the half up.
func (t *tally) figures() (Figures, histogram) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return figuresOf(t.half, &t.latency), t.latency
}

// at returns what happened in a second of the clock.
func (t *tally) at(unix int64) counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.ring[unix%ringSeconds]; s.unix == unix {
		return s.counts
	}
	return counts{}
}

// rates returns results per second: over the last whole seconds of the half, two at most, or while there is none over
// all of it.
func (t *tally) rates(began, now time.Time) rates {
	const last = 2
	first := began.Unix()
	if began.Nanosecond() > 0 {
		first++ // of that second only a part belongs to the half
	}
	var sum counts
	from, to := max(first, now.Unix()-last), now.Unix()
	if from >= to {
		t.mu.Lock()
		sum = t.half
		t.mu.Unlock()
		return sum.per(now.Sub(began).Seconds())
	}
	for s := from; s < to; s++ {
		c := t.at(s)
		sum.sent += c.sent
		sum.served += c.served
		sum.refused += c.refused
		sum.failed += c.failed
	}
	return sum.per(float64(to - from))
}

// rates are counts per second.
type rates struct{ sent, served, refused, failed float64 }

func (c counts) per(seconds float64) rates {
	if seconds <= 0 {
		return rates{}
	}
	return rates{float64(c.sent) / seconds, float64(c.served) / seconds, float64(c.refused) / seconds,
		float64(c.failed) / seconds}
}
