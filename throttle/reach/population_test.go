package reach

import (
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

func TestPopulationLearns(t *testing.T) {
	r := rules(t, Options{Dynamic: Dynamic{Quantile: 0.99, Times: 3}})
	var p Population
	one := func(n float64) []Sample { return []Sample{{Window: Day, Age: 400 * day, Size: 100, New: n}} }
	limit := func(now time.Time, w Window, age time.Duration, size float64) float64 {
		n, ok := p.Limit(r, now, w, age, size)
		if ok != (n > 0) {
			t.Error(n, ok)
		}
		return n
	}
	late := epoch.Add(7 * day)
	for i := range enough - 1 {
		p.Observe(epoch, one(float64(i+1)))
	}
	if n := limit(late, Day, 400*day, 100); n != 0 {
		t.Errorf("99 samples say %v", n)
	}
	p.Observe(epoch, one(100))
	if n := limit(late, Day, 400*day, 100); math.Abs(n-310) > 15 {
		t.Errorf("1 to 100: %v", n)
	}
	if n := limit(late.Add(-time.Second), Day, 400*day, 100); n != 0 {
		t.Errorf("too young, and says %v", n)
	}
	// Another cohort has too few, and goes by all.
	p.Observe(epoch, []Sample{{Window: Day, Age: day, Size: 100, New: 10_000}})
	if n := limit(late, Day, day, 100); math.Abs(n-310) > 20 {
		t.Errorf("by all: %v", n)
	}
	for range enough {
		p.Observe(epoch, []Sample{{Window: Day, Age: day, Size: 20_000, New: 1000}})
	}
	if n := limit(late, Day, 30*day, 16_384); math.Abs(n-3000) > 600 {
		t.Errorf("large ones: %v", n)
	}
	if n := limit(late, Day, 400*day, 100); math.Abs(n-310) > 15 {
		t.Errorf("still %v", n)
	}
	if n := limit(late, Hour, 400*day, 100); n != 0 {
		t.Errorf("nobody has said anything about hours: %v", n)
	}
	if _, ok := p.Limit(r, late, 7, 0, 0); ok {
		t.Error("there is no such window")
	}
	cohorts := p.Cohorts(r, late)
	if len(cohorts) != 3 {
		t.Fatal(cohorts)
	}
	if c := cohorts[2]; c.Window != Day || c.Age != "over a year" || c.Size != "under 256" || c.Samples != 100 ||
		math.Abs(c.Limit-310) > 15 || math.Abs(3*c.Usual-c.Limit) > 1e-9 {
		t.Errorf("%+v", c)
	}
	if c := p.Cohorts(r, epoch)[0]; c.Limit != 0 {
		t.Errorf("%+v", c)
	}
	// The source's: the average of all.
	average := rules(t, Options{Dynamic: Dynamic{From: FromAverage, Times: 1}})
	want := (5050 + 10_000 + 100*1000.0) / 201
	if n, ok := p.Limit(average, late, Day, 400*day, 100); !ok || math.Abs(n-want) > 1e-6 {
		t.Errorf("average %v, want %v", n, want)
	}
	if c := p.Cohorts(average, late)[2]; math.Abs(c.Usual-50.5) > 1e-6 || math.Abs(c.Limit-want) > 1e-6 {
		t.Errorf("%+v", c)
	}
}

func TestQuantiles(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	var h histogram
	for range 50_000 {
		h.add(math.Floor(math.Exp(draw.NormFloat64() + 2)))
	}
	for q, z := range map[float64]float64{0.5: 0, 0.9: 1.2816, 0.99: 2.3263, 0.999: 3.0902} {
		if got, want := h.quantile(q), math.Exp(2+z)-0.5; math.Abs(got/want-1) > 0.12 {
			t.Errorf("%v: %.2f, want %.2f", q, got, want)
		}
	}
	var none histogram
	for _, n := range []float64{-1, 0, 0.5, math.Inf(-1)} {
		none.add(n)
	}
	if none.quantile(0.999) != 0 || none.mean() != 0.125 {
		t.Error(none.quantile(0.999), none.mean())
	}
	for _, n := range []float64{1, 2, 4, 1024, 1 << 24} {
		if got := upper(bucket(n)); math.Abs(got/n-1) > 1e-9 {
			t.Errorf("%v is in a bucket up to %v", n, got)
		}
	}
	if bucket(math.Inf(1)) != buckets-1 || bucket(math.NaN()) != 0 {
		t.Error("no numbers")
	}
}

// Old samples fade: what is usual follows what people do.
func TestPopulationFades(t *testing.T) {
	var h histogram
	for range 3 * maxSamples {
		h.add(1000)
	}
	if h.samples > maxSamples*perSample {
		t.Error(h.samples)
	}
	for range 6 * maxSamples {
		h.add(10)
	}
	if q := h.quantile(0.99); q > 12 {
		t.Error(q)
	}
	if m := h.mean(); m > 40 {
		t.Error(m)
	}
}

// A clock that was ahead does not make a population young for years.
func TestPopulationClock(t *testing.T) {
	g := newRig(t, Options{})
	g.now = epoch.Add(3650 * day)
	g.quiet(3)
	g.now = epoch
	g.quiet(3)
	if _, ok := g.p.Limit(g.r, epoch.Add(8*day), Day, 60*day, 100); !ok {
		t.Error("still young")
	}
}

func TestPopulationTogether(t *testing.T) {
	g := newRig(t, Options{})
	other := rules(t, Options{Dynamic: Dynamic{From: FromAverage}})
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for n := range 500 {
				g.p.Observe(epoch, []Sample{{Window: Windows[n%3], Age: 60 * day, Size: 100, New: float64(i)}})
				g.p.Limit(g.r, epoch.Add(30*day), Day, 60*day, 100)
				switch n % 100 {
				case 0:
					g.p.Cohorts(other, epoch)
				case 1:
					b, _ := g.p.AppendBinary(nil)
					if err := new(Population).UnmarshalBinary(b); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	if c := g.p.Cohorts(g.r, epoch.Add(30*day)); len(c) != 3 || c[0].Samples+c[1].Samples+c[2].Samples != 4000 ||
		c[0].Usual < 7 || c[0].Usual > 8 {
		t.Errorf("%+v", c)
	}
}

// full is a population with as much in it as there may be.
func fullPopulation() *Population {
	p := &Population{since: maxTime}
	for w := range p.cohorts {
		for c := range p.cohorts[w] {
			h := &p.cohorts[w][c]
			h.sum = math.Pi
			for i := range h.counts {
				h.counts[i] = maxSamples * perSample / buckets
				h.samples += h.counts[i]
			}
		}
	}
	return p
}

func TestPopulationBinary(t *testing.T) {
	full, _ := fullPopulation().AppendBinary(nil)
	if len(full) > 64<<10 {
		t.Errorf("%d bytes", len(full))
	}
	g := newRig(t, Options{})
	g.quiet(20)
	b, _ := g.p.AppendBinary([]byte("x"))
	t.Logf("a full population takes %d bytes, another one %d", len(full), len(b)-1)
	var read Population
	if err := read.UnmarshalBinary(b[1:]); err != nil {
		t.Fatal(err)
	}
	now := epoch.Add(30 * day)
	for _, w := range Windows {
		want, ok := g.p.Limit(g.r, now, w, 60*day, 100)
		if got, also := read.Limit(g.r, now, w, 60*day, 100); got != want || !ok || !also {
			t.Errorf("%s: %v, want %v", w, got, want)
		}
	}
	for n := range len(b) - 1 {
		if err := read.UnmarshalBinary(b[1 : 1+n]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if err := read.UnmarshalBinary(append(b[1:], 0)); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	b[1]++
	if err := read.UnmarshalBinary(b[1:]); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
	if _, ok := read.Limit(g.r, now, Day, 60*day, 100); !ok {
		t.Error("changed by what was refused")
	}
	var none Population
	b, _ = none.AppendBinary(nil)
	if err := read.UnmarshalBinary(b); err != nil || len(read.Cohorts(g.r, now)) != 0 {
		t.Error(err)
	}
}

func FuzzPopulation(f *testing.F) {
	full, _ := fullPopulation().AppendBinary(nil)
	f.Add(full)
	g := newRig(f, Options{})
	for range 2 {
		b, _ := g.p.AppendBinary(nil)
		f.Add(b)
		g.quiet(20)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Population
		if err := p.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrNewer) {
				t.Error(err)
			}
			return
		}
		if again, _ := p.AppendBinary(nil); string(again) != string(b) {
			t.Errorf("%x becomes %x", b, again)
		}
		p.Observe(epoch, []Sample{{Window: Day, New: 3}})
		for _, w := range Windows {
			if n, _ := p.Limit(g.r, epoch, w, day, 3); math.IsNaN(n) || n < 0 {
				t.Error(n)
			}
		}
		p.Cohorts(g.r, epoch)
	})
}

func TestMeanOfNothing(t *testing.T) {
	if got := new(histogram).mean(); got != 0 {
		t.Errorf("%v", got)
	}
}
