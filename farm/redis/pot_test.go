package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/farm"
	"weir/farm/farmtest"
)

// A potRig is an engine for tests: it has the time that it is told.
type potRig struct {
	Pot     farm.Pot
	SetTime func(time.Time)
	Restart func()                  // it has nothing any more, and another identity
	Save    func() (promote func()) // promote makes it another engine, which has what was there when it was saved
}

// memRig is a rig with a pot in memory.
func memRig() *potRig {
	var now time.Time
	p := farmtest.NewPot(func() time.Time { return now })
	return &potRig{p, func(t time.Time) { now = t }, p.Restart, p.Save}
}

// potTime is when tests of pots begin: a second, and a day of UTC, but not at the start of a period of sliding windows.
var potTime = time.Date(2031, 5, 6, 0, 0, 0, 0, time.UTC)

// A bench is a rig with some runs at it.
type bench struct {
	*potRig
	t   *testing.T
	now time.Time
	seq uint64
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	b.now = b.now.Add(d)
	b.SetTime(b.now)
}

// ask asks for a run that is alone, with the next number.
func (b *bench) ask(run string, wants ...farm.Want) farm.Reply {
	b.t.Helper()
	return b.askLive(run, nil, wants...)
}

func (b *bench) askLive(run string, live []string, wants ...farm.Want) farm.Reply {
	b.t.Helper()
	b.seq++
	r, err := b.Pot.Take(b.t.Context(), farm.Ask{Key: "key", Run: run, Seq: b.seq, Nodes: live, Wants: wants})
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// A holder is one run's side of one rule, which keeps the rules of a caller.
type holder struct {
	*bench
	run  string
	want farm.Want
	last farm.Grant
}

func (b *bench) holder(run string, w farm.Want) *holder { return &holder{bench: b, run: run, want: w} }

// take has used so many of what it has, and asks for more.
func (h *holder) take(used, need, ahead int64) farm.Reply {
	h.t.Helper()
	w := h.want
	w.Mark, w.Used, w.Need, w.Ahead = h.last.Mark, used, need, ahead
	r := h.ask(h.run, w)
	h.last = r.Grants[0]
	return r
}

// has checks what it has been granted in all, and whether that is what it needed.
func (h *holder) has(r farm.Reply, granted bool, total, others, left int64) {
	h.t.Helper()
	g := r.Grants[0]
	if r.Granted != granted || g.Total != total || g.Others != others || g.Left != left {
		h.t.Fatalf("%s: granted %v, total %d, others %d, left %d; want %v, %d, %d, %d",
			h.run, r.Granted, g.Total, g.Others, g.Left, granted, total, others, left)
	}
}

// waits checks how long it must wait for which want.
func (b *bench) waits(r farm.Reply, failed int, wait time.Duration) {
	b.t.Helper()
	if r.Granted || r.Failed != failed || r.Wait != wait {
		b.t.Fatalf("granted %v, want %d must wait %v; should be %d, %v", r.Granted, r.Failed, r.Wait, failed, wait)
	}
}

// good checks how long a grant may be spent.
func (b *bench) good(r farm.Reply, want time.Duration) {
	b.t.Helper()
	if got := r.Grants[0].For; got != want {
		b.t.Fatalf("it may be spent for %v, want %v", got, want)
	}
}

// testPot runs the conformance suite of pots. open returns a fresh engine.
func testPot(t *testing.T, open func(t *testing.T) *potRig) {
	for name, test := range map[string]func(b *bench){
		"fixed":                       testPotFixed,
		"fixed by the calendar":       testPotCalendar,
		"sliding":                     testPotSliding,
		"steady":                      testPotSteady,
		"steady taken ahead":          testPotAhead,
		"level":                       testPotLevel,
		"all or none":                 testPotAll,
		"repeated and late calls":     testPotSeq,
		"bounds":                      testPotBounds,
		"crowds":                      testPotCrowds,
		"forgets":                     testPotForgets,
		"drops a key":                 testPotDrop,
		"a new engine is told":        testPotReopen,
		"a new engine gives back":     testPotGivesBack,
		"a run that is unknown":       testPotUnknown,
		"promoted with less":          testPotPromoted,
		"the clock runs back":         testPotClock,
		"keys and rules are apart":    testPotApart,
		"given up before it is asked": testPotContext,
		"a limit that changes":        testPotLimits,
	} {
		t.Run(name, func(t *testing.T) {
			b := &bench{potRig: open(t), t: t, now: potTime}
			t.Cleanup(b.Pot.Close)
			b.pass(0)
			test(b)
		})
	}
	t.Run("as the model", func(t *testing.T) {
		for seed := range uint64(20) {
			rig := open(t)
			t.Cleanup(rig.Pot.Close)
			samePot(t, seed, rig)
		}
	})
	t.Run("simulated", func(t *testing.T) {
		for seed := range uint64(5) {
			rig := open(t)
			t.Cleanup(rig.Pot.Close)
			if err := simulatePot(seed, rig); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	})
}

// samePot asks an engine and the model at random, and compares what they answer.
func samePot(t *testing.T, seed uint64, rig *potRig) {
	r := rand.New(rand.NewPCG(seed, 49))
	model := memRig()
	now := potTime
	type know struct {
		mark  string
		total int64
	}
	knows := map[string]*know{}
	var promoteA, promoteB func()
	seqs := map[string]uint64{}
	wants := potWants(r)
	for n := range 300 {
		if r.IntN(3) > 0 {
			now = now.Add(time.Duration(r.Int64N([]int64{100, 10_000, 400_000}[r.IntN(3)])) * time.Microsecond)
		}
		at := now.Add(time.Duration(r.IntN(3)-1) * time.Duration(r.IntN(2)) * 300 * time.Millisecond) // clocks differ
		rig.SetTime(at)
		model.SetTime(at)
		switch r.IntN(60) {
		case 0:
			rig.Restart()
			model.Restart()
			promoteA, promoteB = nil, nil
		case 1:
			promoteA, promoteB = rig.Save(), model.Save()
		case 2:
			if promoteA != nil {
				promoteA()
				promoteB()
				promoteA, promoteB = nil, nil
			}
		}
		run := fmt.Sprint("run", r.IntN(4))
		ask := farm.Ask{Key: "k", Run: run, Seq: max(1, seqs[run]+uint64(r.IntN(8))/2), Nodes: []string{run, "run0"}}
		seqs[run] = max(seqs[run], ask.Seq)
		for _, w := range wants {
			if r.IntN(4) == 0 {
				continue
			}
			k := knows[run+w.Rule]
			if k == nil {
				k = &know{}
				knows[run+w.Rule] = k
			}
			w.Mark, w.Used = k.mark, k.total
			if r.IntN(3) == 0 {
				w.Used = r.Int64N(k.total + 3)
			}
			if r.IntN(3) > 0 {
				w.Need, w.Ahead = r.Int64N(4), r.Int64N(6)
			}
			w.Forget = w.Way != farm.Level && r.IntN(40) == 0
			w.Unknown = r.IntN(20) == 0
			ask.Wants = append(ask.Wants, w)
		}
		if len(ask.Wants) == 0 {
			continue
		}
		got, err := rig.Pot.Take(t.Context(), ask)
		want, wantErr := model.Pot.Take(t.Context(), ask)
		if !errors.Is(err, errors.Unwrap(wantErr)) && !errors.Is(err, wantErr) {
			t.Fatalf("seed %d, call %d: %v, want %v", seed, n, err, wantErr)
		}
		got.Engine, want.Engine = "", ""
		if !got.Now.Equal(want.Now) {
			t.Fatalf("seed %d, call %d: it is %v, want %v", seed, n, got.Now, want.Now)
		}
		got.Now = want.Now
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d, call %d: %+v\ngot  %+v\nwant %+v", seed, n, ask, got, want)
		}
		for i, g := range got.Grants {
			if r.IntN(10) > 0 { // else it is lost
				*knows[run+ask.Wants[i].Rule] = know{g.Mark, g.Total}
			}
		}
	}
}

// potWants returns limits of all kinds, as in the simulation.
func potWants(r *rand.Rand) []farm.Want {
	limit := func(most int64) int64 { return 1 + r.Int64N(most) }
	all := []farm.Want{
		{Rule: "fixed", Way: farm.Fixed, Limit: limit(60), Period: time.Second},
		{Rule: "month", Way: farm.Fixed, Limit: limit(200), Start: potTime.AddDate(0, 0, -5), End: potTime.AddDate(0, 0, 25)},
		{Rule: "sliding", Way: farm.Sliding, Limit: limit(60), Period: time.Second + time.Microsecond},
		{Rule: "steady", Way: farm.Steady, Limit: limit(100), Burst: limit(50), Period: time.Second},
		{Rule: "ahead", Way: farm.Steady, Limit: limit(100), Burst: 20 + limit(50), Period: time.Second,
			Life: 50 * time.Millisecond},
		{Rule: "level", Way: farm.Level, Limit: limit(20)},
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+r.IntN(3)]
}

func testPotContext(b *bench) {
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel()
	_, err := b.Pot.Take(ctx, farm.Ask{Key: "key", Run: "a", Seq: 1, Wants: []farm.Want{{Rule: "r", Way: farm.Level}}})
	if !errors.Is(err, context.Canceled) {
		b.t.Errorf("a call that was given up: %v", err)
	}
}

func testPotBounds(b *bench) {
	whole := strings.Repeat("x", farm.MaxKey)
	fixed := farm.Want{Rule: strings.Repeat("r", farm.MaxRule), Limit: farm.MaxNumber, Period: farm.MaxPeriod, Need: 1}
	many := make([]farm.Want, farm.MaxWants)
	for i := range many {
		many[i] = farm.Want{Rule: fmt.Sprint(i), Way: farm.Level, Limit: 1}
	}
	live := make([]string, farm.MaxNodes)
	for i := range live {
		live[i] = "a"
	}
	take := func(ask farm.Ask) error {
		_, err := b.Pot.Take(b.t.Context(), ask)
		return err
	}
	ask := func(change func(*farm.Ask)) farm.Ask {
		a := farm.Ask{Key: whole, Run: "a", Seq: 1, Nodes: live, Wants: []farm.Want{fixed}}
		change(&a)
		return a
	}
	want := func(change func(*farm.Want)) farm.Ask {
		w := fixed
		change(&w)
		return ask(func(a *farm.Ask) { a.Wants = []farm.Want{w} })
	}
	must(b.t, take(ask(func(a *farm.Ask) {})))
	must(b.t, take(ask(func(a *farm.Ask) { a.Wants, a.Key = many, "other" })))
	must(b.t, take(ask(func(a *farm.Ask) { a.Seq, a.Run = farm.MaxNumber, strings.Repeat("r", farm.MaxRun) })))
	day := potTime.Add(24 * time.Hour)
	for name, bad := range map[string]farm.Ask{
		"no key":             ask(func(a *farm.Ask) { a.Key = "" }),
		"a longer key":       ask(func(a *farm.Ask) { a.Key += "x" }),
		"no run":             ask(func(a *farm.Ask) { a.Run = "" }),
		"a longer run":       ask(func(a *farm.Ask) { a.Run = strings.Repeat("r", farm.MaxRun+1) }),
		"a longer node":      ask(func(a *farm.Ask) { a.Nodes = []string{strings.Repeat("r", farm.MaxRun+1)} }),
		"no number":          ask(func(a *farm.Ask) { a.Seq = 0 }),
		"more nodes":         ask(func(a *farm.Ask) { a.Nodes = append(live, "b") }),
		"no wants":           ask(func(a *farm.Ask) { a.Wants = nil }),
		"more wants":         ask(func(a *farm.Ask) { a.Wants = append(many, fixed) }),
		"two of a rule":      ask(func(a *farm.Ask) { a.Wants = []farm.Want{fixed, fixed} }),
		"no rule":            want(func(w *farm.Want) { w.Rule = "" }),
		"a longer rule":      want(func(w *farm.Want) { w.Rule += "x" }),
		"a longer mark":      want(func(w *farm.Want) { w.Mark = strings.Repeat("1", farm.MaxMark+1) }),
		"another mark":       want(func(w *farm.Want) { w.Mark = "not a mark" }),
		"no way":             want(func(w *farm.Want) { w.Way = farm.Level + 1 }),
		"used below zero":    want(func(w *farm.Want) { w.Used = -1 }),
		"need below zero":    want(func(w *farm.Want) { w.Need = -1 }),
		"no period":          want(func(w *farm.Want) { w.Period = 0 }),
		"a shorter period":   want(func(w *farm.Want) { w.Period = farm.MinPeriod - time.Microsecond }),
		"a longer period":    want(func(w *farm.Want) { w.Period = farm.MaxPeriod + time.Microsecond }),
		"a crooked period":   want(func(w *farm.Want) { w.Period = time.Second + 1 }),
		"two periods":        want(func(w *farm.Want) { w.Start, w.End = potTime, day }),
		"an empty period":    want(func(w *farm.Want) { w.Period, w.Start, w.End = 0, day, day }),
		"a calendar sliding": want(func(w *farm.Want) { w.Way, w.Period, w.Start, w.End = farm.Sliding, 0, potTime, day }),
		"a longer life":      want(func(w *farm.Want) { w.Way, w.Life = farm.Level, farm.MaxLife+1 }),
		"a fixed life":       want(func(w *farm.Want) { w.Life = 1 }),
	} {
		if err := take(bad); !errors.Is(err, farm.ErrAsk) {
			b.t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string]farm.Ask{
		"seq":   ask(func(a *farm.Ask) { a.Seq = farm.MaxNumber + 1 }),
		"limit": want(func(w *farm.Want) { w.Limit++ }),
		"burst": want(func(w *farm.Want) { w.Burst = farm.MaxNumber + 1 }),
		"used":  want(func(w *farm.Want) { w.Used = farm.MaxNumber + 1 }),
		"need":  want(func(w *farm.Want) { w.Need = farm.MaxNumber + 1 }),
		"ahead": want(func(w *farm.Want) { w.Ahead = farm.MaxNumber + 1 }),
		"end":   want(func(w *farm.Want) { w.Period, w.Start, w.End = 0, potTime, potTime.AddDate(200, 0, 0) }),
	} {
		if err := take(bad); !errors.Is(err, farm.ErrNumber) {
			b.t.Errorf("%s: %v", name, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
