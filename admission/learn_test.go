package admission

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// An upstream that can work on so many at once: beyond that, requests take longer in proportion.
type upstream struct {
	*sim
	can   int
	takes func() time.Duration
}

func (u *upstream) time() time.Duration {
	return time.Duration(float64(u.takes()) * max(1, float64(u.under[pool]+u.under[stamped])/float64(u.can)))
}

func learnt(t *testing.T, begin int, vary bool) *upstream {
	u := &upstream{sim: newSim(t, Options{Learn: true, Concurrent: begin, Waiting: 10_000}), can: 20}
	if u.takes = always(100 * time.Millisecond); vary {
		u.takes = u.mostly(100 * time.Millisecond)
	}
	return u
}

func (u *upstream) settles(what string, least, most int) {
	u.t.Helper()
	got := u.stats().Capacity
	u.t.Logf("%s: %d", what, got)
	if got < least || got > most {
		u.t.Errorf("%s: learnt %d, want %d to %d", what, got, least, most)
	}
}

func TestLearnsTheCapacity(t *testing.T) {
	begins := map[int]bool{4: true, 100: false}
	if needs.Long() {
		begins[17] = true
	}
	for begin, vary := range begins {
		u := learnt(t, begin, vary)
		u.loop(150, 1<<16, u.time, 0)
		u.run(45 * time.Second)
		u.settles(fmt.Sprintf("from %d, varying %v: 20 at once", begin, vary), 12, 40)
		u.can = 60
		u.run(45 * time.Second)
		u.settles("60 at once", 40, 120)
		u.can = 20
		u.run(45 * time.Second)
		u.settles("20 again", 12, 40)
		// It stays there, and what is there is used.
		u.done = [lanes]int{}
		for range 3 {
			u.run(30 * time.Second)
			u.settles("still 20", 12, 40)
		}
		if n := u.done[stamped]; n < 200*90*9/10 {
			t.Errorf("%d served, %d are possible", n, 200*90)
		}
	}
}

// An upstream that becomes slow by itself is not taken for an overloaded one for ever.
func TestLearnsThatRequestsTakeLonger(t *testing.T) {
	u := learnt(t, 16, false)
	u.loop(100, 1<<16, u.time, 0)
	u.run(30 * time.Second)
	u.takes = always(300 * time.Millisecond)
	u.run(time.Minute)
	u.settles("three times as slow", 12, 40)
	u.takes = always(50 * time.Millisecond)
	u.run(time.Minute)
	u.settles("quick again", 12, 40)
}

// Requests that last for minutes teach nothing about the others, and looking does not hold everybody up when they do
// not end.
func TestLearnsInSpiteOfLongRequests(t *testing.T) {
	u := learnt(t, 30, false)
	u.loop(25, 1<<16, always(time.Minute), 0)
	u.run(time.Second)
	served := func() uint64 { return u.stats().Stamped.LetIn }
	u.can = 60
	u.loop(100, 1<<16, u.time, 0)
	u.run(time.Second)
	for before := served(); u.now.Before(epoch.Add(3 * time.Minute)); before = served() {
		if u.run(2 * time.Second); served() == before {
			t.Fatalf("nobody was let in around %s: %+v", u.now.Sub(epoch), u.stats())
		}
	}
	u.settles("60 at once", 40, 150)
}

// Nothing is learnt from an upstream that has little to do: the night must not unlearn the day.
func TestLearnsNothingFromIdleTimes(t *testing.T) {
	u := learnt(t, 16, true)
	u.loop(300, 1<<16, u.time, 0)
	u.run(time.Minute)
	busy := u.stats().Capacity
	v := learnt(t, busy, true)
	v.loop(3, 1<<16, v.time, 50*time.Millisecond)
	v.run(10 * time.Minute)
	v.settles("with little to do", busy, busy)
}

func TestLearnsWithinBounds(t *testing.T) {
	u := &upstream{sim: newSim(t, Options{Learn: true, Least: 10, Most: 30}), takes: always(30 * time.Millisecond),
		can: 1000}
	u.loop(200, 1<<16, u.time, 0)
	u.run(20 * time.Second)
	u.settles("the most", 30, 30)
	u.can = 1
	u.run(20 * time.Second)
	u.settles("the least", 10, 10)
	must(t, u.l.Configure(Options{Learn: true, Least: 50, Most: 60}, u.now))
	u.settles("moved", 50, 60)
	must(t, u.l.Configure(Options{Concurrent: 5}, u.now))
	u.settles("written", 5, 5)
	must(t, u.l.Configure(Options{Learn: true, Concurrent: 40}, u.now))
	u.settles("begins", 40, 40)
}

// A large upstream whose requests vary a lot is not held for a small one.
func TestLearnsALargeCapacity(t *testing.T) {
	u := learnt(t, 16, true)
	u.can = 500
	u.loop(800, 1<<16, u.time, 0)
	u.run(25 * time.Second)
	u.settles("500 at once", 300, 800)
}

// A probe that lets only one through is given up as others are, though no request ends.
func TestProbeOfOneIsGivenUp(t *testing.T) {
	r := newRig(t, Options{Learn: true, Concurrent: 2, Least: 1})
	if !r.l.learner.begin(r.l.at) || r.l.learner.capacity() != 1 {
		t.Fatalf("a capacity of %d", r.l.learner.capacity())
	}
	r.tick()
	r.advance(time.Duration(drainLong))
	if got := r.l.learner.capacity(); got != 2 {
		t.Errorf("a capacity of %d after %s", got, time.Duration(drainLong))
	}
}
