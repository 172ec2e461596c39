package quota

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// In one period, of many requests that come at once to all nodes, or most of them to one, exactly the limit go on.
func TestExactNeverOver(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		first  int // of 100 requests, so many come to the first node
	}{
		"fixed, evenly":        {Policy{Limit: Count(1000), Period: hour}, 16},
		"fixed, mostly to one": {Policy{Limit: Count(1000), Period: hour}, 95},
		"fixed, single asks":   {Policy{Limit: Count(1000), Period: hour, Ahead: Count(0)}, 16},
		"sliding":              {Policy{Limit: Count(1000), Period: hour, Window: Sliding}, 16},
		"month":                {Policy{Limit: Count(1000), Period: weir.Period{Calendar: weir.Month}}, 16},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newLendingFarm(t, 6, exactly(c.policy))
				defer f.close()
				var granted atomic.Int64
				var all sync.WaitGroup
				for range 6000 {
					n := f.nodes[0]
					if f.random(100) >= c.first {
						n = f.nodes[1+f.random(5)]
					}
					at := time.Duration(f.random(int(200 * time.Millisecond)))
					all.Go(func() {
						time.Sleep(at)
						if n.Allow(time.Now(), "alice") {
							granted.Add(1)
						}
					})
				}
				all.Wait()
				if got := granted.Load(); got < 990 || got > 1000 {
					t.Errorf("%d went on, of 1000", got)
				}
				time.Sleep(2 * time.Second) // what was taken ahead has gone back
				for f.nodes[3].Allow(time.Now(), "alice") {
					granted.Add(1)
				}
				if got := granted.Load(); got != 1000 {
					t.Errorf("%d went on in the end, of 1000", got)
				}
				calls := uint64(0)
				for _, n := range f.nodes {
					calls += n.lender.Stats().Calls
				}
				t.Logf("%d calls", calls)
			})
		})
	}
}

// Whatever happens to calls, engine and nodes, no window sees more than its limit.
func TestExactWithFaults(t *testing.T) {
	for name, p := range map[string]Policy{
		"fixed":       {Limit: Count(200), Period: weir.Period{Length: time.Second}},
		"fixed, slow": {Limit: Count(1000), Period: weir.Period{Length: 20 * time.Second}},
		"sliding":     {Limit: Count(200), Period: weir.Period{Length: time.Second}, Window: Sliding},
		"gcra":        {Limit: Count(200), Period: weir.Period{Length: time.Second}, Window: GCRA, Burst: Count(50)},
		"gcra, one":   {Limit: Count(20), Period: weir.Period{Length: time.Second}, Window: GCRA, Burst: Count(1)},
		"delay":       {Limit: Count(200), Period: weir.Period{Length: time.Second}, Over: OverDelay},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count := 3
			if needs.Long() {
				count = 1000
			}
			for seed := range count {
				if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { playExact(t, p, uint64(seed)) })
				}) {
					return
				}
			}
		})
	}
}

// playExact has clients ask all nodes for a while, and everything go wrong meanwhile.
func playExact(t *testing.T, p Policy, seed uint64) {
	o := exactly(p)
	f := newLendingFarm(t, 4, o)
	f.seed(seed)
	defer f.close()
	var mu sync.Mutex
	var grants []time.Time
	f.fail.Store(4)
	end := time.Now().Add(10 * time.Second)
	var clients sync.WaitGroup
	for range 12 {
		clients.Go(func() {
			for time.Now().Before(end) {
				time.Sleep(time.Duration(f.random(int(20 * time.Millisecond))))
				f.mu.Lock()
				n := f.nodes[f.r.IntN(len(f.nodes))]
				f.mu.Unlock()
				a, answered := n.judge(&weir.Event{Time: time.Now(), Account: "alice"})
				if !answered {
					continue
				}
				if a.Verdict == weir.Wait {
					select {
					case <-a.Turn.Called():
					case <-n.dead:
						continue
					}
					if a.Turn.Refused() == weir.NoReason {
						a.Verdict = weir.Admit
					}
					n.Away(a.Hold, time.Now())
				}
				if !a.Hold.IsZero() {
					n.Settle(a.Hold, weir.Outcome{Time: time.Now(), Done: a.Verdict == weir.Admit})
				}
				if a.Verdict == weir.Admit {
					mu.Lock()
					grants = append(grants, time.Now())
					mu.Unlock()
				}
			}
		})
	}
	lost := false
	for k := 0; time.Now().Before(end.Add(-time.Second)); k++ {
		time.Sleep(time.Duration(f.random(int(time.Second))))
		switch f.random(4) {
		case 0:
			f.stall.Store(true)
			time.Sleep(time.Duration(f.random(int(300 * time.Millisecond))))
			f.stall.Store(false)
		case 1:
			lost = true
			f.pot.Restart()
		case 2:
			lost = true
			promote := f.pot.Save()
			time.Sleep(time.Duration(f.random(int(100 * time.Millisecond))))
			promote()
		case 3:
			if lost { // what only a dead node knows nobody can tell
				continue
			}
			f.mu.Lock()
			i := f.r.IntN(len(f.nodes))
			old := f.nodes[i]
			f.mu.Unlock()
			f.end(old, true)
			f.forget(old.name)
			f.join(fmt.Sprintf("%s.%d", old.name, k), o)
		}
	}
	clients.Wait()
	slices.SortFunc(grants, time.Time.Compare)
	checkGrants(t, p, grants)
}

// checkGrants holds what went on against a limit.
func checkGrants(t *testing.T, p Policy, grants []time.Time) {
	if len(grants) == 0 {
		t.Fatal("nothing went on")
	}
	length := p.Period.Length
	switch p.Window {
	case GCRA:
		one := float64(length) / float64(p.Limit.N)
		owed, last := 0.0, grants[0]
		for _, at := range grants {
			owed = max(0, owed-float64(at.Sub(last))) + one
			if last = at; owed > float64(p.Burst.N)*one+float64(3*time.Millisecond) {
				t.Fatalf("at %v %.2f are owed, of %d", at, owed/one, p.Burst.N)
			}
		}
	case Sliding:
		for i := int(p.Limit.N); i < len(grants); i++ {
			if d := grants[i].Sub(grants[i-int(p.Limit.N)]); d < length {
				t.Fatalf("%d within %v, the last at %v", p.Limit.N+1, d, grants[i])
			}
		}
	default:
		periods := map[int64]int64{}
		for _, at := range grants {
			n := at.UnixNano() / int64(length)
			if periods[n]++; periods[n] > p.Limit.N {
				t.Fatalf("more than %d in a period, at %v", p.Limit.N, at)
			}
		}
	}
}
