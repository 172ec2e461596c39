package quota

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir"
	"weir/farm/farmtest"
)

// No more requests are under way than there are places, on all nodes together, and a dead node's come free.
func TestExactPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 4, exactly(Policy{Kind: Concurrent, Limit: Count(10)}))
		defer f.close()
		var under, most, done atomic.Int64
		var clients sync.WaitGroup
		for range 40 {
			clients.Go(func() {
				for range 50 {
					n := f.nodes[f.random(len(f.nodes))]
					var a weir.Answer
					_ = n.Judge(t.Context(), &weir.Event{Time: time.Now(), Account: "alice"}, &a)
					if a.Verdict == weir.Admit {
						n.Enter(&a.Hold, time.Now(), &a)
					}
					if a.Verdict == weir.Admit {
						most.Store(max(most.Load(), under.Add(1)))
						time.Sleep(time.Duration(f.random(int(5 * time.Millisecond))))
						under.Add(-1)
						done.Add(1)
					}
					if !a.Hold.IsZero() {
						n.Settle(a.Hold, weir.Outcome{Time: time.Now(), Done: a.Verdict == weir.Admit})
					}
					time.Sleep(time.Duration(f.random(int(5 * time.Millisecond))))
				}
			})
		}
		clients.Wait()
		if most.Load() != 10 || done.Load() < 200 {
			t.Errorf("%d at once, %d in all", most.Load(), done.Load())
		}
		take := func(n *lendingNode) (a weir.Answer) {
			_ = n.Judge(t.Context(), &weir.Event{Time: time.Now(), Account: "alice"}, &a)
			if a.Verdict == weir.Admit {
				n.Enter(&a.Hold, time.Now(), &a)
			}
			return a
		}
		time.Sleep(time.Second)
		for i := range 10 {
			if a := take(f.nodes[0]); a.Verdict != weir.Admit {
				t.Fatalf("place %d: %v", i, a.Verdict)
			}
		}
		time.Sleep(10 * time.Second) // the lease is renewed
		if a := take(f.nodes[1]); a.Verdict != weir.Refuse {
			t.Errorf("one more: %v", a.Verdict)
		}
		f.nodes[0].up.Store(false)
		time.Sleep(3 * time.Second)
		if a := take(f.nodes[1]); a.Verdict != weir.Admit {
			t.Errorf("the node is dead: %v", a.Verdict)
		}
	})
}

// An operator's reset holds for the whole farm.
func TestExactReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 3, exactly(Policy{Limit: Count(10), Period: weir.Period{Calendar: weir.Year}}))
		defer f.close()
		all := func() (n int) {
			for _, node := range []int{0, 1} {
				for f.nodes[node].Allow(time.Now(), "alice") {
					n++
				}
			}
			return n
		}
		if n := all(); n != 10 {
			t.Fatalf("%d went on", n)
		}
		if !f.nodes[2].Reset("alice", time.Now()) { // which has never seen her
			t.Fatal("nothing was reset")
		}
		time.Sleep(2 * time.Second)
		if n := all(); n != 10 {
			t.Errorf("%d went on after the reset", n)
		}
	})
}

// What a node has on loan it does not spend after it wrote down, at its end, what it has spent.
func TestExactSpendsNothingAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute)
		f := newLendingFarm(t, 1, exactly(Policy{Limit: Count(1000), Period: hour}))
		defer f.close()
		n := f.nodes[0]
		for range 20 { // it takes more ahead each time
			if !n.Allow(time.Now(), "alice") {
				t.Fatal("it grants nothing")
			}
		}
		time.Sleep(10 * time.Millisecond) // it has what it asked for, and keeps that for 50 ms
		n.lender.closed.Store(true)
		n.lender.lower(t.Context())
		if n.Allow(time.Now(), "alice") {
			t.Error("it grants what is not on its disk")
		}
		n.lender.closed.Store(false)
	})
}

