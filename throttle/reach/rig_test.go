package reach

import (
	"math/rand/v2"
	"testing"
	"time"

	"weir"
)

// epoch is when the tests begin: a Monday.
var epoch = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// A rig is a user whose messages and clock a test has in its hand.
type rig struct {
	t       testing.TB
	r       *Rules
	p       *Population
	s       State
	now     time.Time
	keys    *rand.Rand
	samples []Sample
}

func newRig(t testing.TB, o Options) *rig {
	return &rig{t: t, r: rules(t, o), p: new(Population), now: epoch, keys: rand.New(rand.NewPCG(1, 2))}
}

func rules(t testing.TB, o Options) *Rules {
	t.Helper()
	r, err := o.Rules()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// many returns n recipients nobody has written to.
func (g *rig) many(n int) []uint64 {
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = g.keys.Uint64()
	}
	return keys
}

// send judges and commits a message, which must come to the same.
func (g *rig) send(keys ...uint64) Verdict {
	g.t.Helper()
	judged, done := make([]Fate, len(keys)), make([]Fate, len(keys))
	before := g.s.meter
	v := g.s.Judge(g.r, g.p, g.now, keys, judged)
	if g.s.meter != before {
		g.t.Error("Judge changed something")
	}
	copy(done, judged)
	w, samples := g.s.Commit(g.r, g.p, g.now, keys, done)
	if v != w {
		g.t.Errorf("judged %+v, committed %+v", v, w)
	}
	held, refused := 0, 0
	for i := range judged {
		switch {
		case judged[i] != done[i]:
			g.t.Fatalf("recipient %d: judged %d, committed %d", i, judged[i], done[i])
		case done[i] == Hold:
			held++
		case done[i] == Refuse:
			refused++
		}
	}
	if v.Held != held || v.Refused != refused || v.New+v.Known != len(keys) {
		g.t.Errorf("%+v with %d held and %d refused of %d", v, held, refused, len(keys))
	}
	g.samples = append(g.samples, samples...)
	g.p.Observe(g.now, samples)
	return v
}

// list sends to many in messages of a hundred, and returns how many were held or refused, and whether the user got
// flagged.
func (g *rig) list(keys []uint64) (stopped int, flagged bool) {
	g.t.Helper()
	for len(keys) > 0 {
		n := min(len(keys), 100)
		v, samples := g.s.Commit(g.r, g.p, g.now, keys[:n], nil)
		g.p.Observe(g.now, samples)
		stopped += v.Held + v.Refused
		flagged = flagged || v.Now
		keys = keys[n:]
	}
	return stopped, flagged
}

func (g *rig) wait(d time.Duration) *rig {
	g.now = g.now.Add(d)
	return g
}

// learnt makes the account old, and gives it a population in which users write to up to usual new people in each
// window.
func (g *rig) learnt(usual int) *rig {
	g.t.Helper()
	g.s.Learn(g.r, g.now, g.many(1))
	g.quiet(usual)
	return g.wait(30 * day)
}

// quiet fills the population.
func (g *rig) quiet(usual int) {
	var samples []Sample
	for i := range 1000 {
		for _, w := range Windows {
			samples = append(samples, Sample{Window: w, Age: 60 * day, Size: float64(10 * (i % 50)),
				New: float64(i % (usual + 1))})
		}
	}
	g.p.Observe(g.now, samples)
}

// counted are the options of a static count.
func counted(n int, over Action) Options {
	return Options{Threshold: Threshold{Count: n}, Over: over, For: weir.Duration(time.Hour)}
}
