//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/bloom"
)

// small are options with a limit that is easy to count: bursts of ten, one more each second. The table is large enough
// for the few sources of a test not to meet in it.
func small() Options {
	return Options{Interface: "lo", Bloom: bloom.Options{Rate: weir.Rate{Count: 10, Per: 10 * time.Second}, Burst: 10}}
}

// slow is small for tests with the kernel's clock: nobody gets another token, however long a test takes.
func slow() Options {
	o := small()
	o.Bloom.Rate = weir.Rate{Count: 1, Per: time.Hour}
	return o
}

// granted asks until refused, and returns how often it was granted.
func (t *Trial) granted(tb testing.TB, packet []byte) (n int) {
	for t.judge(tb, packet) == xdpPass {
		if n++; n > 1_000_000 {
			tb.Fatal("no limit")
		}
	}
	return n
}

func TestBurstAndRefill(t *testing.T) {
	needs.Unwatched(t)
	trial := trialOf(t, small())
	packet := syn4("198.18.7.1")
	if got := trial.granted(t, syn4("198.18.8.1")); got != 10 {
		t.Errorf("another network: %d granted", got)
	}
	for _, step := range []struct {
		at   time.Duration
		want int
	}{
		{0, 10},
		{990 * time.Millisecond, 0}, // the five limiters get one token in a second, together
		{4100 * time.Millisecond, 4},
		{5100 * time.Millisecond, 1},
		{5100 * time.Millisecond, 0},
		{9200 * time.Millisecond, 4},
		{19300 * time.Millisecond, 10},
		{time.Hour, 10}, // saturated
		{time.Hour + 900*time.Millisecond, 0},
		{1000 * time.Hour, 10}, // and after the time counter has begun anew
		{2 * 1000 * time.Hour, 10},
	} {
		if step.at >= 1000*time.Hour {
			h := trial.memory.state.Half[0][0]
			bloom.Overlay(trial.plan.shapes[0], bloom.Key(h.Key),
				trial.memory.half(trial.plan, 0, 0)).Sweep(step.at - time.Minute)
		}
		trial.at(step.at)
		if got := trial.granted(t, packet); got != step.want {
			t.Errorf("at %s: %d granted, want %d", step.at, got, step.want)
		}
	}
	if c := trial.counters(t); c.Limited != 12 || c.Dropped() != 12 {
		t.Errorf("counted %+v", c)
	}
}

// TestRollover: a line that was drained and then idle for nearly a whole window of its time counter is not "in the
// future".
func TestRollover(t *testing.T) {
	needs.Unwatched(t)
	o := small()
	o.Bloom.Rate, o.Bloom.Burst = weir.Rate{Count: 5000, Per: time.Second}, 5000
	trial := trialOf(t, o)
	unit := trial.plan.shapes[0].Unit
	now := time.Duration(0)
	for _, idle := range []time.Duration{1, 1000, 32767, 32768, 60_000, 65_279, 65_280, 65_534, 65_535} {
		if got := trial.granted(t, syn4("")); got < 1 {
			t.Fatalf("nothing granted before an idle time of %d units", idle)
		}
		now += idle * unit
		trial.at(now)
		s := trial.plan.shapes[0]
		want := min(int(idle)*s.PerUnit, s.Capacity) * s.K / s.Parts
		if got := trial.granted(t, syn4("")); got < want || got > want+1 { // parts were left

			t.Errorf("idle for %d units: %d granted, want %d", idle, got, want)
		}
		now += 100_000 * unit
		trial.at(now)
	}
}

func TestBytes(t *testing.T) {
	needs.Unwatched(t)
	o := Options{Interface: "lo", Mode: Bytes,
		Bloom: bloom.Options{Rate: weir.Rate{Count: 1000, Per: time.Hour}, Burst: 4_000_000, K: 4, Attackers: 1000}}
	trial := trialOf(t, o)
	s := trial.plan.shapes[0]
	if s.Grain < 2 {
		t.Fatalf("the grain is %d: no test of it", s.Grain)
	}
	packet := append(syn4(""), make([]byte, 1446)...)
	want := 4 * s.Capacity / int(s.Tokens(1500))
	if got := trial.granted(t, packet); got != want {
		t.Errorf("%d packets of 1500 bytes granted, want %d", got, want)
	}
	// What is left is still good for smaller ones.
	if got := trial.granted(t, syn4("")); got == 0 {
		t.Error("no small packet granted")
	}
}

