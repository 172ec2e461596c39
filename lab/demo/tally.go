package demo

import (
	"sync"
	"time"

	"weir/lab/machine"
)

// A tally counts the results of an actor, over one half and second by second. It is safe for concurrent use.
type tally struct {
	mu      sync.Mutex
	number  int // of the half
	half    counts
	latency machine.Times // of what was served in this half
	ring    ring
}

// counts are results by kind.
type counts struct{ sent, served, refused, failed, held int64 }

func (c *counts) add(r Result) {
	c.sent++
	c.become(r)
}

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

// plus adds other counts.
func (c *counts) plus(o counts) {
	c.sent += o.sent
	c.served += o.served
	c.refused += o.refused
	c.failed += o.failed
	c.held += o.held
}

// ringSeconds is how many seconds are remembered one by one.
const ringSeconds = 64

// A ring remembers the counts of each of the last seconds of the clock. The zero value is empty.
type ring [ringSeconds]struct {
	unix int64
	of   counts
}

// at returns what is remembered for a second, to be changed.
func (r *ring) at(unix int64) *counts {
	s := &r[unix%ringSeconds]
	if s.unix != unix {
		s.unix, s.of = unix, counts{}
	}
	return &s.of
}

// add counts a result that took so long, at the time it came.
func (t *tally) add(r Result, took time.Duration, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.half.add(r)
	if r == Served {
		t.latency.Add(took)
	}
	t.ring.at(at.Unix()).add(r)
}

// later returns how to count what became of something that was held. It counts only until the half ends.
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
		t.ring.at(at.Unix()).become(r)
		if r == Served {
			t.latency.Add(took)
		}
	}
}

// begin starts a half. The seconds stay: they show the change.
func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.number++
	t.half, t.latency = counts{}, machine.Times{}
}

// sums returns the counts and latencies of the half.
func (t *tally) sums() (counts, machine.Times) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.half, t.latency
}

func (t *tally) figures() Figures {
	half, latency := t.sums()
	return figuresOf(half, &latency)
}

// at returns what happened in a second of the clock.
func (t *tally) at(unix int64) (c counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.ring[unix%ringSeconds]; s.unix == unix {
		c = s.of
	}
	return c
}
