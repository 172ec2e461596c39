package bloom

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

const day = 24 * time.Hour

// TestRotationKeepsLimit: one source that asks far more often than it may gets its limit and one burst, and nearly all
// of it, however often the key changes meanwhile.
func TestRotationKeepsLimit(t *testing.T) {
	needs.Unwatched(t)
	for _, c := range []struct {
		o         Options
		every     time.Duration
		length    time.Duration
		rotations uint64 // at least
	}{
		{Options{Rate: weir.Rate{Count: 1000, Per: day}, Burst: 1000}, 30 * time.Second, 25 * day, 2},
		{Options{Rate: weir.Rate{Count: 20, Per: time.Hour}, Burst: 5}, 30 * time.Second, day, 8},
		{Options{Rate: weir.Rate{Count: 1, Per: time.Minute}, Burst: 100}, 20 * time.Second, 40 * time.Hour, 2},
		{Options{Rate: perSecond(10), Burst: 20, Rotate: weir.Duration(30 * time.Second)}, 30 * time.Millisecond,
			5 * time.Minute, 7},
		{Options{Rate: perSecond(1000), Burst: 100, Rotate: weir.Duration(10 * time.Second)}, 300 * time.Microsecond,
			30 * time.Second, 2},
	} {
		c.o.Attackers, c.o.V6 = 100, []int{64}
		t.Run(fmt.Sprintf("%s, burst %d", c.o.Rate, c.o.Burst), func(t *testing.T) {
			r := newRig(t, c.o)
			g := newStretches(r.setup.Load().opts)
			for r.now.Sub(start) < c.length {
				if r.ask("192.0.2.1", 1).Verdict == weir.Admit {
					g.granted(t, r.now.Sub(start), 1)
				}
				r.pass(c.every)
			}
			most := g.rate*float64(c.length) + g.burst
			if float64(g.total) < 0.98*most {
				t.Errorf("%d granted in %s, of %g", g.total, c.length, most)
			}
			if got := r.Stats().Rotations; got < c.rotations {
				t.Errorf("%d rotations, want %d at least: no test of them", got, c.rotations)
			}
		})
	}
}

// TestDay: low limits over a day, asked once a second: no more than the limit and a burst, and no less than nine tenths
// of the limit.
func TestDay(t *testing.T) {
	needs.Unwatched(t)
	for _, c := range []struct {
		o           Options
		least, most int
	}{
		{Options{Rate: weir.Rate{Count: 1000, Per: day}, Burst: 1000}, 1900, 2000},
		{Options{Rate: weir.Rate{Count: 20, Per: time.Hour}, Burst: 5}, 432, 485},
	} {
		c.o.Attackers, c.o.V6 = 100, []int{64}
		r := newRig(t, c.o)
		granted := 0
		for r.now.Sub(start) < day {
			if r.ask("192.0.2.1", 1).Verdict == weir.Admit {
				granted++
			}
			r.pass(time.Second)
		}
		if granted < c.least || granted > c.most {
			t.Errorf("%s, burst %d: %d granted in a day, want %d to %d", c.o.Rate, c.o.Burst, granted, c.least, c.most)
		}
	}
}