// TestTooCostly: a packet that the limiters of a source could never pay for is dropped and counted apart. Options rule
// it out for most packets.
func TestTooCostly(t *testing.T) {
	needs.Unwatched(t)
	o := plain().WithDefaults()
	o.Mode = Bytes
	shapes := []bloom.Shape{{Bits: 16, K: 2, Lines: 10_000, Capacity: 100, Share: 100, PerUnit: 1, Unit: time.Second,
		Grain: 10, Parts: 1},
		{Bits: 16, K: 2, Lines: 10_000, Capacity: 97, Share: 99, PerUnit: 1, Unit: time.Second, Grain: 10, Parts: 1}}
	trial := trialFor(t, planFor(o, shapes))
	of := func(packet []byte, length int) []byte { return append(packet, make([]byte, length-len(packet))...) }
	for _, c := range []struct {
		packet []byte
		want   string
	}{
		{of(syn4(""), 2001), "too_costly"},
		{of(syn4(""), 2000), "passed"},
		{of(syn4(""), 100), "limited"},
		{of(syn6(""), 1981), "too_costly"}, // on the second level; the first gets its tokens back, to both limiters
		{of(syn6(""), 1980), "passed"},
		{of(syn6(""), 100), "limited"},
	} {
		before := trial.counters(t)
		answer := trial.judge(t, c.packet)
		if counted := trial.counters(t).minus(before); counted != c.want ||
			(answer == xdpPass) != (c.want == "passed") {
			t.Errorf("%d bytes: answer %d, counted as %s, want %s", len(c.packet), answer, counted, c.want)
		}
	}
}

// TestLevels: all levels of an IPv6 source must pass, and what the narrower one gave is given back.
func TestLevels(t *testing.T) {
	needs.Unwatched(t)
	o := small()
	o.Bloom.Wider = 2 // twenty for a /48
	trial := trialOf(t, o)
	total := 0
	for i := range 5 {
		total += trial.granted(t, syn6(fmt.Sprintf("fd00:0:1:%d::1", i)))
	}
	if total != 20 {
		t.Errorf("%d granted to a /48, want 20", total)
	}
	if got := trial.granted(t, syn6("fd00:0:2::1")); got != 10 {
		t.Errorf("%d granted to another /48, want 10", got)
	}
	spent, shape := 0, trial.plan.shapes[0]
	for _, word := range trial.memory.half(trial.plan, 0, 0) {
		for ; word != 0; word >>= shape.Bits {
			spent += int(word & (1<<shape.Bits - 1))
		}
	}
	if want := 30 * shape.Parts; spent != want {
		t.Errorf("%d parts taken on the first level, want %d", spent, want)
	}
}

func TestShadow(t *testing.T) {
	needs.Unwatched(t)
	trial := trialOf(t, small())
	trial.memory.flag(controlShadow, true)
	for range 15 {
		if got := trial.judge(t, syn4("")); got != xdpPass {
			t.Fatalf("answer %d in shadow", got)
		}
	}
	if c := trial.counters(t); c.Passed != 10 || c.Limited != 5 || c.Shadowed != 5 || c.Dropped() != 0 {
		t.Errorf("counted %+v", c)
	}
}

// TestNeverMoreThanThereIs: CPUs that ask for the same tokens at the same time, and refill the same lines, never get
// more.
func TestNeverMoreThanThereIs(t *testing.T) {
	o := Options{Interface: "lo", Bloom: bloom.Options{Rate: weir.Rate{Count: 500_000, Per: time.Second}, Burst: 50_000,
		Attackers: 1, Collateral: 0.9}}
	trial := trialOf(t, o)
	s := trial.plan.shapes[0]
	units := 60
	if needs.Long() {
		units = 300
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for cpu := range 2 {
		wg.Go(func() {
			packet := syn4(fmt.Sprintf("198.18.%d.1", cpu/2)) // the same network
			for !stop.Load() {
				if _, err := trial.objects.prog.Run(&ebpf.RunOptions{Data: packet, Repeat: 500}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for unit := range units {
		atomic.StoreUint64(&trial.memory.state.Clock, uint64(unit)*uint64(s.Unit))
		before := trial.counters(t).Limited
		for trial.counters(t).Limited < before+100 && !t.Failed() { // what there is has been taken
		}
	}
	stop.Store(true)
	wg.Wait()
	c := trial.counters(t)
	if most := uint64(s.K) * uint64(s.Capacity+(units-1)*s.PerUnit); c.Passed > most {
		t.Errorf("%d granted, of %d", c.Passed, most)
	} else {
		t.Logf("%d granted, of %d", c.Passed, most)
	}
}