// While the engine cannot be asked, each policy does what it says, and the engine is told afterwards.
func TestExactOnLoss(t *testing.T) {
	for _, c := range []struct {
		onLoss OnLoss
		policy Policy
		during int // of three nodes together
	}{
		{LossClosed, Policy{Limit: Count(30), Period: hour}, 0},
		{LossShare, Policy{Limit: Count(30), Period: hour}, 30 - 6},
		{LossOpen, Policy{Limit: Count(30), Period: hour}, 3*30 - 6},
	} {
		t.Run(fmt.Sprint(c.onLoss, c.policy.Window), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Minute) // the engine is older than the period: it starts at midnight
				c.policy.OnLoss = c.onLoss
				f := newLendingFarm(t, 3, exactly(c.policy))
				defer f.close()
				for i, n := range f.nodes {
					n.Divide(placed(3, i, 7))
				}
				each := func(most int) (n int) {
					for _, node := range f.nodes {
						for range most {
							if node.Allow(time.Now(), "alice") {
								n++
							}
						}
					}
					return n
				}
				if n := each(2); n != 6 {
					t.Fatalf("%d went on", n)
				}
				time.Sleep(200 * time.Millisecond) // what was taken ahead has gone back
				f.stall.Store(true)
				for _, n := range f.nodes {
					n.lender.Lost(true, time.Now())
				}
				if n := each(40); n != c.during {
					t.Errorf("%d went on during the loss, want %d", n, c.during)
				}
				f.stall.Store(false)
				for _, n := range f.nodes {
					n.lender.Lost(false, time.Now())
				}
				time.Sleep(time.Second) // the engine has been told
				if n, want := each(30), max(0, 24-c.during); n != want {
					t.Errorf("%d went on afterwards, want %d", n, want)
				}
			})
		})
	}
}

// While the engine or other nodes cannot be asked, a client is told to come back in seconds, and nothing of a limit
// that is used up until the period ends. A policy that is used up says so all the same.
func TestALossIsToldInSeconds(t *testing.T) {
	soon := func(t *testing.T, a *weir.Answer, now time.Time) {
		t.Helper()
		in := a.Until.Sub(now)
		if a.Verdict != weir.Refuse || a.Reason != weir.Overload || in < time.Second || in > 3*time.Second {
			t.Errorf("%v, %v in %v", a.Verdict, a.Reason, in)
		}
		if a.Rule != "limit" || !a.Reset.IsZero() || slices.ContainsFunc(a.Figures, func(f weir.Figure) bool {
			return f.Rule == "limit"
		}) {
			t.Errorf("it is told that %+v are left, by %+v", a.Figures, a.Figure)
		}
	}
	year := weir.Period{Calendar: weir.Year}
	for name, p := range map[string]Policy{
		"fixed":      {Limit: Count(10), Period: year},
		"sliding":    {Limit: Count(10), Period: hour, Window: Sliding},
		"gcra":       {Limit: Count(10), Period: hour, Window: GCRA},
		"concurrent": {Limit: Count(10), Kind: Concurrent},
		"delay":      {Limit: Count(10), Period: year, Over: OverDelay},
		"stamp":      {Limit: Count(10), Period: year, Over: OverStamp},
	} {
		p.Name, p.OnLoss = "limit", LossClosed
		other := Policy{Name: "other", Limit: Count(5), Period: year, Farm: FarmLocal}
		t.Run("exact, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := exactly(p)
				o.Policies = append(o.Policies, other)
				f := newLendingFarm(t, 1, o)
				defer f.close()
				n := f.nodes[0]
				f.stall.Store(true)
				spread := map[time.Time]bool{}
				for i := range 20 {
					var a weir.Answer
					_ = n.Judge(t.Context(), &weir.Event{Time: time.Now(), Account: fmt.Sprint("a", i)}, &a)
					if p.Kind == Concurrent && a.Verdict == weir.Admit {
						n.Enter(&a.Hold, time.Now(), &a)
						a.Figures = nil
						soon(t, &a, time.Now())
						n.Settle(a.Hold, weir.Outcome{Time: time.Now()})
						continue
					}
					soon(t, &a, time.Now())
					if len(a.Figures) != 1 || a.Figures[0].Remaining != 5 {
						t.Errorf("of the other policy: %+v", a.Figures)
					}
					spread[a.Until] = true
				}
				if p.Kind != Concurrent && len(spread) < 15 {
					t.Errorf("20 clients are to come back at %d times", len(spread))
				}
				f.stall.Store(false)
			})
		})
		t.Run("broadcast, "+name, func(t *testing.T) {
			p.Farm = FarmBroadcast
			q, err := New(Options{Policies: []Policy{p}})
			if err != nil {
				t.Fatal(err)
			}
			q.Share("a", 1, func([]byte) error { return nil })
			q.Divide(placed(3, 0, 1))
			var a weir.Answer
			now := epoch
			_ = q.Judge(t.Context(), &weir.Event{Time: now, Account: "alice"}, &a)
			if p.Kind == Concurrent && a.Verdict == weir.Admit {
				q.Enter(&a.Hold, now, &a)
				a.Figures = nil
			}
			soon(t, &a, now)
			q.Divide(placed(3, 0, 7))
			a.Clear()
			if _ = q.Judge(t.Context(), &weir.Event{Time: now, Account: "alice"}, &a); a.Verdict != weir.Admit {
				t.Errorf("all are up: %v", a.Verdict)
			}
		})
	}
}

