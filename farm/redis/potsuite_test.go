package redis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"weir/farm"
)

const ms = time.Millisecond

func testPotFixed(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Fixed, Limit: 10, Period: time.Second}
	x, y := b.holder("x", w), b.holder("y", w)
	b.pass(400 * ms)
	r := x.take(0, 1, 3)
	x.has(r, true, 4, 0, 6)
	b.good(r, 600*ms)
	if !r.Now.Equal(b.now) {
		b.t.Errorf("it is %v there, want %v", r.Now, b.now)
	}
	y.has(y.take(0, 5, 5), true, 6, 4, 0) // no more than there is
	r = x.take(4, 1, 0)
	x.has(r, false, 4, 6, 0)
	b.waits(r, 0, 600*ms)
	y.has(y.take(2, 0, 0), true, 2, 4, 4)   // returns 4
	x.has(x.take(4, 4, 9), true, 8, 2, 0)   // whoever asks has them
	x.has(x.take(11, 0, 0), true, 11, 2, 0) // what has flowed counts, though it was not granted
	y.has(y.take(2, 1, 0), false, 2, 11, 0)
	b.waits(y.take(2, 11, 0), 0, farm.Never)
	b.pass(600*ms - time.Microsecond)
	slice := y.last.Slice
	y.has(y.take(2, 1, 0), false, 2, 11, 0)
	b.good(y.take(2, 0, 0), time.Microsecond)
	b.pass(time.Microsecond)
	r = y.take(2, 1, 0) // in the next period, what was used in the last one does not count
	y.has(r, true, 1, 0, 9)
	if y.last.Slice == slice {
		b.t.Error("the next period is the same slice")
	}
	b.good(r, time.Second)
}

func testPotCalendar(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Fixed, Limit: 3, Start: potTime.Add(-time.Hour), End: potTime.Add(time.Hour)}
	x, y := b.holder("x", w), b.holder("y", w)
	x.has(x.take(0, 2, 0), true, 2, 0, 1)
	// Another node has other bounds: the engine keeps to those that it has until they are over.
	y.want.Start, y.want.End = potTime.Add(-time.Minute), potTime.Add(time.Minute)
	r := y.take(0, 1, 1)
	y.has(r, true, 1, 2, 0)
	b.good(r, time.Hour)
	b.pass(time.Hour)
	b.seq++
	ask := farm.Ask{Key: "key", Run: "x", Seq: b.seq, Wants: []farm.Want{w}}
	r, err := b.Pot.Take(b.t.Context(), ask)
	if !errors.Is(err, farm.ErrOutside) || !r.Now.Equal(b.now) {
		b.t.Fatalf("after the period: %v, at %v", err, r.Now)
	}
	ask.Wants[0].Start, ask.Wants[0].End = potTime.Add(2*time.Hour), potTime.Add(3*time.Hour)
	if _, err = b.Pot.Take(b.t.Context(), ask); !errors.Is(err, farm.ErrOutside) {
		b.t.Fatalf("before the period: %v", err)
	}
	x.want.Start, x.want.End = potTime.Add(time.Hour), potTime.Add(2*time.Hour)
	x.has(x.take(2, 3, 0), true, 3, 0, 0)
}

func testPotSliding(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Sliding, Limit: 10, Period: 16 * time.Second} // a bucket is a second
	x, y := b.holder("x", w), b.holder("y", w)
	r := x.take(0, 1, 3)
	x.has(r, true, 4, 0, 6)
	b.good(r, time.Second)
	b.pass(500 * ms)
	r = y.take(0, 1, 1)
	y.has(r, true, 2, 4, 4)
	b.good(r, 500*ms)
	b.pass(500 * ms)
	r = x.take(3, 1, 0) // one of the last bucket goes back
	x.has(r, true, 1, 5, 4)
	r = y.take(5, 2, 9) // three of the last bucket have flowed over
	y.has(r, false, 0, 9, 1)
	b.waits(r, 0, 16*time.Second)
	y.has(y.take(0, 1, 9), true, 1, 9, 0)
	b.pass(16*time.Second - time.Microsecond)
	x.has(x.take(1, 1, 0), false, 0, 10, 0)
	b.pass(time.Microsecond)
	x.has(x.take(0, 1, 9), true, 8, 2, 0)
}