// TestShortRotation: a rotation that leaves a new table no time to learn is a mistake, and the hint is right.
func TestShortRotation(t *testing.T) {
	for _, o := range []Options{
		{Rate: weir.Rate{Count: 1, Per: time.Minute}, Burst: 100},
		{Rate: weir.Rate{Count: 1000, Per: day}, Burst: 1000},
		{Rate: weir.Rate{Count: 1, Per: maxPer}},
		{Rate: weir.Rate{Count: 1, Per: maxPer}, Burst: 10_000},
	} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v without a rotation: %v", o, err)
		}
		least := o.WithDefaults().Rotate
		o.Rotate = weir.Duration(10 * time.Second)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "rotate: ") ||
			!strings.Contains(err.Error(), least.String()) {
			t.Errorf("%v, want at least %s", err, least)
		}
		o.Rotate = least - weir.Duration(time.Second)
		if err := o.Validate(); err == nil {
			t.Errorf("%s is taken, which is a second too short", o.Rotate)
		}
		o.Rotate = least
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// TestCosts: a source that was quiet can have its burst in costs of any size up to all of it.
func TestCosts(t *testing.T) {
	needs.Unwatched(t)
	for _, burst := range []int64{10, 200, 1000, 100_000} {
		for _, cost := range []int64{1, 3, burst / 3, burst/2 + 1, burst - 1, burst} {
			alone := func() *rig {
				return newRig(t, Options{Rate: weir.Rate{Count: burst, Per: time.Minute}, Burst: weir.Number(burst),
					Attackers: 100})
			}
			r := alone()
			got := int64(0)
			for r.ask("192.0.2.1", cost).Verdict == weir.Admit {
				got += cost
			}
			// What comes due with a unit of time is kept back, up to a 128th, unless all is asked for at once.
			if got > burst || got < burst-burst/100-cost+1 || cost == burst && got != burst {
				t.Errorf("costs of %d: got %d of %d", cost, got, burst)
			}
			if a := r.ask("192.0.2.2", burst+1); a.Reason != weir.TooCostly {
				t.Errorf("a cost above the burst: %s", a.Explain())
			}
			r = alone()
			var peek weir.Answer
			if r.Peek(&weir.Event{Time: r.now, Source: netip.MustParseAddr("203.0.113.1"), Cost: cost},
				&peek); peek.Verdict != weir.Admit || peek.Figures[0].Remaining != burst {
				t.Errorf("a quiet source: %+v", peek)
			}
			r = alone()
			a := r.ask("2001:db8::1", cost)
			r.Settle(a.Hold, weir.Outcome{Time: r.now})
			if a := r.ask("2001:db8::1", burst); a.Verdict != weir.Admit {
				t.Errorf("a cost of %d is not given back: %s", cost, a.Explain())
			}
			r = alone()
			r.ask("198.51.100.1", burst)
			if a = r.ask("198.51.100.1", cost); a.Verdict != weir.Refuse || !a.Until.After(r.now) {
				t.Fatalf("costs of %d: %s", cost, a.Explain())
			}
			r.pass(a.Until.Sub(r.now))
			if a = r.ask("198.51.100.1", cost); a.Verdict != weir.Admit {
				t.Errorf("a cost of %d is refused at the time that was named: %s", cost, a.Explain())
			}
		}
	}
}

// TestIdle: a table that nobody asks is looked at no more once its limiters are full, and is as it was when somebody
// comes back, at whatever time.
func TestIdle(t *testing.T) {
	needs.Unwatched(t)
	for _, rest := range []time.Duration{0, time.Second, 70 * time.Second, 66 * time.Minute,
		5*time.Hour + 17*time.Millisecond} {
		r := newRig(t, Options{Rate: perSecond(10), Burst: 10, Attackers: 100})
		table := r.setup.Load().levels[0].now
		table.words[0] = 1 // whoever looked at the lines would fill this limiter
		r.pass(time.Minute)
		if table.words[0] != 1 || !table.AtRest() {
			t.Fatal("a new table that nobody asks is swept")
		}
		table.words[0] = 0
		r.burst("192.0.2.1")
		r.pass(2 * time.Hour)
		if !table.AtRest() {
			t.Fatal("nobody asked for two hours, and the table is not at rest")
		}
		for i := range table.words {
			if spent := table.words[i]; i%lineWords != lineWords-1 && spent != 0 {
				t.Fatalf("at rest, with %x spent", spent)
			}
		}
		// Whoever looked at the lines from here on would fill this limiter.
		now := r.setup.Load().levels[0].now
		now.words[0] = 1
		rotations := r.Stats().Rotations
		r.pass(time.Hour)
		if now.words[0] != 1 || r.Stats().Rotations != rotations || r.Stats().Drained != 0 {
			t.Error("a table at rest is swept or changed")
		}
		now.words[0] = 0
		r.pass(rest)
		if got := r.burst("192.0.2.1"); got != 10 {
			t.Errorf("%s later: %d granted", rest, got)
		}
		r.pass(500 * time.Millisecond)
		if got := r.burst("192.0.2.1"); got < 4 || got > 5 {
			t.Errorf("%s later: %d granted within half a second", rest, got)
		}
		r.pass(rest)
		if got := r.burst("192.0.2.1"); rest > time.Second && got != 10 {
			t.Errorf("%s later, drained before: %d granted", rest, got)
		}
	}
}