// Who is refused is told what is left, also where it is too little for them.
func TestExactTellsWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 2, exactly(Policy{Limit: Count(10), Period: weir.Period{Calendar: weir.Year},
			Ahead: Count(0)}))
		defer f.close()
		for i := range 8 {
			if !f.nodes[i%2].Allow(time.Now(), "alice") {
				t.Fatalf("%d went on", i)
			}
		}
		var a weir.Answer
		_ = f.nodes[0].Judge(t.Context(), &weir.Event{Time: time.Now(), Account: "alice", Cost: 3}, &a)
		if a.Verdict != weir.Refuse || a.Remaining != 2 {
			t.Errorf("%v, %d are left", a.Verdict, a.Remaining)
		}
	})
}

// A clock that is set back does not make what is on loan last longer, nor does it shut a node out.
func TestExactClockSetBack(t *testing.T) {
	for _, back := range []time.Duration{15 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, time.Minute} {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playSetBack(t, back) })
		})
	}
}

// playSetBack has a node hold a block to the end of a period, as its clock says, and others use up the next one.
func playSetBack(t *testing.T, back time.Duration) {
	const length = time.Second
	p := Policy{Limit: Count(200), Period: weir.Period{Length: length}, Ahead: Count(100)}
	f := newLendingFarm(t, 3, exactly(p))
	defer f.close()
	var grants []time.Time
	ask := func(n *lendingNode) bool {
		ok := n.Allow(n.now(), "alice")
		if ok {
			grants = append(grants, time.Now())
		}
		return ok
	}
	begin := func() { time.Sleep(length - time.Duration(time.Now().UnixNano())%length) }
	begin()
	time.Sleep(length * 3 / 4)
	first := f.nodes[0]
	for range 100 { // it takes more and more ahead
		ask(first)
		time.Sleep(time.Millisecond)
	}
	first.shift.Add(-int64(back))
	for range 3 { // what it has does not lie idle, and lasts
		ask(first)
		time.Sleep(40 * time.Millisecond)
	}
	begin()
	for ask(f.nodes[1]) || ask(f.nodes[2]) || ask(first) { // the new period, and what is left of the old block
	}
	begin()
	if !ask(first) {
		t.Error("the node grants nothing any more")
	}
	slices.SortFunc(grants, time.Time.Compare)
	checkGrants(t, p, grants)
}