func testPotSteady(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Steady, Limit: 10, Burst: 5, Period: time.Second}
	x, y := b.holder("x", w), b.holder("y", w)
	r := x.take(0, 3, 0)
	x.has(r, true, 3, 0, 2)
	b.good(r, 0)
	y.has(y.take(0, 1, 0), true, 1, 0, 1)
	b.waits(y.take(1, 2, 0), 0, 100*ms)
	b.waits(y.take(1, 6, 0), 0, farm.Never)
	b.pass(100 * ms)
	y.has(y.take(1, 2, 0), true, 3, 0, 0)
	x.has(x.take(3, 0, 0), true, 3, 0, 0)
	y.has(y.take(1, 0, 0), true, 1, 0, 2) // returned at once: as if it had not been
	y.has(y.take(1, 2, 0), true, 3, 0, 0)
	b.pass(100 * ms)
	y.has(y.take(1, 0, 0), true, 1, 0, 2) // one of the two has been paid off: one was given back, one came anew
	b.pass(time.Minute)
	x.has(x.take(8, 0, 0), true, 8, 0, 0) // five have flowed over
	b.waits(x.take(8, 1, 0), 0, 100*ms)
	x.has(x.take(10, 0, 0), true, 10, 0, 0)
	b.waits(y.take(1, 1, 0), 0, 300*ms)
	idle := b.holder("x", farm.Want{Rule: "idle", Way: farm.Steady, Limit: 1, Burst: 1, Period: time.Minute})
	idle.has(idle.take(0, 1, 5), true, 1, 0, 0)
	b.pass(59 * time.Second)
	b.waits(idle.take(1, 1, 0), 0, time.Second)
	b.pass(time.Second)
	idle.has(idle.take(1, 1, 0), true, 2, 0, 0)
	none := b.holder("x", farm.Want{Rule: "none", Way: farm.Steady, Burst: 1, Period: time.Minute})
	b.waits(none.take(0, 1, 0), 0, farm.Never)
}

func testPotAhead(b *bench) {
	// A tenth of a second ahead is ten, so that twenty of thirty can be had.
	w := farm.Want{Rule: "r", Way: farm.Steady, Limit: 100, Burst: 30, Period: time.Second, Life: 100 * ms}
	x, y := b.holder("x", w), b.holder("y", w)
	r := x.take(0, 1, 14)
	x.has(r, true, 15, 0, 5)
	b.good(r, 100*ms)
	y.want.Life = 0
	y.has(y.take(0, 1, 9), true, 5, 0, 0) // while x may spend, nobody has the whole burst
	b.pass(40 * ms)
	r = x.take(15, 0, 0)
	x.has(r, true, 15, 0, 4)
	b.good(r, 60*ms)
	b.pass(60 * ms)
	y.has(y.take(5, 1, 99), true, 25, 0, 0) // ten of twenty have been paid off
	b.good(x.take(15, 0, 0), 0)
	b.waits(x.take(15, 25, 0), 0, farm.Never)
}

func testPotLevel(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Level, Limit: 10}
	x, y := b.holder("x", w), b.holder("y", w)
	r := x.take(0, 4, 2)
	x.has(r, true, 6, 0, 4)
	b.good(r, farm.MaxLife)
	b.pass(time.Second)
	y.want.Life = 500 * ms
	r = y.take(0, 4, 0)
	y.has(r, true, 4, 6, 0)
	b.good(r, 500*ms)
	b.waits(x.take(6, 1, 0), 0, 500*ms)
	x.has(x.take(2, 0, 0), true, 2, 4, 4) // four have ended
	b.pass(500 * ms)
	x.has(x.take(2, 8, 0), true, 10, 0, 0) // y has not been heard
	y.has(y.take(4, 0, 0), true, 4, 10, 0) // they are under way all the same
	y.has(y.take(4, 1, 0), false, 4, 10, 0)
	y.has(y.take(0, 0, 0), true, 0, 10, 0)
	b.waits(y.take(0, 11, 0), 0, farm.Never)
	b.pass(farm.MaxLife)
	y.has(y.take(0, 10, 0), true, 10, 0, 0)
}

