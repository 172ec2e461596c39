package quota

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/farm"
)

// A new engine waits for a node that is away, also where all others have been restarted meanwhile, but not for ever.
// Others that it does not wait for, as they had told it everything, hold up nobody.
func TestExactWaitsForThoseAway(t *testing.T) {
	year := exactly(Policy{Limit: Count(100), Period: weir.Period{Calendar: weir.Year}})
	for name, c := range map[string]struct {
		kill   bool
		before func(f *lendingFarm) // the engine is lost
		after  func(f *lendingFarm)
		waits  time.Duration // at least; 0 where nobody waits
	}{
		"killed":  {kill: true, waits: awayFor},
		"stopped": {waits: awayFor},
		"killed, the others restarted": {kill: true, waits: awayFor, after: func(f *lendingFarm) {
			for _, n := range f.all() {
				f.end(n, false)
				f.start(n.name, year, n.disk)
			}
		}},
		"forgotten": {kill: true, after: func(f *lendingFarm) { f.forget("n2") }},
		"told all": {before: func(f *lendingFarm) {
			f.pot.Restart()
			time.Sleep(5 * time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(30 * time.Hour)
				f := newLendingFarm(t, 3, year)
				defer f.close()
				time.Sleep(3 * time.Second)
				if !f.nodes[2].Allow(time.Now(), "alice") {
					t.Fatal("the first is refused")
				}
				if c.before != nil {
					c.before(f)
				}
				f.end(f.nodes[2], c.kill)
				died := time.Now()
				if c.before == nil {
					f.pot.Restart()
				}
				if c.after != nil {
					c.after(f)
				}
				ask := func() (a weir.Answer) {
					n := f.all()[0]
					_ = n.Judge(t.Context(), &weir.Event{Time: time.Now(), Account: "bob"}, &a)
					return a
				}
				time.Sleep(5 * time.Second) // until all have told what they know
				for c.waits > 0 && time.Since(died) < c.waits-10*time.Second {
					if a := ask(); a.Verdict != weir.Refuse || a.Reason != weir.Overload {
						t.Fatalf("%v after it ended: %v, %v", time.Since(died), a.Verdict, a.Reason)
					}
					if w := f.all()[0].lender.Stats().Waiting; !slices.Equal(w, []string{"n2"}) {
						t.Fatalf("%v after it ended they wait for %q", time.Since(died), w)
					}
					time.Sleep(time.Minute)
				}
				if c.waits > 0 {
					time.Sleep(c.waits + 10*time.Second - time.Since(died))
				}
				if a := ask(); a.Verdict != weir.Admit {
					t.Errorf("%v after it ended: %v, %v", time.Since(died), a.Verdict, a.Reason)
				}
			})
		})
	}
}

// A node that is restarted again before it was granted anything goes on with calls that the engine has not seen.
func TestExactIsHeardAfterRestarts(t *testing.T) {
	year := exactly(Policy{Limit: Count(100), Period: weir.Period{Calendar: weir.Year}})
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * time.Hour)
		f := newLendingFarm(t, 2, year)
		defer f.close()
		time.Sleep(3 * time.Second)
		if !f.nodes[0].Allow(time.Now(), "alice") {
			t.Fatal("the first is refused")
		}
		f.end(f.nodes[1], true)
		f.pot.Restart() // it waits for the one that is gone
		for _, asks := range []int{100, 1} {
			n := f.all()[0]
			f.end(n, true)
			n = f.start(n.name, year, n.disk)
			for range asks {
				if n.Allow(time.Now(), "alice") {
					t.Fatal("it does not wait")
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		f.forget("n1")
		time.Sleep(wholeWithin)
		if !f.all()[0].Allow(time.Now(), "alice") {
			t.Error("the engine does not hear it")
		}
	})
}

