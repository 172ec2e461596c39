package quota

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

// Whatever happens, no window ever admits more than its limit, nobody is forgotten in line, those of one account and
// policy go in order, and when everything is over nothing is held.
func TestAnySequence(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(1, 6).Draw(rt, "limit")
		p := perSecond(limit)
		p.Window = rapid.SampledFrom([]WindowKind{Fixed, Sliding, GCRA}).Draw(rt, "window")
		if p.Window == GCRA {
			p.Burst = Count(rapid.Int64Range(1, limit).Draw(rt, "burst"))
		}
		if rapid.Bool().Draw(rt, "delay") {
			p = delayed(p, rapid.IntRange(1, 8).Draw(rt, "max"), 3*time.Second)
		}
		o := one(p)
		if rapid.Bool().Draw(rt, "places") {
			o = one(p, delayed(Policy{Name: "at-once", Kind: Concurrent, Limit: Count(3)}, 5, 2*time.Second))
		}
		r := newRig(t, o)
		started := map[string][]time.Time{} // when events of an account went on
		called := map[string][]int{}        // in which order those who waited did
		owner := map[int]string{}
		var under []*event
		all := map[int]*event{}

		note := func(calls map[time.Duration][]int) {
			for at, events := range calls {
				for _, n := range events {
					started[owner[n]] = append(started[owner[n]], epoch.Add(at))
					under = append(under, all[n])
				}
			}
			for _, n := range inOrder(calls) {
				called[owner[n]] = append(called[owner[n]], n)
			}
		}
		// A rig keeps turns that were called by Judge or Settle until it is asked.
		collect := func() {
			if c := r.called(); c != nil {
				note(map[time.Duration][]int{r.now.Sub(epoch): c})
			}
		}
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0, 1:
				account := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "account")
				e := r.ask(account)
				owner[e.n], all[e.n] = account, e
				if e.answer.Verdict == weir.Admit {
					started[account] = append(started[account], r.now)
					under = append(under, e)
				}
			case 2:
				note(r.advance(time.Duration(rapid.IntRange(0, 700).Draw(rt, "ms")) * time.Millisecond))
			case 3:
				if len(under) > 0 {
					i := rapid.IntRange(0, len(under)-1).Draw(rt, "who")
					r.settle(under[i], true)
					under = slices.Delete(under, i, i+1)
				}
			case 4:
				if len(r.line) > 0 {
					r.settle(r.line[rapid.IntRange(0, len(r.line)-1).Draw(rt, "leaves")], false)
				}
			}
			collect()
		}
		// Everybody in line is called or called off in the end, once those under way are done.
		for i := 0; len(r.line) > 0; i++ {
			if i > 100 {
				rt.Fatalf("%d are forgotten in line", len(r.line))
			}
			for _, e := range under {
				r.settle(e, true)
			}
			under = nil
			collect()
			note(r.advance(time.Second))
		}
		for _, e := range under {
			r.settle(e, true)
		}
		for account, times := range started {
			slices.SortFunc(times, time.Time.Compare)
			for i, first := range times {
				n := int64(0)
				for _, at := range times[i:] {
					inWindow := at.Sub(first) < time.Second
					if p.Window == Fixed {
						inWindow = at.Truncate(time.Second).Equal(first.Truncate(time.Second))
					}
					if inWindow {
						n++
					}
				}
				most := limit
				if p.Window == GCRA {
					most += p.Burst.N
				}
				if len(o.Policies) == 1 && n > most {
					rt.Fatalf("%s: %d went on in the period from %s, the limit is %d", account, n, first.Sub(epoch),
						limit)
				}
			}
			if len(o.Policies) == 1 && !slices.IsSorted(called[account]) {
				rt.Fatalf("%s: out of order: %v", account, called[account])
			}
			s, _ := r.q.Account(account, r.now)
			if s.Waiting != 0 || (len(o.Policies) > 1 && s.Rules[1].Remaining != 3) {
				rt.Fatalf("%s: something is still held: %+v", account, s)
			}
			a := r.q.table.known(r.q.rules.Load(), account)
			for _, rule := range r.q.rules.Load().list {
				if st := a.state(rule); st.waiting != 0 || st.ahead != 0 || a.pins != 0 || a.queue().due != never {
					rt.Fatalf("%s: %+v, pins %d, due %d", account, st, a.pins, a.queue().due)
				}
			}
			a.shard.mu.Unlock()
		}
	})
}