// stretches looks at every stretch of time at once: the most that was granted over its limit in a stretch that ends now
// is what was granted beyond the limit in the worst one that began before. It is a bucket that may not overflow.
type stretches struct {
	rate, burst float64
	level       float64
	last        time.Duration
	total       int64
}

func newStretches(o Options) *stretches {
	o = o.WithDefaults()
	return &stretches{rate: float64(o.Rate.Count) / float64(o.Rate.Per), burst: float64(o.Burst)}
}

// granted fails if there is a stretch that ends now with more than the limit and a burst, rounded up to a whole event.
func (g *stretches) granted(t rapid.TB, now time.Duration, cost int64) {
	g.level = max(0, g.level-float64(now-g.last)*g.rate) + float64(cost)
	g.last, g.total = now, g.total+cost
	if g.level >= g.burst+1 {
		t.Fatalf("%s: %.2f granted over the limit, the burst is %g", now, g.level, g.burst)
	}
}

// drawn are options whose tables fill in milliseconds or in an hour, with keys that change as often as may be.
func drawn(rt *rapid.T) Options {
	o := Options{K: rapid.IntRange(1, MaxK).Draw(rt, "k"), V6: []int{64}, Attackers: 100}
	o.Burst = weir.Number(o.K * rapid.SampledFrom([]int{1, 2, 9, 40, 100, 250, 300, 1100}).Draw(rt, "share"))
	o.Rate = weir.Rate{Count: int64(o.Burst),
		Per: rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 200 * time.Millisecond, time.Second,
			33 * time.Second, time.Hour}).Draw(rt, "fill")}
	o.Rotate = weir.Duration(max(minRotate, o.WithDefaults().learn()))
	return o
}

// TestAdversary: whoever chooses times, costs and parallelism as they like, while keys change and options are reloaded,
// never gets more than the limit and one burst, over any stretch.
func TestAdversary(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := drawn(rt)
		r := newRig(t, o)
		g := newStretches(o)
		fill := o.Rate.Per
		take := func(cost int64) bool {
			if r.ask("192.0.2.1", cost).Verdict != weir.Admit {
				return false
			}
			g.granted(rt, r.now.Sub(start), cost)
			return true
		}
		drain := func() {
			for take(1) {
			}
		}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			switch rapid.IntRange(0, 8).Draw(rt, "step") {
			case 0:
				r.pass(time.Duration(rapid.Int64Range(0, int64(2*fill)).Draw(rt, "wait")))
			case 1: // to the edge of a unit of time
				v := r.setup.Load().levels[0]
				r.pass(v.soon(0, 0, 1, r.now.Sub(start)) - r.now.Sub(start) - time.Duration(rapid.IntRange(0,
					1).Draw(rt, "before")))
			case 2: // all the time, for a while
				wait := fill / time.Duration(o.Burst) * time.Duration(rapid.IntRange(1, 30).Draw(rt, "pace")) / 20
				for range rapid.IntRange(1, 300).Draw(rt, "times") {
					r.pass(wait)
					take(1)
				}
			case 3:
				take(rapid.Int64Range(1, int64(o.Burst)).Draw(rt, "cost"))
			case 4:
				drain()
			case 5: // until the next key decides, at about the limit, and as soon as it does
				drain()
				before, cost := r.Stats().Rotations, rapid.Int64Range(1, max(1, int64(o.Burst)/4)).Draw(rt, "cost")
				for i := 0; i < 1000 && r.Stats().Rotations == before; i++ {
					r.pass(max(o.Rotate.Std()/200, r.due.Sub(r.now)))
					take(cost)
				}
				drain()
			case 6: // many at once
				var all sync.WaitGroup
				var sum atomic.Int64
				for range 4 {
					all.Go(func() {
						for range 50 {
							if a := r.ask("192.0.2.1", 1); a.Verdict == weir.Admit {
								sum.Add(1)
							}
						}
					})
				}
				all.Wait()
				if n := sum.Load(); n > 0 {
					g.granted(rt, r.now.Sub(start), n)
				}
			case 7:
				reload(rt, r, &o)
			case 8: // and what does not go on is given back
				cost := rapid.Int64Range(1, int64(o.Burst)).Draw(rt, "cost")
				if a := r.ask("192.0.2.1", cost); a.Verdict == weir.Admit {
					r.Settle(a.Hold, weir.Outcome{Time: r.now})
				}
			}
		}
	})
}