func testPotAll(b *bench) {
	a := farm.Want{Rule: "a", Way: farm.Fixed, Limit: 10, Period: time.Second, Need: 2, Ahead: 2}
	c := farm.Want{Rule: "c", Way: farm.Sliding, Limit: 3, Period: 16 * time.Second, Need: 2}
	d := farm.Want{Rule: "d", Way: farm.Steady, Limit: 1, Burst: 2, Period: time.Second, Need: 1}
	totals := func(r farm.Reply) (all []int64) {
		for _, g := range r.Grants {
			all = append(all, g.Total)
		}
		return all
	}
	r := b.ask("x", a, c, d)
	if got := totals(r); !r.Granted || !slices.Equal(got, []int64{4, 2, 1}) {
		b.t.Fatalf("all: %v", got)
	}
	r = b.ask("y", a, c, d)
	if got := totals(r); !slices.Equal(got, []int64{0, 0, 0}) {
		b.t.Fatalf("none: %v", got)
	}
	b.waits(r, 1, 17*time.Second)
	a.Need, c.Need, d.Need = 7, 2, 2
	b.waits(b.ask("y", a, c, d), 1, 17*time.Second) // the one that must wait longest
	c.Need = 1
	b.waits(b.ask("y", d, a, c), 0, time.Second)
	a.Need, d.Need = 6, 1
	if r = b.ask("y", d, a, c); !r.Granted || !slices.Equal(totals(r), []int64{1, 6, 1}) {
		b.t.Fatalf("all of the rest: %+v", r)
	}
	d.Need, d.Ahead, a.Need, a.Ahead, c.Need, c.Ahead = 0, 5, 0, 5, 0, 5
	if r = b.ask("z", d, a, c); !r.Granted || !slices.Equal(totals(r), []int64{0, 0, 0}) {
		b.t.Fatalf("who needs nothing is granted it: %+v", r)
	}
}

func testPotSeq(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Fixed, Limit: 10, Period: time.Second, Need: 2, Ahead: 2}
	take := func(seq uint64, w farm.Want) farm.Reply {
		b.t.Helper()
		r, err := b.Pot.Take(b.t.Context(), farm.Ask{Key: "key", Run: "x", Seq: seq, Wants: []farm.Want{w}})
		must(b.t, err)
		return r
	}
	is := func(r farm.Reply, stale, granted bool, total int64) {
		b.t.Helper()
		if r.Stale != stale || r.Granted != granted || r.Grants[0].Total != total {
			b.t.Fatalf("stale %v, granted %v, total %d; want %v, %v, %d",
				r.Stale, r.Granted, r.Grants[0].Total, stale, granted, total)
		}
	}
	is(take(5, w), false, true, 4)
	is(take(5, w), true, true, 4) // repeated
	first := take(5, w).Grants[0]
	is(take(4, w), true, true, 4)  // late
	is(take(6, w), false, true, 4) // superseded by one that does not know the first one's reply
	w.Mark, w.Used = first.Mark, 4
	is(take(7, w), false, true, 8)
	back := w
	back.Need, back.Ahead, back.Used = 0, 0, 1
	is(take(7, back), true, true, 8) // a return that comes late
	is(take(8, back), false, true, 1)
	w.Need = 9
	is(take(8, w), true, false, 1)
	b.pass(time.Second)
	is(take(8, w), true, false, 0)
	other, err := b.Pot.Take(b.t.Context(), farm.Ask{Key: "key", Run: "x.2", Seq: 1, Wants: []farm.Want{{Rule: "r",
		Way: farm.Fixed, Limit: 10, Period: time.Second, Need: 10}}})
	must(b.t, err)
	is(other, false, true, 10)
}

