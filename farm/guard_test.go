package farm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/farm"
	"weir/farm/farmtest"
)

// A faulty is a pot in memory that can be made to stand still or to fail.
type faulty struct {
	farm.Pot
	mu    sync.Mutex
	stall bool
	fail  error
	calls int // that reached the engine
}

func (f *faulty) Take(ctx context.Context, ask farm.Ask) (farm.Reply, error) {
	f.mu.Lock()
	stall, fail := f.stall, f.fail
	f.calls++
	f.mu.Unlock()
	if stall {
		<-ctx.Done()
		return farm.Reply{}, fmt.Errorf("no answer: %w", ctx.Err())
	}
	if fail != nil {
		return farm.Reply{}, fail
	}
	return f.Pot.Take(ctx, ask)
}

func (f *faulty) set(stall bool, fail error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stall, f.fail = stall, fail
}

func (f *faulty) reached() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// guarded returns a guard, and the engine behind it.
func guarded() (*farm.Guarded, *faulty) {
	engine := &faulty{Pot: farmtest.NewPot(time.Now)}
	return farm.Guard(engine, farm.GuardOptions{Now: time.Now}), engine
}

func one(seq uint64) farm.Ask {
	return farm.Ask{Key: "k", Run: "a", Seq: seq, Wants: []farm.Want{{Rule: "r", Limit: 1 << 40, Period: time.Hour, Need: 1}}}
}

// TestGuardStall: calls to an engine that stands still end in time, then at once; a probe finds it again.
func TestGuardStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engine := guarded()
		var told []bool
		g.Watch(func(up bool) {
			g.Stats() // under no lock
			told = append(told, up)
		})
		if s := g.Stats(); s.State != farm.PotUnknown || s.Engine != "" {
			t.Errorf("before the first call: %+v", s)
		}
		r, err := g.Take(t.Context(), one(1))
		if s := g.Stats(); err != nil || s.State != farm.PotUp || s.Engine == "" || s.Engine != r.Engine {
			t.Fatalf("%v, %+v", err, s)
		}

		engine.set(true, nil)
		for n := range farm.MaxFailed {
			if s := g.Stats(); s.State != farm.PotUp {
				t.Errorf("%s after %d failures", s.State, n)
			}
			began := time.Now()
			_, err := g.Take(t.Context(), one(2))
			if took := time.Since(began); took != farm.CallTime || !errors.Is(err, context.DeadlineExceeded) ||
				errors.Is(err, farm.ErrLost) {
				t.Errorf("call %d: %v after %v", n, err, took)
			}
		}
		stalled := time.Now()
		if s := g.Stats(); s.State != farm.PotStalled || !s.Since.Equal(stalled) || s.Failures != 3 || s.Refused != 0 ||
			!strings.Contains(s.Error, "no answer") || !s.ErrorAt.Equal(stalled) {
			t.Errorf("%+v", s)
		}
		refused := func() {
			t.Helper()
			began, before := time.Now(), engine.reached()
			if _, err := g.Take(t.Context(), one(2)); !errors.Is(err, farm.ErrLost) || time.Now() != began ||
				engine.reached() != before {
				t.Errorf("not refused at once: %v", err)
			}
		}
		probed := func() {
			t.Helper()
			before := engine.reached()
			if _, err := g.Take(t.Context(), one(2)); errors.Is(err, farm.ErrLost) || engine.reached() != before+1 {
				t.Errorf("no probe: %v", err)
			}
		}
		refused()
		time.Sleep(farm.ProbeEvery - 1)
		refused()
		time.Sleep(time.Nanosecond)
		began := time.Now()
		probed()
		refused()
		time.Sleep(time.Until(began.Add(farm.ProbeEvery)) - 1)
		refused()
		time.Sleep(time.Nanosecond)
		engine.set(false, nil)
		probed()
		if s := g.Stats(); s.State != farm.PotUp || s.Refused != 4 || s.Calls != 6 || s.Failures != 4 {
			t.Errorf("%+v", s)
		}
		probed()
		if !slices.Equal(told, []bool{false, true}) {
			t.Errorf("told %v", told)
		}
		engine.set(true, nil)
		for range farm.MaxFailed - 1 {
			probed()
		}
		if s := g.Stats(); s.State != farm.PotUp {
			t.Errorf("failures of earlier times count: %+v", s)
		}
	})
}

