package stamp

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

// TestSourceSchedule: the first schedule of the document, 4 bits up to 10 %, 8 bits at 80 %.
func TestSourceSchedule(t *testing.T) {
	d := Options{Schedule: sourceSchedule(), Algorithm: DLogClassic}.Difficulty()
	for load, want := range map[weir.Share]Work{0: 16, 0.05: 16, 0.1: 16, 0.79: 16, 0.8: 256, 1: 256, 3: 256} {
		if got := d.Next(State{}, start, load, time.Hour).Work; got != want {
			t.Errorf("at %s: %d, want %d", load, got, want)
		}
	}
	if got := (Options{Schedule: []Step{{0.5, 9}}}).Difficulty().Next(State{}, start, 0.4, 0).Work; got != 0 {
		t.Errorf("below the first step: %d", got)
	}
}

// TestDoubling: the second schedule of the document. Nothing until 90 %, then 16 bits, doubled after every interval at
// whose end the load is still there; gone as soon as the load is.
func TestDoubling(t *testing.T) {
	d := Options{Classic: true, DoubleEvery: new(weir.Duration(10 * time.Second))}.Difficulty()
	var s State
	for i, c := range []struct {
		after time.Duration
		load  weir.Share
		want  Work
	}{
		{0, 0.89, 0}, {1, 0.9, 1 << 16}, {5, 1, 1 << 16}, {10, 1, 1 << 16}, {11, 0.9, 1 << 32}, {12, 1, 1 << 32},
		{20, 2, 1 << 32},
		{21, 2, 1 << 40}, // what a phone can bear; the document would have gone on to 64 bits
		{31, 2, 1 << 40}, {32, 0.89, 0}, {33, 0.95, 1 << 16}, {42, 0.95, 1 << 16}, {43, 0.95, 1 << 32},
		{44, 0.1, 0}, {45, 1, 1 << 16}, {145, 1, 1 << 32}, {150, 1, 1 << 32},
		// two intervals that nobody looked at are one
		{200, 0.1, 0}, {201, 1, 1 << 16}, {221, 1, 1 << 32}, {222, 1, 1 << 32},
	} {
		s = d.Next(s, start.Add(c.after*time.Second), c.load, 0)
		if s.Work != c.want {
			t.Errorf("%d: after %d s at %s: %s, want %s", i, c.after, c.load, s.Work, c.want)
		}
	}
	d = Options{DoubleEvery: new(weir.Duration(time.Second)), Doubles: DoubleWork}.Difficulty()
	s = State{}
	for i := range 5 {
		if s = d.Next(s, start.Add(time.Duration(i)*time.Second), 1, 0); s.Work != 1<<(16+i) {
			t.Errorf("work doubled %d times: %s", i, s.Work)
		}
	}
}

// TestFromNoLoad: with from_load 0% the first work is asked without any load, from the first request on, and it never
// goes dormant.
func TestFromNoLoad(t *testing.T) {
	needs.Unwatched(t)
	idle := new(weir.Share(0))
	for name, o := range map[string]Options{
		"steered":  {FromLoad: idle},
		"doubling": {FromLoad: idle, DoubleEvery: new(weir.Duration(time.Second)), Doubles: DoubleWork},
	} {
		d := o.Difficulty()
		rapid.Check(t, func(t *rapid.T) {
			var s State
			now := start
			if s = d.Next(s, now, 0, 0); s.Work != 1<<16 {
				t.Fatalf("%s: at first %s is asked", name, s.Work)
			}
			for range rapid.IntRange(0, 30).Draw(t, "steps") {
				now = now.Add(time.Duration(rapid.Int64Range(-2e9, 9e9).Draw(t, "passes")))
				load := weir.Share(rapid.SampledFrom([]float64{0, 0.01, 0.5, 3}).Draw(t, "load"))
				s = d.Next(s, now, load, time.Duration(rapid.Int64Range(0, 2e9).Draw(t, "delay")))
				if s.Work < 1<<16 {
					t.Fatalf("%s: under a load of %s only %s is asked", name, load, s.Work)
				}
			}
			for range 120 {
				now = now.Add(time.Second)
				if s = d.Next(s, now, 0, 0); s.Work < 1<<16 {
					t.Fatalf("%s: without load only %s is asked", name, s.Work)
				}
			}
			if s.Work != 1<<16 {
				t.Fatalf("%s: two minutes without load, and %s is asked", name, s.Work)
			}
		})
	}
}