func testPotCrowds(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Fixed, Limit: 1000, Period: time.Hour, Need: 1, Ahead: 1}
	x := b.holder("x", w)
	x.has(x.take(0, 2, 0), true, 2, 0, 998)
	for i := range farm.MaxRuns {
		b.ask(fmt.Sprint(i), w) // the last one makes the pot forget x
	}
	x.has(x.take(1, 0, 0), true, 1, 2*farm.MaxRuns, 999-2*farm.MaxRuns)
	level := farm.Want{Rule: "level", Way: farm.Level, Limit: 1000, Need: 1}
	take := func(run string) error {
		b.seq++
		_, err := b.Pot.Take(b.t.Context(), farm.Ask{Key: "key", Run: run, Seq: b.seq, Wants: []farm.Want{level}})
		return err
	}
	for i := range farm.MaxRuns {
		must(b.t, take(fmt.Sprint("level", i)))
	}
	if err := take("one more"); !errors.Is(err, farm.ErrCrowded) {
		b.t.Fatalf("a level of more runs: %v", err)
	}
	must(b.t, take("level7"))
	b.pass(farm.MaxLife)
	must(b.t, take("one more"))
	rules := func(run string, n int) error {
		b.seq++
		ask := farm.Ask{Key: "rules", Run: run, Seq: b.seq}
		for i := range 64 {
			w.Rule = fmt.Sprint("rule", n*64+i)
			ask.Wants = append(ask.Wants, w)
		}
		_, err := b.Pot.Take(b.t.Context(), ask)
		return err
	}
	for n := range farm.MaxRules / 64 {
		must(b.t, rules("x", n))
	}
	if err := rules("x", 99); !errors.Is(err, farm.ErrCrowded) {
		b.t.Fatalf("more rules: %v", err)
	}
	b.pass(2 * time.Hour)
	must(b.t, rules("x", 99))
}

func testPotReopen(b *bench) {
	day := farm.Want{Rule: "day", Way: farm.Fixed, Limit: 10, Period: 24 * time.Hour}
	x, y := b.holder("x", day), b.holder("y", day)
	x.has(x.take(0, 4, 2), true, 6, 0, 4)
	engine := x.ask("z", day).Engine
	y.has(y.take(0, 2, 0), true, 2, 6, 2) // the last one to know all
	b.pass(time.Hour)
	b.Restart()
	live := []string{"x", "y", "z"}
	again := func(run string, h *holder, need int64) farm.Reply {
		w := day
		w.Need = need
		if h != nil {
			w.Mark, w.Used = h.last.Mark, h.last.Total
		}
		r := b.askLive(run, live, w)
		if h != nil {
			h.last = r.Grants[0]
		}
		return r
	}
	r := again("z", nil, 1)
	if r.Granted || !slices.Equal(r.Waiting, []string{"x", "y"}) || r.Engine == engine {
		b.t.Fatalf("a new engine: %+v", r)
	}
	if r = again("x", x, 1); r.Granted || !slices.Equal(r.Waiting, []string{"y"}) || x.last.Total != 6 {
		b.t.Fatalf("one has told: %+v", r)
	}
	if r = again("z", nil, 1); r.Granted || !slices.Equal(r.Waiting, []string{"y"}) {
		b.t.Fatalf("it is asked again: %+v", r)
	}
	r = again("y", y, 1)
	y.has(r, true, 3, 6, 1)
	if len(r.Waiting) != 0 {
		b.t.Errorf("it is open, and waits for %v", r.Waiting)
	}
	x.has(x.take(6, 1, 0), true, 7, 3, 0)
	// A window that began after the engine did is open.
	second := farm.Want{Rule: "second", Way: farm.Fixed, Limit: 10, Period: time.Second, Need: 1}
	b.pass(10 * time.Second)
	if r = b.askLive("z", live, second); !r.Granted {
		b.t.Errorf("a second that began later: %+v", r)
	}
	// One that does not tell is waited for until all who have told have forgotten it, or the window is over.
	b.Restart()
	x.take(7, 0, 0)
	again("y", y, 0)
	b.pass(time.Hour)
	if r = again("z", nil, 1); r.Granted || len(r.Waiting) != 0 {
		b.t.Errorf("it is open, or waits for somebody: %+v", r)
	}
	b.Restart()
	again("y", y, 0)
	b.pass(time.Hour)
	if r = again("z", nil, 1); r.Granted || !slices.Equal(r.Waiting, []string{"x"}) {
		b.t.Errorf("it does not wait for x: %+v", r)
	}
	live = []string{"y", "z"}
	if r = again("z", nil, 1); r.Granted || !slices.Equal(r.Waiting, []string{"x"}) {
		b.t.Errorf("y has not forgotten x: %+v", r)
	}
	if r = again("y", y, 0); !r.Granted {
		b.t.Errorf("all have forgotten x: %+v", r)
	}
}