// TestGuardFailures: failures in a row are what counts, and not every error is one.
func TestGuardFailures(t *testing.T) {
	down := errors.New("the engine is down")
	for name, c := range map[string]struct {
		between error // nil: an answer
		stalled bool
	}{
		"an answer":        {nil, false},
		"outside":          {farm.ErrOutside, false},
		"crowded":          {fmt.Errorf("%w: more", farm.ErrCrowded), false},
		"another engine":   {farm.ErrEngine, false},
		"a wrong question": {fmt.Errorf("%w: more", farm.ErrAsk), true}, // says nothing of the engine
		"a wrong number":   {farm.ErrNumber, true},
		"another failure":  {errors.New("closed"), true},
	} {
		t.Run(name, func(t *testing.T) {
			g, engine := guarded()
			for n := range farm.MaxFailed {
				if n == farm.MaxFailed-1 {
					engine.set(false, c.between)
					_, err := g.Take(t.Context(), one(1))
					if !errors.Is(err, c.between) {
						t.Error(err)
					}
				}
				engine.set(false, down)
				if _, err := g.Take(t.Context(), one(1)); errors.Is(err, farm.ErrLost) && n < farm.MaxFailed-1 {
					t.Error(err)
				}
			}
			if got := g.Stats().State == farm.PotStalled; got != c.stalled {
				t.Errorf("stalled: %v, want %v", got, c.stalled)
			}
		})
	}
}

// TestGuardCallers: what callers do wrong, or give up, is not the engine's fault, and uses up no probe.
func TestGuardCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engine := guarded()
		engine.set(true, nil)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 * farm.MaxFailed {
			if _, err := g.Take(gone, one(1)); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if s := g.Stats(); s.State != farm.PotUnknown || s.Failures != 0 || s.Calls != 2*farm.MaxFailed {
			t.Errorf("%+v", s)
		}
		// A caller with a deadline of its own is left waiting all the same.
		for range farm.MaxFailed {
			short, cancel := context.WithTimeout(t.Context(), farm.CallTime/2)
			_, _ = g.Take(short, one(1))
			cancel()
		}
		if s := g.Stats(); s.State != farm.PotStalled {
			t.Errorf("%+v", s)
		}
		time.Sleep(farm.ProbeEvery)
		engine.set(false, nil)
		if _, err := g.Take(t.Context(), farm.Ask{}); !errors.Is(err, farm.ErrAsk) {
			t.Error(err)
		}
		if _, err := g.Take(t.Context(), one(1)); err != nil {
			t.Errorf("a wrong question used up the probe: %v", err)
		}
	})
}

// TestGuardOpenIsCheap: a call to a lost engine allocates nothing.
func TestGuardOpenIsCheap(t *testing.T) {
	now := time.Now()
	engine := &faulty{Pot: farmtest.NewPot(time.Now), fail: errors.New("down")}
	g := farm.Guard(engine, farm.GuardOptions{Now: func() time.Time { return now }})
	ask := one(1)
	for range farm.MaxFailed {
		_, _ = g.Take(t.Context(), ask)
	}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := g.Take(ctx, ask); !errors.Is(err, farm.ErrLost) {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestGuardBar: an engine that must not be used is not asked, until it may be.
func TestGuardBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engine := guarded()
		var told []bool
		g.Watch(func(up bool) { told = append(told, up) })
		evicts := errors.New("it evicts")
		g.Bar(evicts)
		time.Sleep(10 * farm.ProbeEvery)
		if _, err := g.Take(t.Context(), one(1)); !errors.Is(err, farm.ErrLost) || !errors.Is(err, evicts) ||
			engine.reached() != 0 {
			t.Error(err)
		}
		if s := g.Stats(); s.State != farm.PotStalled || s.Error != "it evicts" || s.Refused != 1 {
			t.Errorf("%+v", s)
		}
		g.Bar(nil)
		g.Bar(nil)
		if s := g.Stats(); s.State != farm.PotUnknown {
			t.Errorf("%+v", s)
		}
		if _, err := g.Take(t.Context(), one(1)); err != nil {
			t.Error(err)
		}
		if !slices.Equal(told, []bool{false, true}) {
			t.Errorf("told %v", told)
		}
	})
}

// TestGuardLateAnswer: an answer that was under way when the engine was barred does not lift that.
func TestGuardLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowPot{Pot: farmtest.NewPot(time.Now), takes: farm.CallTime / 2}
		g := farm.Guard(slow, farm.GuardOptions{Now: time.Now})
		done := make(chan error)
		go func() {
			_, err := g.Take(t.Context(), one(1))
			done <- err
		}()
		synctest.Wait()
		g.Bar(errors.New("it evicts"))
		if err := <-done; err != nil {
			t.Error(err)
		}
		if s := g.Stats(); s.State != farm.PotStalled {
			t.Errorf("%+v", s)
		}
	})
}

