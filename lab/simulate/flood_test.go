package simulate

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/admission"
	"weir/internal/testkit/needs"
	"weir/throttle/stamp"
)

// scene is a small service, twice as large as people need it.
func scene() FloodOptions {
	return FloodOptions{Concurrent: 5, People: 20, Without: 0.05, Phones: 0.5, For: 80 * time.Second, Seed: 1}
}

func flood(t *testing.T, o FloodOptions) *FloodStudy {
	t.Helper()
	s, err := Flood(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func crowdOf(t *testing.T, all []FloodCrowd, name string) FloodCrowd {
	t.Helper()
	for _, c := range all {
		if c.Crowd == name {
			return c
		}
	}
	t.Fatalf("there is no %s in %+v", name, all)
	return FloodCrowd{}
}

// Where there is no flood, everybody is served, nothing is asked, and weir makes no difference.
func TestNoFlood(t *testing.T) {
	needs.Unwatched(t)
	s := flood(t, scene())
	for i, c := range s.Crowds {
		if c.Share != 1 || c.MeanWait > 0.05 || c.Stamps != 0 {
			t.Errorf("%+v", c)
		}
		if c != s.Without[i] {
			t.Errorf("with weir %+v, without %+v", c, s.Without[i])
		}
	}
	if s.Peak != 0 || s.Asked != 0 || s.Dormant != -1 {
		t.Errorf("work %s was asked for %g s", s.Peak, s.Asked)
	}
}

// A flood that pays nothing, of ten times what the service can do: people are served all the same, and nothing is asked
// any more soon after it. Without weir hardly anybody is.
func TestUnpaidFlood(t *testing.T) {
	needs.Unwatched(t)
	o := scene()
	o.Flood = 500
	s := flood(t, o)
	for _, name := range []string{CrowdDesktop, CrowdPhone, CrowdWithout} {
		with, without := crowdOf(t, s.Crowds, name), crowdOf(t, s.Without, name)
		t.Logf("%s: with weir %+v, without %+v", name, with, without)
		if with.Share < 0.95 {
			t.Errorf("%s: %.3f were served", name, with.Share)
		}
		if name != CrowdWithout && without.Share > 0.1 { // they are patient
			t.Errorf("%s: without weir %.3f were served", name, without.Share)
		}
		if name == CrowdWithout && with.Stamps != 0 || name != CrowdWithout && with.Stamps == 0 {
			t.Errorf("%s made %d stamps", name, with.Stamps)
		}
	}
	// It gets what people leave over, and no more.
	rest := 1.05
	for _, name := range []string{CrowdDesktop, CrowdPhone, CrowdWithout} {
		rest -= crowdOf(t, s.Crowds, name).Capacity
	}
	if c := crowdOf(t, s.Crowds, CrowdFlood); c.Capacity > rest {
		t.Errorf("%+v, with %.2f left over", c, rest)
	}
	if s.PeakWork < 1<<16 || s.Dormant < 0 || s.Dormant > 60 {
		t.Errorf("work %d, dormant after %g s", s.PeakWork, s.Dormant)
	}
	used := 0.0
	for _, c := range s.Crowds {
		used += c.Capacity
		if c.Served+c.Refused+c.Left != c.Offered {
			t.Errorf("some are missing: %+v", c)
		}
	}
	if used > 1.1 {
		t.Errorf("%.2f of the capacity was used", used)
	}
}

// A flood that pays drives the price up, until it cannot pay for all places: each use of a stamp is a turn. Whatever a
// stamp covers, people are served, and it gets no more than they leave over.
func TestPayingFlood(t *testing.T) {
	needs.Unwatched(t)
	o := scene()
	o.Hashes = 8e6 // a core
	all := flood(t, o)
	if crowdOf(t, all.Crowds, CrowdPaying).Stamps == 0 {
		t.Errorf("nobody paid: %+v", all.Crowds)
	}
	o.Stamps.Covers = 1
	one := flood(t, o)
	before, after := crowdOf(t, all.Crowds, CrowdPaying), crowdOf(t, one.Crowds, CrowdPaying)
	t.Logf("a stamp for 50: %+v; for 1: %+v", before, after)
	if after.Served > before.Served {
		t.Errorf("a stamp for each request: %d were served, %d otherwise", after.Served, before.Served)
	}
	for _, s := range []*FloodStudy{all, one} {
		for _, name := range []string{CrowdDesktop, CrowdPhone, CrowdWithout} {
			c := crowdOf(t, s.Crowds, name)
			t.Logf("%+v", c)
			if c.Share < 0.95 {
				t.Errorf("%+v", c)
			}
		}
	}
}

// The same seed gives the same figures, another one others; with weir and without it the same people come.
func TestFloodIsTheSameAgain(t *testing.T) {
	needs.Unwatched(t)
	o := scene()
	o.Flood, o.Hashes, o.For = 300, 1e6, 40*time.Second
	first := flood(t, o)
	if again := flood(t, o); !reflect.DeepEqual(first, again) {
		t.Error("it went another way")
	}
	for i, c := range first.Crowds {
		if w := first.Without[i]; c.Crowd != w.Crowd || c.Offered != w.Offered {
			t.Errorf("%d %s with weir, %d %s without", c.Offered, c.Crowd, w.Offered, w.Crowd)
		}
	}
	o.Seed++
	if other := flood(t, o); reflect.DeepEqual(first, other) {
		t.Error("the seed changes nothing")
	}
}

// Every second there is a point, and the crowds in it add up.
func TestFloodPoints(t *testing.T) {
	needs.Unwatched(t)
	o := scene()
	o.Flood, o.For, o.From, o.Until = 200, 30*time.Second, 5*time.Second, 20*time.Second
	s := flood(t, o)
	if len(s.Points) != 30 {
		t.Fatalf("%d points", len(s.Points))
	}
	served, most := 0, 0.0
	for i, p := range s.Points {
		if p.Second != i+1 || p.Load < 0 || math.IsNaN(p.Load) || p.Phone < p.Desktop || p.Without == nil {
			t.Errorf("%+v", p)
		}
		if p.Second < 5 && p.Work > 0 {
			t.Errorf("%d is asked after %d s", p.Work, p.Second)
		}
		served += p.Served[CrowdDesktop]
		most = max(most, p.Load)
	}
	if served == 0 || most < 1 {
		t.Errorf("%d served, load %g", served, most)
	}
}

// A classic gate, an algorithm that counts something else, a capacity that is learnt, and one that is written wrongly
// can be played, too.
func TestFloodOtherOptions(t *testing.T) {
	needs.Unwatched(t)
	for name, change := range map[string]func(*FloodOptions){
		"classic":   func(o *FloodOptions) { o.Stamps.Classic = true },
		"eqs60":     func(o *FloodOptions) { o.Stamps.Algorithm = stamp.EQS60 },
		"dlog":      func(o *FloodOptions) { o.Stamps.Algorithm = stamp.DLog },
		"learnt":    func(o *FloodOptions) { o.Lanes.Learn = true },
		"too large": func(o *FloodOptions) { o.Lanes.Concurrent = 50 },
		"schedule": func(o *FloodOptions) {
			o.Stamps.Schedule = []stamp.Step{{Load: 0.5, Work: 1 << 12}, {Load: 1, Work: 1 << 18}}
		},
		"few sources": func(o *FloodOptions) { o.Sources = 3 },
		"short":       func(o *FloodOptions) { o.For = time.Second },
		"all phones":  func(o *FloodOptions) { o.Phones, o.Without = 1, 0 },
		"nobody":      func(o *FloodOptions) { o.People = 0 },
	} {
		o := scene()
		o.Flood, o.For = 200, 30*time.Second
		change(&o)
		s := flood(t, o)
		for _, c := range append(s.Crowds, s.Without...) {
			if c.Served+c.Refused+c.Left != c.Offered || c.MeanWait < 0 || math.IsNaN(c.Share) {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
}

func TestFloodMistakes(t *testing.T) {
	for _, c := range []struct {
		change func(*FloodOptions)
		want   string
	}{
		{func(o *FloodOptions) { o.Concurrent = 0 }, "concurrent: a service that works on 0 requests"},
		{func(o *FloodOptions) { o.Concurrent = admission.MaxConcurrent + 1 }, "concurrent: "},
		{func(o *FloodOptions) { o.People = 0 }, "people: nobody comes (write 20/s)"},
		{func(o *FloodOptions) { o.People = -1 }, "people: -1 a second cannot be played (up to 1e+06)"},
		{func(o *FloodOptions) { o.Flood = MaxFloodRate + 1 }, "flood: "},
		{func(o *FloodOptions) { o.Flood = math.NaN() }, "flood: NaN a second"},
		{func(o *FloodOptions) { o.Paying = 10 }, "hashes: the flood that pays cannot pay anything"},
		{func(o *FloodOptions) { o.Hashes = math.Inf(1) }, "hashes: "},
		{func(o *FloodOptions) { o.Without = 1.1 }, "without: 110% is not a share of people (0% to 100%)"},
		{func(o *FloodOptions) { o.Phones = weir.Share(math.NaN()) }, "phones: "},
		{func(o *FloodOptions) { o.For = MaxFloodTime + 1 }, "for: "},
		{func(o *FloodOptions) { o.Service = MaxFloodService + 1 }, "service: "},
		{func(o *FloodOptions) { o.Service = -1 }, "service: "},
		{func(o *FloodOptions) { o.From, o.Until = 10*time.Second, 5*time.Second },
			"until: a flood from 10s until 5s is not within 1m20s"},
		{func(o *FloodOptions) { o.Until = 3 * time.Minute }, "until: "},
		{func(o *FloodOptions) { o.Sources = MaxFloodSources + 1 }, "sources: 1000001 is out of bounds"},
		{func(o *FloodOptions) { o.Queue = MaxFloodLine + 1 }, "queue: "},
		{func(o *FloodOptions) { o.Lanes.Pool = 2 }, "capacity.pool: "},
		{func(o *FloodOptions) { o.Stamps.Covers = -1 }, "stamp.covers: "},
		{func(o *FloodOptions) { o.Flood, o.For = MaxFloodRate, MaxFloodTime },
			"visits are more than are played (at most 10000000"},
	} {
		o := scene()
		c.change(&o)
		_, err := Flood(o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
			continue
		}
		if _, ok := errors.AsType[*weir.FieldError](err); !ok {
			t.Errorf("%T", err)
		}
	}
}

func TestSecondsFor(t *testing.T) {
	for _, a := range []stamp.Algorithm{stamp.SHA256K, stamp.DLog, stamp.DLogClassic, stamp.EQS60} {
		phone := secondsFor(1<<18, a, phoneSpeed(a))
		if want := stamp.Work(1 << 18).Time(a).Seconds(); math.Abs(phone-want) > 0.01*want {
			t.Errorf("%s: %g s on a phone, want %g", a, phone, want)
		}
	}
	if got := secondsFor(1<<20, stamp.SHA256K, 15.6e9); math.Abs(got-1/14_877.0) > 1e-7 {
		t.Errorf("%g", got)
	}
}

func BenchmarkFlood(b *testing.B) {
	o := scene()
	o.Flood, o.For = 1000, 60*time.Second
	for b.Loop() {
		if _, err := Flood(o); err != nil {
			b.Fatal(err)
		}
	}
}