// testPotGivesBack: a new engine that all have told what they had gives back what they have not spent. Where a call was
// executed and its caller does not know, nobody can say what the caller had, and only what it has spent is certain.
func testPotGivesBack(b *bench) {
	for i, want := range []farm.Want{
		{Way: farm.Fixed, Limit: 100, Period: 24 * time.Hour},
		{Way: farm.Sliding, Limit: 100, Period: 24 * time.Hour},
	} {
		want.Rule = fmt.Sprint("rule", i)
		x, y := b.holder("x", want), b.holder("y", want)
		x.take(0, 1, 9)
		y.has(y.take(0, 1, 9), true, 10, 10, 80)
		tell := func(h *holder, used int64) farm.Reply {
			w := h.want
			w.Mark, w.Used = h.last.Mark, used
			r := b.askLive(h.run, []string{"x", "y"}, w)
			h.last = r.Grants[0]
			return r
		}
		lost := func(again bool) {
			b.Restart()
			tell(x, 4)
			if again { // what x had is known to the next one as well
				b.Restart()
				tell(x, 4)
			}
			if x.last.Total != 4 {
				b.t.Fatalf("x has %d while the engine waits", x.last.Total)
			}
		}
		lost(false)
		y.has(tell(y, 2), true, 2, 10, 88)
		x.has(tell(x, 4), true, 4, 2, 94)
		x.take(4, 1, 5)
		lost(true)
		y.has(tell(y, 3), true, 3, 10, 87)
		x.has(tell(x, 4), true, 4, 3, 93)
		y.take(3, 1, 0)

		before := x.last
		x.take(4, 5, 0) // nobody hears the answer
		x.last = before
		y.has(y.take(4, 0, 0), true, 4, 9, 87)
		lost(false)
		y.has(tell(y, 4), true, 4, 9, 87)
		x.has(tell(x, 4), true, 4, 9, 87)
	}
}

// testPotUnknown: what a node was granted and does not know is waited for until the window is over.
func testPotUnknown(b *bench) {
	minute := farm.Want{Rule: "minute", Way: farm.Fixed, Limit: 10, Period: time.Minute, Need: 1}
	b.askLive("x", nil, minute)
	b.Restart()
	minute.Unknown = true
	if r := b.askLive("x", nil, minute); r.Granted {
		b.t.Errorf("it is open: %+v", r)
	}
	minute.Unknown = false
	if r := b.askLive("y", []string{"x", "y"}, minute); r.Granted {
		b.t.Errorf("it is open for another node: %+v", r)
	}
	b.pass(time.Minute)
	if r := b.askLive("y", []string{"x", "y"}, minute); !r.Granted {
		b.t.Errorf("it is closed in the next window: %+v", r)
	}
}