// While a new engine waits, a policy does what it does on loss of the engine.
func TestExactOnLossWhileAnEngineWaits(t *testing.T) {
	for loss, want := range map[OnLoss]int{LossClosed: 0, LossShare: 20, LossOpen: 60} {
		t.Run(string(loss), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(30 * time.Hour)
				f := newLendingFarm(t, 3, exactly(Policy{Limit: Count(60), Period: weir.Period{Calendar: weir.Year},
					OnLoss: loss}))
				defer f.close()
				for rank, n := range f.nodes {
					n.Divide(placed(3, rank, 7))
				}
				time.Sleep(3 * time.Second)
				f.end(f.nodes[2], true)
				f.pot.Restart()
				time.Sleep(5 * time.Second)
				got := 0
				for range 200 {
					if f.nodes[0].Allow(time.Now(), "alice") {
						got++
					}
					time.Sleep(10 * time.Millisecond)
				}
				if got != want {
					t.Errorf("%d were granted, want %d", got, want)
				}
			})
		})
	}
}

// What a node has ahead comes back, also where calls get no answer, or are under way when it ends.
func TestExactComesBack(t *testing.T) {
	silent := func(f *lendingFarm) {
		f.fail.Store(100)
		time.AfterFunc(300*time.Millisecond, func() { f.fail.Store(0) })
	}
	slow := func(f *lendingFarm) {
		f.lag.Store(int64(200 * time.Millisecond))
		time.AfterFunc(time.Second, func() { f.lag.Store(int64(time.Millisecond)) })
	}
	const limit = 1000
	o := exactly(Policy{Limit: Count(limit), Period: weir.Period{Calendar: weir.Year}})
	for name, c := range map[string]struct {
		meanwhile func(f *lendingFarm)
		ends      bool
	}{
		"calls get no answer":                    {silent, false},
		"calls get no answer, and the node ends": {silent, true},
		"a call is under way when the node ends": {slow, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newLendingFarm(t, 2, o)
				defer f.close()
				for round := range uint64(20) {
					f.seed(round)
					account := fmt.Sprint("alice", round)
					other, one := f.all()[0], f.all()[1]
					granted := 0
					for range 300 {
						if one.Allow(time.Now(), account) {
							granted++
						}
						time.Sleep(time.Duration(f.random(int(2 * time.Millisecond))))
					}
					c.meanwhile(f)
					for range 5 {
						if one.Allow(time.Now(), account) {
							granted++
						}
					}
					if c.ends {
						f.end(one, false)
						f.start(one.name, o, one.disk)
					}
					time.Sleep(2 * time.Second)
					for other.Allow(time.Now(), account) {
						granted++
					}
					if granted != limit {
						t.Errorf("round %d: %d of %d", round, granted, limit)
					}
				}
			})
		})
	}
}

// No more nodes are waited for than a farm has: those that are away longest make room, and are no longer on the disk.
func TestRollIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 1, exactly(Policy{Limit: Count(10), Period: hour}))
		defer f.close()
		l, disk := f.nodes[0].lender, f.nodes[0].disk
		synctest.Wait() // it has asked the engine who it is
		at := func(i int) string { return fmt.Sprintf("old%02d", i) }
		up := []string{"n0"}
		l.Farm = func() []string { return up }
		for i := range farm.MaxNodes - 1 { // all there may be with this one
			up = []string{"n0", at(i)}
			l.everybody(l.Since())
			time.Sleep(time.Millisecond)
		}
		up = []string{"n0"}
		if got := l.everybody(l.Since()); len(got) != farm.MaxNodes {
			t.Fatalf("%d nodes", len(got))
		}
		up = []string{"n0", "new"}
		got := l.everybody(l.Since())
		if len(got) != farm.MaxNodes || slices.Contains(got, at(0)) || !slices.Contains(got, at(1)) ||
			!slices.Contains(got, "new") {
			t.Errorf("%d nodes: %q", len(got), got)
		}
		for range 3 {
			l.everybody(l.Since())
			synctest.Wait()
		}
		f.end(f.nodes[0], false)
		got = f.start("n0", exactly(Policy{Limit: Count(10), Period: hour}), disk).lender.everybody(0)
		if len(got) != farm.MaxNodes || slices.Contains(got, at(0)) || !slices.Contains(got, "new") {
			t.Errorf("after a restart %d nodes: %q", len(got), got)
		}
	})
}