// A sliding window may remember for a sixteenth of the period too long, never for too short a time.
func TestSlidingIsExactToASixteenth(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(rt, "limit")
		p := perSecond(int64(limit))
		p.Window = Sliding
		r := newRig(t, one(p))
		var admitted []time.Time
		within := func(d time.Duration) (n int) {
			for _, at := range admitted {
				if r.now.Sub(at) < d {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 200).Draw(rt, "events") {
			r.now = r.now.Add(time.Duration(rapid.IntRange(0, 300).Draw(rt, "ms")) * time.Millisecond)
			switch e := r.ask("a"); e.answer.Verdict {
			case weir.Admit:
				admitted = append(admitted, r.now)
				if n := within(time.Second); n > limit {
					rt.Fatalf("%d in a second, the limit is %d", n, limit)
				}
			default:
				if n := within(time.Second + time.Second/16); n < limit {
					rt.Fatalf("refused with %d of %d used", n, limit)
				}
				if !e.answer.Until.After(r.now) {
					rt.Fatalf("refused until %s, now is %s", e.answer.Until, r.now)
				}
			}
		}
	})
}

// Many goroutines at once: the race detector looks on, and the limit holds.
func TestConcurrentUse(t *testing.T) {
	places := delayed(Policy{Name: "at-once", Kind: Concurrent, Limit: Count(1)}, 50, time.Minute)
	volume := Policy{Name: "traffic", Kind: Volume, Limit: Bytes(1 << 30), Period: weir.Period{Length: time.Second}}
	o := one(delayed(perSecond(1000), 50, time.Minute), places, volume)
	o.MaxAccounts = 4
	q, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var (
		now   atomic.Int64
		under [8]atomic.Int64
		wg    sync.WaitGroup
		done  = make(chan struct{})
	)
	now.Store(epoch.UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()) }
	go func() { // the clock
		defer close(done)
		for range 5_000 {
			q.Advance(time.Unix(0, now.Add(1e6)))
			q.Stats()
		}
	}()
	for i := range 8 {
		wg.Go(func() {
			account := fmt.Sprint(i % 4)
			for {
				select {
				case <-done:
					return
				default:
				}
				var a weir.Answer
				ev := weir.Event{Account: account, Time: clock()}
				_ = q.Judge(context.Background(), &ev, &a)
				if a.Verdict == weir.Refuse {
					continue
				}
				h := a.Hold
				for a.Verdict == weir.Wait || h.Enter {
					if a.Verdict == weir.Wait {
						select {
						case <-a.Turn.Called():
						case <-done:
							q.Settle(h, weir.Outcome{Time: clock()})
							return
						}
						if a.Turn.Refused() != weir.NoReason {
							a.Verdict = weir.Refuse
							break
						}
					}
					a.Clear()
					if h.Enter {
						q.Enter(&h, clock(), &a)
					}
				}
				if a.Verdict != weir.Admit {
					q.Settle(h, weir.Outcome{Time: clock()})
					continue
				}
				if n := under[i%4].Add(1); n > 1 {
					t.Errorf("%d at once", n)
				}
				q.Flow(h, 10, clock())
				under[i%4].Add(-1)
				q.Settle(h, weir.Outcome{Time: clock(), Done: true})
			}
		})
	}
	for i := range 20 {
		o.Policies[0].Limit = Count(1000 + int64(i))
		if err := q.Configure(o, clock()); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

// A reload that changes a steady rate keeps how many were used: it neither gives a burst anew nor takes one away.
func TestAnotherRateKeepsWhatWasUsed(t *testing.T) {
	for _, c := range []struct{ before, after, used, left int64 }{{100, 1, 100, 0}, {100, 1, 40, 60},
		{1, 100, 40, 60}} {
		p := perSecond(c.before)
		p.Window, p.Burst = GCRA, Count(100)
		r := newRig(t, one(p))
		for range c.used {
			r.admit("a")
		}
		p.Limit = Count(c.after)
		if err := r.q.Configure(one(p), r.now); err != nil {
			t.Fatal(err)
		}
		if s, _ := r.q.Account("a", r.now); s.Rules[0].Remaining != c.left {
			t.Errorf("%d/s to %d/s with %d used: %d left, want %d", c.before, c.after, c.used, s.Rules[0].Remaining,
				c.left)
		}
	}
}

// A goroutine that was held up, and brings an older time, does not pay off a steady debt.
func TestLateAtASteadyRate(t *testing.T) {
	p := perSecond(4)
	p.Window, p.Burst = GCRA, Count(1)
	r := newRig(t, one(p))
	r.admit("a")
	for range 3 {
		r.now = r.now.Add(-250 * time.Millisecond)
		r.refuse("a", weir.OverLimit)
		r.now = r.now.Add(250 * time.Millisecond)
		r.refuse("a", weir.OverLimit)
	}
}

// TestGrant: what is granted quickly is granted as everything else is, whatever came before.
func TestGrant(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := perSecond(rapid.Int64Range(0, 5).Draw(rt, "limit"))
		p.Window = rapid.SampledFrom([]WindowKind{Fixed, Sliding, GCRA}).Draw(rt, "window")
		switch rapid.IntRange(0, 2).Draw(rt, "over") {
		case 0:
			p = delayed(p, 2, 3*time.Second)
		case 1:
			p.Over = OverStamp
		}
		if rapid.Bool().Draw(rt, "long") {
			p.Period = weir.Period{Length: 2 * time.Hour}
		}
		o := one(p)
		o.MaxAccounts = 3
		o.Members = map[string]string{"member": "gold"}
		o.Plans = map[string]map[string]Override{"gold": {p.Name: {Limit: Count(7)}}}
		o.Overrides = map[string]map[string]Override{"free": {p.Name: {Exempt: true}}}
		quick, whole := newRig(t, o).q, newRig(t, o).q
		whole.table.seed, whole.table.sources.seed = quick.table.seed, quick.table.sources.seed
		if quick.rules.Load().only == nil {
			rt.Fatal("nothing is quick")
		}
		whole.rules.Load().only = nil

		now := epoch
		var open [][2]weir.Hold
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(-1, 500).Draw(rt, "ms")) * time.Millisecond)
			if n := len(open); n > 0 && rapid.IntRange(0, 2).Draw(rt, "step") == 0 {
				i := rapid.IntRange(0, n-1).Draw(rt, "which")
				out := weir.Outcome{Time: now, Done: rapid.Bool().Draw(rt, "done"),
					Status: rapid.SampledFrom([]int{0, 200, 401}).Draw(rt, "status")}
				quick.Settle(open[i][0], out)
				whole.Settle(open[i][1], out)
				open = slices.Delete(open, i, i+1)
				continue
			}
			ev := weir.Event{Time: now,
				Account: rapid.SampledFrom([]string{"a", "b", "c", "d", "member", "free"}).Draw(rt, "account"),
				Plan:    rapid.SampledFrom([]string{"", "", "gold"}).Draw(rt, "plan"),
				Cost:    rapid.Int64Range(0, 4).Draw(rt, "cost")}
			var got, want weir.Answer
			_ = quick.Judge(context.Background(), &ev, &got)
			_ = whole.Judge(context.Background(), &ev, &want)
			if !got.Hold.IsZero() {
				open = append(open, [2]weir.Hold{got.Hold, want.Hold})
			}
			for _, a := range []*weir.Answer{&got, &want} { // what is another one for each
				if a.Turn != nil {
					a.Turn = new(weir.Turn)
				}
				if a.Hold.Ref != nil {
					a.Hold.Ref = fmt.Sprintf("%T", a.Hold.Ref)
				}
			}
			if !reflect.DeepEqual(got, want) {
				rt.Fatalf("%+v:\nquick %+v\nwhole %+v", ev, got, want)
			}
		}
	})
}
