package admission

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
)

// Whatever happens, no more are let through than the capacity, nobody waits while a place is free, nobody is forgotten,
// and when everything is over nothing is left.
func TestAnySequence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := Options{
			Concurrent: rapid.IntRange(1, 5).Draw(rt, "concurrent"),
			Strict:     rapid.Bool().Draw(rt, "strict"),
			Waiting:    rapid.IntRange(1, 8).Draw(rt, "waiting"),
			Line:       rapid.IntRange(1, 8).Draw(rt, "line"),
			PerClient:  rapid.IntRange(1, 6).Draw(rt, "per client"),
			MaxWait:    weir.Duration(3 * time.Second),
			Reload:     weir.Duration(time.Second),
		}
		r := newRig(t, o)
		most := o.Concurrent
		var under []*event
		var numbers []uint64
		uses := map[uint64]int{}
		all := map[int]*event{}
		collect := func(granted []int) {
			for _, n := range granted {
				under = append(under, all[n])
			}
		}
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			source := address(rapid.IntRange(0, 3).Draw(rt, "source"))
			switch rapid.IntRange(0, 8).Draw(rt, "step") {
			case 0, 1, 2:
				ev := paying(rapid.SampledFrom([]uint64{0, 1, 1 << 20}).Draw(rt, "work"))
				if ev.Source = source; rapid.Bool().Draw(rt, "ticket") && len(numbers) > 0 {
					ev.Place = weir.Place{Number: rapid.SampledFrom(numbers).Draw(rt, "number"), Called: true}
				}
				e := r.ask(ev)
				all[e.n] = e
				if e.answer.Verdict == weir.Admit {
					under = append(under, e)
				}
			case 3, 4:
				if len(under) > 0 {
					i := rapid.IntRange(0, len(under)-1).Draw(rt, "who")
					r.settle(under[i], rapid.Bool().Draw(rt, "done"))
					under = slices.Delete(under, i, i+1)
				}
			case 5:
				if len(r.held) > 0 {
					r.settle(r.held[rapid.IntRange(0, len(r.held)-1).Draw(rt, "leaves")], false)
				}
			case 6:
				collect(r.advance(time.Duration(rapid.IntRange(0, 2000).Draw(rt, "ms")) * time.Millisecond))
			case 7:
				n := r.l.Number(r.now)
				if numbers = append(numbers, n); rapid.Bool().Draw(rt, "old") {
					n = rapid.SampledFrom(numbers).Draw(rt, "number")
				}
				if s := r.l.Present(n, source, 3, r.now); s.State == Called {
					uses[n]++
				}
			case 8:
				switch rapid.IntRange(0, 2).Draw(rt, "rare") {
				case 0:
					o.Concurrent = rapid.IntRange(1, 5).Draw(rt, "concurrent")
					most = max(most, o.Concurrent)
					must(t, r.l.Configure(o, r.now))
				case 1:
					r.turnedAway(r.now)
				}
			}
			collect(r.called())
			s := r.stats()
			if s.InUse != len(under) || s.InUse > most {
				rt.Fatalf("%d in use, %d under way, at most %d may be", s.InUse, len(under), most)
			}
			if s.InUse < o.Concurrent && len(r.held) > 0 {
				rt.Fatalf("%d wait while a place is free", len(r.held))
			}
			if s.Pool.Waiting+s.Stamped.Waiting != len(r.held) || s.Pool.Waiting > o.Waiting ||
				s.Stamped.Waiting > o.Waiting ||
				s.InLine+s.Called > o.Line {
				rt.Fatalf("%d wait: %+v", len(r.held), s)
			}
			if !(s.Load >= 0 && s.Load < 1e4) || s.Delay < 0 {
				rt.Fatalf("%+v", s)
			}
			waiting := len(r.l.room.entries)
			for c, n := range r.l.clients {
				if n < 1 || n > o.PerClient {
					rt.Fatalf("%d of %v", n, c)
				}
				waiting -= n
			}
			if waiting != -len(r.held) {
				rt.Fatalf("the clients have %d too few", waiting+len(r.held))
			}
		}
		for n, times := range uses {
			if times > 3 {
				rt.Fatalf("number %d was let in %d times", n, times)
			}
		}
		collect(r.advance(time.Minute)) // what nobody waits for any more is over
		for _, e := range slices.Concat(under, r.held) {
			r.settle(e, true)
		}
		r.empty()
	})
}

// Many goroutines at once: the race detector looks on, and never are more let through than may be.
func TestConcurrentUse(t *testing.T) {
	const capacity = 3
	l, err := New(Options{Concurrent: capacity, Waiting: 20}, epoch)
	must(t, err)
	var (
		now   atomic.Int64
		under atomic.Int64
		wg    sync.WaitGroup
		done  = make(chan struct{})
	)
	now.Store(epoch.UnixNano())
	clock := func() time.Time { return time.Unix(0, now.Load()) }
	l.Alarm(func(time.Time) {})
	go func() { // the clock
		defer close(done)
		for range 3_000 {
			l.Advance(time.Unix(0, now.Add(1e6)))
			l.Load(clock())
			l.Stats(clock())
		}
	}()
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				ev := paying(uint64(i % 2 * 1000))
				ev.Time, ev.Source = clock(), address(i)
				if i%4 == 0 {
					number := l.Number(clock())
					ev.Place = weir.Place{Number: number,
						Called: l.Present(number, ev.Source, 2, clock()).State == Called}
				}
				var a weir.Answer
				_ = l.Judge(context.Background(), &ev, &a)
				h := a.Hold
				a.Clear()
				l.Enter(&h, clock(), &a)
				if a.Verdict == weir.Wait {
					select {
					case <-a.Turn.Called():
						if a.Turn.Refused() == weir.NoReason {
							a.Verdict = weir.Admit
						}
					case <-done:
					}
				}
				if a.Verdict != weir.Admit {
					l.Settle(h, weir.Outcome{Time: clock()})
					l.TurnedAway(&ev, ev.Time)
					continue
				}
				if got := under.Add(1); got > capacity {
					t.Errorf("%d at once", got)
				}
				under.Add(-1)
				l.Settle(h, weir.Outcome{Time: clock(), Done: n%3 > 0})
			}
		})
	}
	for i := range 20 {
		must(t, l.Configure(Options{Concurrent: capacity, Waiting: 20 + i}, clock()))
	}
	wg.Wait()
	if s := l.Stats(clock()); s.InUse != 0 || s.Pool.Waiting+s.Stamped.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}