// TestSteering: up fast, down by a third, dormant at zero, capped at what a phone can bear.
func TestSteering(t *testing.T) {
	d := Options{}.Difficulty()
	if d.Most() != 5_000_000 {
		t.Errorf("at most %d", d.Most())
	}
	var s State
	now := start
	next := func(load weir.Share, delay time.Duration) Work {
		now = now.Add(time.Second)
		s = d.Next(s, now, load, delay)
		return s.Work
	}
	const ms = time.Millisecond
	for i, c := range []struct {
		load  weir.Share
		delay time.Duration
		want  Work
	}{
		{0.5, 0, 0},
		{0.95, 0, 1 << 16},       // loaded: the first work
		{1, 300 * ms, 3 << 16},   // over the target: twice by how much
		{1, 1000 * ms, 24 << 16}, // eight times at most
		{1, 600 * ms, 24 << 16},  // on its way down: wait
		{1, 550 * ms, 5_000_000}, // not fast enough
	} {
		got := next(c.load, c.delay)
		if got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
	if again := d.Next(s, now.Add(999*ms), 1, time.Hour); again != s {
		t.Errorf("more than once a second: %+v, then %+v", s, again)
	}
	for range 5 {
		next(1, 5*time.Second)
	}
	if s.Work != d.Most() {
		t.Errorf("not capped: %d", s.Work)
	}
	if got := next(1, 150*ms); got != d.Most() {
		t.Errorf("between half the target and the target: %d", got)
	}
	if got := next(1, 50*ms); got != d.Most() {
		t.Errorf("a level that was too low of late is tried again: %d", got)
	}
	now = now.Add(memory)
	s.at = now
	if got := next(1, 50*ms); got != 3_333_334 {
		t.Errorf("down by a third: %d", got)
	}
	for range 60 {
		next(1, 0)
	}
	if s.Work != 1<<16 {
		t.Errorf("while there is load: %d", s.Work)
	}
	if got := next(0.3, 0); got != 43691 {
		t.Errorf("the load is gone: %d", got)
	}
	for range 4 {
		next(0.3, 0)
	}
	if s.Work != 0 {
		t.Errorf("not dormant: %d", s.Work)
	}
	// A gap is so many steps down; a clock set back is one.
	s = State{}
	next(1, 0)
	next(1, time.Second)
	now = now.Add(time.Hour)
	if next(0.1, 0) != 0 {
		t.Errorf("after an hour: %d", s.Work)
	}
	next(1, 0)
	now = now.Add(-time.Hour)
	if got := next(1, time.Second); got != 8<<16 {
		t.Errorf("clock set back: %d", got)
	}
}

// TestSteeringAfterAJump: a clock that was a year ahead during a flood does not hold the price up for a year.
func TestSteeringAfterAJump(t *testing.T) {
	d := Options{}.Difficulty()
	var s State
	for i := range 10 {
		s = d.Next(s, start.Add(365*24*time.Hour+time.Duration(i)*time.Second), 2, time.Second)
	}
	if s.Work != d.Most() {
		t.Fatalf("a flood pays %d", s.Work)
	}
	for i := range 120 {
		s = d.Next(s, start.Add(time.Duration(i)*time.Second), 0, 0)
	}
	if s.Work != 0 {
		t.Errorf("two minutes after the flood and after the clock came back: %d", s.Work)
	}
}

// TestSteeringBounds: whatever happens, the work is between zero and what a phone can bear, and zero when nothing
// happens for long.
func TestSteeringBounds(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		o := Options{DoubleEvery: new(weir.Duration(rapid.SampledFrom([]time.Duration{0, 0, time.Second}).Draw(t,
			"double")))}
		d := o.Difficulty()
		var s State
		now := start
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(-5e9, 9e9).Draw(t, "passes")))
			s = d.Next(s, now, weir.Share(rapid.Float64().Draw(t, "load")),
				time.Duration(rapid.Int64().Draw(t, "delay")))
			if s.Work > d.Most() {
				t.Fatalf("%d", s.Work)
			}
		}
		for range 60 {
			now = now.Add(time.Second)
			s = d.Next(s, now, 0, 0)
		}
		if s.Work != 0 {
			t.Fatalf("a minute later: %d", s.Work)
		}
	})
}

// TestTenfold is target S7 in a model: clients whose computers together pay ten times what the upstream can serve, at
// the first work. The lane holds what is served in two seconds, as admission's deadlines make it. The delay is back at
// its target within five seconds, and nothing is asked any more within a minute after the end.
func TestTenfold(t *testing.T) {
	const capacity = 100.0 // stamps a second
	d := Options{}.Difficulty()
	for _, times := range []float64{2, 10, 50} {
		rate := times * capacity * (1 << 16) // hashes a second, of all who pay
		var s State
		waiting, back, over := 0.0, -1, 0
		now := start
		for second := range 120 {
			flood := second < 60
			arrivals, load := 0.2*capacity, weir.Share(0.2)
			if flood {
				load = 1
				if s.Work > 0 {
					arrivals = min(rate/float64(s.Work), 20*capacity)
				}
			}
			waiting = min(max(waiting+arrivals-capacity, 0), 2*capacity)
			delay := time.Duration(waiting / capacity * float64(time.Second))
			s = d.Next(s, now, load, delay)
			now = now.Add(time.Second)
			if delay <= 200*time.Millisecond && second > 1 && flood {
				if back < 0 {
					back = second
				}
			} else if back >= 0 && flood {
				over++
			}
		}
		if times <= 10 && (back < 0 || back > 6) { // the step comes at second 1, when stamps are first asked for
			t.Errorf("%g times: back at the target after %d s", times, back)
		}
		if over > 6 {
			t.Errorf("%g times: over the target in %d of the other seconds", times, over)
		}
		if s.Work != 0 {
			t.Errorf("%g times: a minute after the end %d is asked for", times, s.Work)
		}
	}
}

// sourceSchedule is the first schedule of the source document: 4 bits up to a load of 10 %, 8 bits at 80 %.
func sourceSchedule() []Step { return []Step{{0, 1 << 4}, {0.8, 1 << 8}} }