// An event is charged to all its policies or to none, and what memory refuses the engine is not asked for.
func TestExactAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Policies: []Policy{
			{Name: "wide", Limit: Count(30), Period: hour, Farm: FarmExact},
			{Name: "narrow", Limit: Count(10), Period: hour, Farm: FarmExact, Window: Sliding,
				Match: Match{Paths: []string{"/a"}}},
			{Name: "own", Limit: Count(5), Period: hour, Farm: FarmLocal, Match: Match{Paths: []string{"/b"}}},
		}}
		f := newLendingFarm(t, 3, o)
		defer f.close()
		ask := func(path string) (n int) {
			for i := range 60 {
				var a weir.Answer
				ev := weir.Event{Time: time.Now(), Account: "alice", Route: weir.Route{Path: path}}
				if _ = f.nodes[i%3].Judge(t.Context(), &ev, &a); a.Verdict == weir.Admit {
					n++
				}
			}
			return n
		}
		if n := ask("/a"); n != 10 {
			t.Errorf("%d of /a went on, of 10", n)
		}
		if n := ask("/b"); n != 15 {
			t.Errorf("%d of /b went on, of 5 on each of 3 nodes", n)
		}
		before := f.nodes[0].lender.Stats().Calls
		if n := ask("/b"); n != 0 {
			t.Errorf("%d more of /b went on", n)
		}
		if calls := f.nodes[0].lender.Stats().Calls; calls != before {
			t.Errorf("%d calls for what memory refuses", calls-before)
		}
		time.Sleep(time.Second)
		if n := ask("/c"); n != 5 {
			t.Errorf("%d of /c went on, of the 5 that were left", n)
		}
	})
}

// Those who wait on several nodes go on one by one as the limit says, each node in its turn, and nobody starves.
func TestExactLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := exactly(Policy{Limit: Count(2), Period: weir.Period{Length: time.Second}, Over: OverDelay,
			Delay: Delay{Max: 100, MaxWait: weir.Duration(time.Minute)}})
		f := newLendingFarm(t, 3, o)
		defer f.close()
		var mu sync.Mutex
		var grants []time.Time
		last := map[int]time.Time{}
		start := time.Now()
		var all sync.WaitGroup
		for i := range 15 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				n := f.nodes[i%3]
				var a weir.Answer
				_ = n.Judge(t.Context(), &weir.Event{Time: time.Now(), Account: "alice"}, &a)
				if a.Verdict == weir.Wait {
					<-a.Turn.Called()
					n.Away(a.Hold, time.Now())
				} else if a.Verdict != weir.Admit {
					t.Errorf("%d is refused: %v", i, a.Reason)
				}
				mu.Lock()
				defer mu.Unlock()
				grants = append(grants, time.Now())
				last[i%3] = time.Now()
			})
		}
		all.Wait()
		slices.SortFunc(grants, time.Time.Compare)
		checkGrants(t, o.Policies[0], grants)
		if took := grants[14].Sub(start); took > 9*time.Second {
			t.Errorf("15 at 2 a second took %v", took)
		}
		for node, at := range last {
			if at.Sub(start) < 4*time.Second {
				t.Errorf("node %d was served before all others, in %v", node, at.Sub(start))
			}
		}
	})
}

// Whoever invents accounts does not keep the engine busy for those that are known: one more than may ask at the same
// time is decided about as if the engine were lost.
func TestExactInventedAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := exactly(Policy{Limit: Count(10), Period: hour})
		o.Members, o.Plans = map[string]string{"alice": "gold"}, map[string]map[string]Override{"gold": {}}
		f := newLendingFarm(t, 1, o)
		defer f.close()
		f.lag.Store(int64(10 * time.Millisecond))
		var granted atomic.Int64
		var all sync.WaitGroup
		for i := range maxNewAsks + 1 {
			all.Go(func() {
				if f.nodes[0].Allow(time.Now(), fmt.Sprint("invented", i)) {
					granted.Add(1)
				}
			})
		}
		synctest.Wait()
		if !f.nodes[0].Allow(time.Now(), "alice") {
			t.Error("alice is refused")
		}
		all.Wait()
		if got := granted.Load(); got != maxNewAsks {
			t.Errorf("%d invented accounts went on", got)
		}
		if n := f.nodes[0].lender.Stats().Crowded; n != 1 {
			t.Errorf("%d calls were not made", n)
		}
	})
}

