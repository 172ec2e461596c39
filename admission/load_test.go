package admission

import (
	"math"
	"sync"
	"testing"
	"time"

	"weir"
)

func (r *rig) load(want, within float64) {
	r.t.Helper()
	if share, _ := r.l.Load(r.now); math.Abs(float64(share)-want) > within {
		r.t.Errorf("after %s: load %s, want about %s", r.now.Sub(epoch), share, weir.Share(want))
	}
}

func TestLoadIsDemand(t *testing.T) {
	r := newRig(t, Options{Concurrent: 4})
	r.load(0, 0)
	var all []*event
	for range 2 {
		all = append(all, r.admit(0))
	}
	r.now = r.now.Add(2 * time.Second)
	r.load(0.5, 0.01)
	for range 10 {
		all = append(all, r.ask(paying(2)))
	}
	r.now = r.now.Add(500 * time.Millisecond)
	r.load(1.75, 0.15) // half of the last second at 0.5, half at 3
	r.now = r.now.Add(time.Second)
	r.load(3, 0.01)
	for _, e := range all {
		r.settle(e, true)
	}
	r.now = r.now.Add(1100 * time.Millisecond)
	r.load(0, 0)
}

// A ten-fold flood that is turned away still counts, and falls only when the flood does.
func TestTurnedAwayIsDemandToo(t *testing.T) {
	s := newSim(t, Options{Concurrent: 10})
	s.loop(10, 1<<16, always(100*time.Millisecond), 0) // 100 a second, all that it can do
	s.run(3 * time.Second)
	s.load(1, 0.05)
	stop := s.now.Add(5 * time.Second)
	var flood func()
	flood = func() {
		s.turnedAway(s.now)
		if s.now.Before(stop) {
			s.after(time.Second/900, flood)
		}
	}
	flood()
	s.run(2 * time.Second)
	s.load(10, 0.5)
	s.run(2500 * time.Millisecond)
	s.load(10, 0.5)
	s.run(2 * time.Second)
	s.load(1, 0.05)
	if n := s.stats().TurnedAway; n < 4000 || n > 5000 {
		t.Errorf("%d turned away", n)
	}
}

func TestTurnedAwayBeforeAnythingIsKnown(t *testing.T) {
	r := newRig(t, Options{Concurrent: 10})
	for range 2000 { // 1000 a second, each taken for 50 ms
		r.turnedAway(r.now)
		r.now = r.now.Add(time.Millisecond)
	}
	r.load(5, 0.2)
}

// Nothing goes on, whatever went on before: no load and no delay within two seconds.
func TestNothingGoesOn(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	under := r.admit(2)
	waits := r.wait(2)
	for range 10_000 {
		r.turnedAway(r.now)
	}
	r.now = r.now.Add(time.Second / 2)
	r.settle(under, true)
	r.settle(waits, true)
	if share, delay := r.l.Load(r.now); share < 100 || delay != time.Second/2 {
		t.Fatalf("load %s, delay %s", share, delay)
	}
	for _, pause := range []time.Duration{2 * time.Second, time.Hour} {
		r.now = r.now.Add(pause)
		if share, delay := r.l.Load(r.now); share != 0 || delay != 0 {
			t.Errorf("load %s, delay %s after %s", share, delay, pause)
		}
	}
}

// The delay is the longest that a client waited for its turn that paid what is asked now, while places move.
func TestDelayOfThoseWhoPaid(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	r.l.Asked(4)
	delay := func(want time.Duration) {
		t.Helper()
		r.now = r.now.Add(time.Duration(bucket)) // to see it anew
		if _, got := r.l.Load(r.now); got != want {
			t.Errorf("after %s: delay %s, want %s", r.now.Sub(epoch), got, want)
		}
	}
	next := func(under, want *event) *event {
		t.Helper()
		r.settle(under, true)
		if got := r.called(); len(got) != 1 || got[0] != want.n {
			t.Fatalf("called %v", got)
		}
		return want
	}
	delay(0)
	under := r.admit(0)
	r.wait(0) // the general pool is not meant
	ask := func(work uint64, source string) *event { return r.ask(from(paying(work), source)) }
	a1, b1, c1 := ask(4, "192.0.2.1"), ask(3, "192.0.2.2"), ask(4, "192.0.2.3")
	a2 := ask(4, "192.0.2.1")
	r.now = r.now.Add(time.Minute)
	delay(0) // nothing moves: nobody is to work for that
	r.now = epoch.Add(time.Minute + time.Second)
	under = next(under, a1)
	delay(r.now.Sub(epoch) - time.Duration(bucket))
	r.now = r.now.Add(2 * time.Second)
	delay(0)
	under = next(under, b1)
	delay(0) // it paid less than what is asked
	under = next(under, c1)
	delay(r.now.Sub(epoch) - time.Duration(bucket))
	r.now = r.now.Add(2 * time.Second)
	next(under, a2)
	delay(r.now.Sub(epoch.Add(time.Minute + time.Second))) // since its last turn
}

// A client that has a place waits for itself, and counts for nothing, however long that is.
func TestDelayOfAClientForItself(t *testing.T) {
	r := newRig(t, Options{Concurrent: 2})
	r.l.Asked(4)
	ask := func(source string) *event { return r.ask(from(paying(4), source)) }
	first := ask("192.0.2.1")
	ask("192.0.2.1")
	third := ask("192.0.2.1")
	r.now = r.now.Add(time.Minute)
	r.settle(first, true)
	if got := r.called(); len(got) != 1 || got[0] != third.n {
		t.Fatalf("called %v", got)
	}
	r.now = r.now.Add(time.Duration(bucket))
	if _, delay := r.l.Load(r.now); delay != 0 {
		t.Errorf("delay %s", delay)
	}
}

func TestServiceTime(t *testing.T) {
	var p movingMean
	if p.orGuess() != float64(guess) {
		t.Error("no guess")
	}
	at := int64(0)
	for range 20 { // a few at first count alike
		at += int64(time.Millisecond)
		p.add(int64(10*time.Millisecond), at)
		p.add(int64(30*time.Millisecond), at)
	}
	if got := time.Duration(p.mean); got < 19*time.Millisecond || got > 21*time.Millisecond {
		t.Errorf("mean %s, want 20ms", got)
	}
	p.add(0, at)
	p.add(-5, at)
	if got := time.Duration(p.mean); got < 19*time.Millisecond {
		t.Errorf("mean %s: what took no time is no measure", got)
	}
	for range 20 { // few requests: the last seconds count
		at += int64(2 * time.Second)
		p.add(int64(time.Second), at)
	}
	if got := time.Duration(p.mean); got < 950*time.Millisecond {
		t.Errorf("mean %s, want about 1s", got)
	}
	p = movingMean{}
	for range 8 {
		p.add(int64(10*time.Millisecond), at)
	}
	p.add(int64(time.Hour), at) // after the first eight it counts as eight times the mean
	if got := time.Duration(p.mean); got > 20*time.Millisecond {
		t.Errorf("mean %s after one download", got)
	}
}

// Whoever asks for the load never waits for long, and sees something sane.
func TestLoadFromManySides(t *testing.T) {
	r := newRig(t, Options{Concurrent: 3})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := range 2000 {
				now := epoch.Add(time.Duration(n*i) * time.Millisecond)
				r.turnedAway(now)
				if share, delay := r.l.Load(now); !(share >= 0 && share < 1e6) || delay < 0 {
					t.Errorf("load %s, delay %s", share, delay)
				}
			}
		})
	}
	wg.Wait()
}