func testPotPromoted(b *bench) {
	for name, w := range map[string]farm.Want{
		"fixed":   {Way: farm.Fixed, Limit: 10, Period: 24 * time.Hour},
		"sliding": {Way: farm.Sliding, Limit: 10, Period: 24 * time.Hour},
		"steady":  {Way: farm.Steady, Limit: 10, Burst: 10, Period: 24 * time.Hour},
		"level":   {Way: farm.Level, Limit: 10},
	} {
		w.Rule = name
		b.t.Run(name, func(t *testing.T) {
			x, y := b.holder("x", w), b.holder("y", w)
			if !x.take(0, 2, 0).Granted {
				t.Fatal("no two of ten")
			}
			promote := b.Save()
			if !y.take(0, 3, 0).Granted || !x.take(2, 1, 0).Granted {
				t.Fatal("no four of eight")
			}
			promote()
			w.Mark, w.Used, w.Need = y.last.Mark, 3, 5
			if r := b.askLive("y", []string{"x", "y"}, w); r.Granted || !slices.Equal(r.Waiting, []string{"x"}) {
				t.Fatalf("it does not wait for x: %+v", r)
			}
			if r := x.take(3, 5, 0); r.Granted {
				t.Error("too much is granted: six are spent")
			}
			if r := x.take(3, 4, 0); !r.Granted {
				t.Errorf("four are left: %+v", r)
			}
		})
	}
}

func testPotClock(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Fixed, Limit: 10, Period: time.Second}
	x, y := b.holder("x", w), b.holder("y", w)
	x.has(x.take(0, 4, 0), true, 4, 0, 6)
	b.pass(-500 * ms) // not into the last second
	y.has(y.take(0, 6, 0), true, 6, 4, 0)
	b.Restart()
	r := y.take(6, 0, 0) // nor where only the node knows
	y.has(r, true, 6, 4, 0)
	b.good(r, time.Second)
	b.pass(-time.Hour) // but nobody is shut out for an hour
	x.has(x.take(4, 3, 0), true, 3, 0, 7)

	// A second that had begun before the engine did, and begins once more by its clock, is not its own.
	w.Rule = "s"
	y = b.holder("y", w)
	b.pass(500 * ms)
	y.take(0, 4, 0)
	b.Restart()
	b.pass(-300 * ms)
	live := []string{"x", "y", "z"}
	b.askLive("z", live, w)
	b.pass(300 * ms)
	w.Mark, w.Used, w.Need = y.last.Mark, 4, 1
	if r := b.askLive("y", live, w); r.Granted || !slices.Equal(r.Waiting, []string{"x"}) {
		b.t.Errorf("it does not wait for x: %+v", r)
	}
}

func testPotApart(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Fixed, Limit: 3, Period: time.Second, Need: 3}
	for _, other := range []farm.Ask{
		{Key: "1", Wants: []farm.Want{w}},
		{Key: "2", Wants: []farm.Want{w}},
		{Key: "1", Wants: []farm.Want{{Rule: "s", Limit: 3, Period: time.Second, Need: 3}}},
		{Key: "1", Wants: []farm.Want{{Rule: "r", Limit: 3, Period: time.Minute, Need: 3}}},
		{Key: "1", Wants: []farm.Want{{Rule: "r", Way: farm.Sliding, Limit: 3, Period: time.Second, Need: 3}}},
	} {
		b.seq++
		other.Run, other.Seq = "x", b.seq
		if r, err := b.Pot.Take(b.t.Context(), other); err != nil || !r.Granted {
			b.t.Errorf("%+v: %+v, %v", other, r, err)
		}
	}
}