// A busy account asks a few times a second, however long it goes on, and hardly a request waits.
func TestExactBusyAccountAsksLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 1, exactly(Policy{Limit: Count(1_000_000_000), Period: weir.Period{Length: time.Hour}}))
		defer f.close()
		n := f.nodes[0]
		const requests, apart = 20_000, 500 * time.Microsecond
		for range requests {
			if !n.Allow(time.Now(), "alice") {
				t.Fatal("one was refused")
			}
			time.Sleep(apart)
		}
		if s := n.lender.Stats(); s.Calls > 60 || s.Waited > 20 {
			t.Errorf("%d calls in %v, and %d requests waited", s.Calls, requests*apart, s.Waited)
		}
	})
}

// A quota that has counted nothing gives the first slot to what is on loan, which is the fastest. Where accounts are
// counted, no slot is used twice: events that are under way would be given back to another rule.
func TestExactSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 1, exactly(Policy{Limit: Count(10), Period: hour}))
		defer f.close()
		q := f.nodes[0].Quota
		first := q.rules.Load().list[0]
		if first.slot != 0 || q.rules.Load().only != first {
			t.Errorf("the slot is %d", first.slot)
		}
		q.Allow(time.Now(), "alice")
		o := exactly(Policy{Name: "other", Limit: Count(10), Period: hour})
		if err := q.Configure(o, time.Now()); err != nil {
			t.Fatal(err)
		}
		if next := q.rules.Load().list[0]; next.slot == 0 {
			t.Error("another rule has the slot of the first one")
		}
	})
}

// Invented accounts, which the upstream turns away, do not fill the engine: it forgets those that the node forgets.
func TestExactInventedAccountsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const thousand = 1000
		o := exactly(Policy{Limit: Count(10), Period: hour})
		o.MaxAccounts = thousand
		f := newLendingFarm(t, 1, o)
		defer f.close()
		n := f.nodes[0]
		seen := 0 // each from another source
		ask := func(account string, status int) {
			var a weir.Answer
			source := netip.AddrFrom4([4]byte{10, byte(len(account)), byte(seen >> 8), byte(seen)})
			ev := &weir.Event{Time: time.Now(), Account: account, Source: source}
			seen++
			_ = n.Judge(t.Context(), ev, &a)
			if !a.Hold.IsZero() {
				n.Settle(a.Hold, weir.Outcome{Time: time.Now(), Done: true, Status: status})
			}
		}
		ask("alice", http.StatusOK)
		const invented = 5 * thousand
		for i := range invented {
			ask(fmt.Sprint("invented-", i), http.StatusUnauthorized)
			if i%100 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		time.Sleep(time.Second)
		synctest.Wait()
		s := n.lender.Stats()
		if got := f.pot.Keys(); got > thousand || s.Kept > 0 {
			t.Errorf("the engine has %d keys, and %d were not dropped", got, s.Kept)
		}
		for range 9 {
			if !n.Allow(time.Now(), "alice") {
				t.Fatal("alice has less than before")
			}
		}
		if n.Allow(time.Now(), "alice") {
			t.Error("alice has more than the limit")
		}
	})
}