// A slowPot answers after a while.
type slowPot struct {
	farm.Pot
	takes time.Duration
}

func (p *slowPot) Take(ctx context.Context, ask farm.Ask) (farm.Reply, error) {
	defer time.Sleep(p.takes) // by the clock of synctest
	return p.Pot.Take(ctx, ask)
}

// TestGuardTimes: how long calls took is known about those of the last minutes, and in all.
func TestGuardTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowPot{Pot: farmtest.NewPot(time.Now)}
		g := farm.Guard(slow, farm.GuardOptions{Now: time.Now})
		seq := uint64(0)
		calls := func(n int, took time.Duration) {
			slow.takes = took
			for range n {
				seq++
				if _, err := g.Take(t.Context(), one(seq)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if s := g.Stats(); s.P50 != 0 || s.P99 != 0 {
			t.Errorf("%+v", s)
		}
		calls(98, time.Millisecond)
		calls(2, 10*time.Millisecond)
		s := g.Stats()
		if s.P50 <= 500*time.Microsecond || s.P50 > time.Millisecond || s.P99 <= 5*time.Millisecond ||
			s.P99 > 10*time.Millisecond || s.Sum != 118*time.Millisecond {
			t.Errorf("p50 %v, p99 %v, sum %v", s.P50, s.P99, s.Sum)
		}
		if want := []uint64{0, 0, 0, 0, 98, 0, 0, 2, 0, 0, 0}; !slices.Equal(s.Counts, want) {
			t.Errorf("%v, want %v", s.Counts, want)
		}
		time.Sleep(90 * time.Second)
		calls(1, time.Millisecond)
		if s := g.Stats(); s.P99 <= time.Millisecond {
			t.Errorf("calls of the last minutes are forgotten: %v", s.P99)
		}
		time.Sleep(time.Minute)
		calls(1, time.Millisecond)
		if s := g.Stats(); s.P99 > time.Millisecond || s.Counts[4] != 100 {
			t.Errorf("old calls are still there: %v, %v", s.P99, s.Counts)
		}
		time.Sleep(10 * time.Minute)
		if s := g.Stats(); s.P50 != 0 || s.P99 != 0 {
			t.Errorf("%+v", s)
		}
		calls(1, time.Second) // the pot did not keep to its deadline
		if s := g.Stats(); s.P50 != farm.CallTimes[len(farm.CallTimes)-1] || s.Counts[len(farm.CallTimes)] != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestGuardTellsInOrder: the last word is the latest, also if the watcher is slow and many call.
func TestGuardTellsInOrder(t *testing.T) {
	g, engine := guarded()
	var mu sync.Mutex
	last, inside := true, false
	g.Watch(func(up bool) {
		mu.Lock()
		if inside {
			t.Error("told twice at the same time")
		}
		inside = true
		mu.Unlock()
		g.Stats()
		mu.Lock()
		if up == last {
			t.Errorf("told %v twice", up)
		}
		last, inside = up, false
		mu.Unlock()
	})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 500 {
				engine.set(false, nil)
				if i%2 == 0 {
					engine.set(false, errors.New("down"))
				}
				_, _ = g.Take(t.Context(), one(uint64(n*1000+i+1)))
				g.Bar(nil)
				if i%10 == 0 {
					g.Bar(errors.New("no"))
					g.Bar(nil)
				}
			}
		})
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	if up := g.Stats().State != farm.PotStalled; up != last {
		t.Errorf("up: %v, the last word was %v", up, last)
	}
}

// TestGuardText: what is secret does not show, and a long text is cut.
func TestGuardText(t *testing.T) {
	engine := &faulty{Pot: farmtest.NewPot(time.Now), fail: errors.New("redis://u:hunter2@host: down")}
	g := farm.Guard(engine, farm.GuardOptions{Now: time.Now, Text: func(err error) string {
		return strings.ReplaceAll(err.Error(), "hunter2", "…") + strings.Repeat("x", 5000)
	}})
	_, _ = g.Take(t.Context(), one(1))
	if s := g.Stats(); strings.Contains(s.Error, "hunter2") || len(s.Error) > 1024 || len(s.Error) < 1000 {
		t.Errorf("%d bytes: %.80s", len(s.Error), s.Error)
	}
}