func testPotLimits(b *bench) {
	for name, w := range map[string]farm.Want{
		"fixed":   {Way: farm.Fixed, Limit: 10, Period: time.Minute},
		"sliding": {Way: farm.Sliding, Limit: 10, Period: time.Minute},
		"steady":  {Way: farm.Steady, Limit: 10, Burst: 10, Period: time.Minute},
		"level":   {Way: farm.Level, Limit: 10},
	} {
		w.Rule = name
		x, y := b.holder("x", w), b.holder("y", w)
		if !x.take(0, 8, 0).Granted {
			b.t.Fatalf("%s: no eight of ten", name)
		}
		y.want.Limit, y.want.Burst = 20, 20
		if r := y.take(0, 12, 0); !r.Granted || r.Grants[0].Left != 0 {
			b.t.Errorf("%s: no twelve of twenty: %+v", name, r)
		}
		x.want.Limit, x.want.Burst = 5, 5
		if r := x.take(8, 1, 0); r.Granted || r.Grants[0].Total != 8 {
			b.t.Errorf("%s: one of five: %+v", name, r)
		}
		x.want.Limit = 0
		if r := x.take(8, 1, 0); r.Granted || r.Wait != farm.Never {
			b.t.Errorf("%s: one of none: %+v", name, r)
		}
	}
}

func testPotForgets(b *bench) {
	for _, w := range []farm.Want{
		{Rule: "fixed", Way: farm.Fixed, Limit: 10, Period: time.Hour},
		{Rule: "sliding", Way: farm.Sliding, Limit: 10, Period: time.Hour},
		{Rule: "steady", Way: farm.Steady, Limit: 10, Burst: 10, Period: time.Hour},
	} {
		x, y := b.holder("x", w), b.holder("y", w)
		x.take(0, 6, 0)
		y.take(0, 4, 0)
		if r := x.take(6, 1, 0); r.Granted {
			b.t.Fatalf("%s: one too many", w.Rule)
		}
		x.want.Forget = true
		if r := x.take(6, 3, 0); !r.Granted || r.Grants[0].Total != 3 || r.Grants[0].Left != 7 {
			b.t.Fatalf("%s: %+v", w.Rule, r)
		}
		x.want.Forget = false
		if r := y.take(4, 5, 0); !r.Granted || r.Grants[0].Left != 2 { // what it had told counts no more
			b.t.Fatalf("%s: %+v", w.Rule, r)
		}
	}
	_, err := b.Pot.Take(b.t.Context(), farm.Ask{Key: "k", Run: "x", Seq: 1,
		Wants: []farm.Want{{Rule: "level", Way: farm.Level, Limit: 1, Forget: true}}})
	if !errors.Is(err, farm.ErrAsk) {
		b.t.Fatalf("a level forgets: %v", err)
	}
}

func testPotDrop(b *bench) {
	w := farm.Want{Rule: "r", Way: farm.Fixed, Limit: 10, Period: time.Second}
	drop := func(run string, seq uint64, want bool) {
		b.t.Helper()
		r, err := b.Pot.Take(b.t.Context(), farm.Ask{Key: "key", Run: run, Seq: seq, Drop: true})
		if err != nil || r.Granted != want || len(r.Grants) != 0 {
			b.t.Fatalf("%+v, %v; want %v", r, err, want)
		}
	}
	drop("x", 1, true) // nobody knows it
	x := b.holder("x", w)
	x.take(0, 4, 0)
	late := b.seq
	x.has(x.take(4, 1, 0), true, 5, 0, 5)
	drop("x", late, false) // it has been used since
	b.seq++
	drop("x+1", b.seq, true) // the same node, which has forgotten it
	z := b.holder("x+2", w)
	z.has(z.take(0, 1, 0), true, 1, 0, 9)
	y := b.holder("y", w)
	y.take(0, 1, 0)
	b.seq++
	drop("x", b.seq, false) // another node has used it
	y.has(y.take(1, 1, 0), true, 2, 1, 7)
	ask := farm.Ask{Key: "key", Run: "x", Seq: b.seq, Drop: true, Wants: []farm.Want{w}}
	if _, err := b.Pot.Take(b.t.Context(), ask); !errors.Is(err, farm.ErrAsk) {
		b.t.Error(err)
	}
}