// What no node says is an error, and counted.
func TestExactHearsNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 1, exactly(Policy{Limit: Count(10), Period: hour}))
		defer f.close()
		l := f.nodes[0].lender
		if err := l.Hear([]byte{0xff, 1, 2}, time.Now()); err == nil || l.Stats().Wrong != 1 {
			t.Errorf("%v, %d are counted", err, l.Stats().Wrong)
		}
	})
}

// An account that has used nothing is kept while something is on loan to it: if it were forgotten, nobody could give
// that back.
func TestExactRestGoesBackFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 1, exactly(Policy{Limit: Count(10), Period: hour}))
		defer f.close()
		n := f.nodes[0]
		idle := func() bool {
			rs := n.rules.Load()
			a := n.table.lookup(rs, "x", netip.Addr{})
			if a == nil {
				return true
			}
			defer a.shard.mu.Unlock()
			r := rs.list[0]
			return r.idle(a.state(r), a.terms(rs, r), nanos(time.Now()))
		}
		var a weir.Answer
		_ = n.Judge(t.Context(), &weir.Event{Time: time.Now(), Account: "x"}, &a)
		if a.Verdict != weir.Admit {
			t.Fatal(a.Explain())
		}
		n.Settle(a.Hold, weir.Outcome{Time: time.Now()})
		if idle() {
			t.Error("it can be forgotten with what it has on loan")
		}
		time.Sleep(time.Minute)
		if !idle() {
			t.Error("it cannot be forgotten, and nothing is on loan any more")
		}
	})
}

// More than so many at once stay in the engine until their periods end, and are counted.
func TestExactDiscardsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLendingFarm(t, 1, exactly(Policy{Limit: Count(10), Period: hour}))
		defer f.close()
		l := f.nodes[0].lender
		l.mu.Lock()
		l.discarding = true // somebody is slow
		l.mu.Unlock()
		for i := range maxDiscards + 1 {
			a := &account{name: fmt.Sprint("x", i), shard: &f.nodes[0].table.shards[0]}
			l.discard(a)
		}
		if s := l.Stats(); s.Kept != 1 || len(l.discards) != maxDiscards {
			t.Errorf("%d are kept, %d wait", s.Kept, len(l.discards))
		}
	})
}

// TestReloadBeforeTheEngineIsAsked: a reload may take away the policy for which an event needs the engine: right after
// the event was judged, or right before the call.
func TestReloadBeforeTheEngineIsAsked(t *testing.T) {
	t.Parallel()
	o := func(name string) Options {
		return one(Policy{Name: name, Limit: Count(1), Period: hour, Farm: FarmExact})
	}
	now := time.Now()
	for _, early := range []bool{true, false} {
		q, err := New(o("old"))
		if err != nil {
			t.Fatal(err)
		}
		reload := func() {
			if err := q.Configure(o("new"), now); err != nil {
				t.Error(err)
			}
		}
		var once sync.Once
		l := q.Lend(Lending{Pot: farmtest.NewPot(func() time.Time { return now }), Name: "plans", Run: "n",
			Now: func() time.Time { return now }, Since: func() time.Duration { return 0 },
			Farm: func() []string { return []string{"n"} }, Call: func([]byte) error { return nil },
			Nodes: func() int { // it is asked just before the call
				if !early {
					once.Do(reload)
				}
				return 1
			}})
		var a weir.Answer
		ev := &weir.Event{Time: now, Account: "ann", Cost: 1}
		acc, g := q.table.find(q.rules.Load(), ev, nanos(now), enter)
		n := q.judge(q.rules.Load(), acc, g, ev, nanos(now), false, &a)
		if n.step != toAsk {
			t.Fatalf("the engine is not to be asked: %+v", n)
		}
		if early {
			reload()
		}
		q.goOn(t.Context(), acc, g, ev, nanos(now), false, n, &a)
		if a.Verdict != weir.Admit || a.Figures[0].Rule != "new" || q.Allow(now, "ann") || !q.Allow(now, "bob") {
			t.Errorf("early %v: %+v", early, a)
		}
		l.Close()
	}
}