// TestKeyChangeGivesNothing: a source that empties its limiters while the next tables are charged has no more when they
// take over than it would have had otherwise. TestAdversary found this one: the units of both tables began apart.
func TestKeyChangeGivesNothing(t *testing.T) {
	o := Options{K: 4, V6: []int{64}, Attackers: 100, Burst: 400, Rate: weir.Rate{Count: 400, Per: 33 * time.Second}}
	o.Rotate = weir.Duration(max(minRotate, o.WithDefaults().learn()))
	for part := range time.Duration(20) {
		r, g := newRig(t, o), newStretches(o)
		unit := r.setup.Load().levels[0].Unit
		drain := func() {
			for r.ask("192.0.2.1", 1).Verdict == weir.Admit {
				g.granted(t, r.now.Sub(start), 1)
			}
		}
		r.pass(part * unit / 20) // the next tables are made at any time of a unit
		other := o
		other.Attackers = 120
		if err := r.Configure(other, r.now); err != nil {
			t.Fatal(err)
		}
		edge := func() time.Duration {
			now := r.now.Sub(start)
			return r.setup.Load().levels[0].soon(0, 0, 1, now) - now
		}
		r.pass(2*o.Rate.Per + part*unit/20)
		r.pass(edge() - 1)
		drain()
		r.pass(1)
		r.pass(edge())
		drain()
		for before := r.Stats().Rotations; r.Stats().Rotations == before; {
			r.pass(max(o.Rotate.Std()/200, r.due.Sub(r.now)))
		}
		drain()
	}
}

// reload gives the limiter other options, with the same limit.
func reload(rt *rapid.T, r *rig, o *Options) {
	o.Attackers = rapid.SampledFrom([]int64{100, 120, 200}).Draw(rt, "attackers")
	o.Exempt = nil
	if rapid.Bool().Draw(rt, "exempt") {
		o.Exempt = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	}
	if err := r.Configure(*o, r.now); err != nil {
		rt.Fatal(err)
	}
}

// TestLoneClient: a client that is alone and asks within nine tenths of its limit is never refused, in portions of any
// size, while keys change and options are reloaded.
func TestLoneClient(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		o := drawn(rt)
		r := newRig(t, o)
		portion := int64(1)
		if o.Burst >= 16 {
			portion = rapid.Int64Range(1, int64(o.Burst)*9/10).Draw(rt, "portion")
		}
		wait := time.Duration(float64(o.Rate.Per) / float64(o.Burst) * float64(portion) / 0.9)
		times := int(min(3*o.Rotate.Std()/wait, 2000))
		if o.Rotate.Std() > 30*o.Rate.Per { // keys change so seldom that most of the time can be left out
			r.pass(o.Rotate.Std() - o.Rate.Per*12)
		}
		for i := range times {
			r.pass(wait)
			if a := r.ask("198.51.100.1", portion); a.Verdict != weir.Admit {
				rt.Fatalf("%s: %d at a time every %s, event %d: %s (%d rotations)", r.now.Sub(start), portion, wait, i,
					a.Explain(), r.Stats().Rotations)
			}
			if i == times/2 && rapid.Bool().Draw(rt, "reload") {
				reload(rt, r, &o)
			}
		}
	})
}
