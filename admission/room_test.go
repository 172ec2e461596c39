package admission

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
)

// crowded returns lanes with one place, which those who paid use all the time: requests take a second each, and one of
// the general pool is held. So nobody is called until it is let in.
func crowded(t *testing.T, o Options) (r *rig, inLane *event) {
	o.Concurrent, o.MaxWait = 1, weir.Duration(MaxMaxWait)
	r = newRig(t, o)
	e := r.admit(2)
	r.now = r.now.Add(time.Second)
	r.settle(e, true)
	r.admit(2)
	r.wait(2)
	inLane = r.want(r.ask(weir.Event{Place: weir.Place{Number: r.l.Number(r.now), Called: true}}), weir.Wait, 0)
	return r, inLane
}

func (r *rig) state(number uint64, want State, ahead int) {
	r.t.Helper()
	if s := r.present(number, 1); s.State != want || s.Ahead != ahead {
		r.t.Fatalf("after %s, number %d: %s with %d ahead, want %s with %d",
			r.now.Sub(epoch), number-uint64(epoch.UnixNano()), s.State, s.Ahead, want, ahead)
	}
}

func TestLineIsInOrderOfNumbers(t *testing.T) {
	r, inLane := crowded(t, Options{})
	var n [4]uint64
	for i := range n {
		n[i] = r.l.Number(r.now)
	}
	r.state(n[2], InLine, 0)
	r.state(n[3], InLine, 1)
	r.state(n[1], InLine, 0) // it came later, but has a smaller number
	r.state(n[2], InLine, 1)
	r.state(n[0], InLine, 0)
	r.state(n[3], InLine, 3)
	if s := r.stats(); s.InLine != 4 || s.Called != 0 {
		t.Fatalf("%+v", s)
	}
	for i := range n {
		r.settle(inLane, false) // the lane is empty: somebody is called
		if s := r.stats(); s.InLine != 3-i || s.Called != 1 {
			t.Fatalf("%+v", s)
		}
		for j := range n[i+1:] {
			r.state(n[i+1+j], InLine, j)
		}
		r.state(n[i], Called, 0)
		inLane = r.want(r.ask(weir.Event{Place: weir.Place{Number: n[i], Called: true}}), weir.Wait, 0)
	}
	if s := r.stats(); s.Admitted != 4 || s.InLine+s.Called != 0 {
		t.Fatalf("%+v", s)
	}
}

// Whoever is called and does not come for two reloads loses their place to the next.
func TestCalledAndDoesNotCome(t *testing.T) {
	r, inLane := crowded(t, Options{})
	gone, next, third := r.l.Number(r.now), r.l.Number(r.now), r.l.Number(r.now)
	r.state(gone, InLine, 0)
	r.settle(inLane, false) // now it is called, and does not know
	for range 2 {
		r.state(next, InLine, 0)
		r.state(third, InLine, 1)
		r.advance(5 * time.Second)
	}
	r.state(next, InLine, 0)
	r.state(third, InLine, 1)
	r.advance(2*time.Second - 1)
	if s := r.stats(); s.NoShows != 0 || s.Called != 1 {
		t.Fatalf("%+v", s)
	}
	r.advance(1)
	if s := r.stats(); s.NoShows != 1 || s.Called != 1 || s.InLine != 1 {
		t.Fatalf("%+v", s)
	}
	r.state(next, Called, 0)
	r.state(third, Called, 0) // nobody is held, and nobody else is called
}

// Whoever does not show up loses their place, and finds it again at their number as long as the ticket is good.
func TestStaysAway(t *testing.T) {
	r, _ := crowded(t, Options{})
	away, stays := r.l.Number(r.now), r.l.Number(r.now)
	r.state(away, InLine, 0)
	r.state(stays, InLine, 1)
	r.advance(6 * time.Second)
	r.state(stays, InLine, 1)
	r.advance(6 * time.Second)
	if s := r.stats(); s.NoShows != 1 || s.InLine != 1 {
		t.Fatalf("%+v", s)
	}
	r.state(stays, InLine, 0)
	r.state(away, InLine, 0)
	r.advance(time.Hour)
	if s := r.stats(); s.NoShows != 3 || s.InLine != 0 {
		t.Fatalf("%+v", s)
	}
	if !r.due.IsZero() && r.due.Before(r.now) {
		t.Errorf("due at %s", r.due)
	}
}

func TestFreeCapacityCallsAtOnce(t *testing.T) {
	r := newRig(t, Options{Concurrent: 2})
	r.admit(0)
	r.state(r.l.Number(r.now), Called, 0)
	// With nobody to wait for, everybody who can be let in until they come again is called.
	for range 20 {
		r.state(r.l.Number(r.now), Called, 0)
	}
}

// A free place goes to whoever is there. It does not wait for somebody with a smaller number who is away.
func TestFreePlaceWaitsForNobodyAway(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	e := r.admit(2)
	r.now = r.now.Add(20 * time.Second) // so long a request takes: one is called ahead at most
	r.settle(e, true)
	under := r.admit(2)
	first, second, third := r.l.Number(r.now), r.l.Number(r.now), r.l.Number(r.now)
	r.ask(weir.Event{Place: weir.Place{Number: 1, Called: true}}) // who was called and waits: nobody else is called
	r.state(first, InLine, 0)
	r.state(second, InLine, 1)
	r.state(third, InLine, 2)
	r.settle(r.held[0], false)
	r.settle(under, false)
	r.state(third, Called, 0) // the first is away
	r.state(second, Called, 0)
}

// A ticket is worth so many requests as it covers, within two minutes, and nothing after that.
func TestCovers(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	n := r.l.Number(r.now)
	for range 3 {
		if s := r.present(n, 3); s.State != Called {
			t.Fatalf("%+v", s)
		}
	}
	if s := r.present(n, 3); s.State != Spent {
		t.Fatalf("%+v", s)
	}
	r.l.Refund(n)
	if a, b := r.present(n, 3).State, r.present(n, 3).State; a != Called || b != Spent {
		t.Fatalf("%s, then %s", a, b)
	}
	r.l.Refund(n + 1) // nobody's

	// It is remembered until no ticket with the number can be good any more, whenever it was let in.
	others := func(d time.Duration) { // come all the time, too
		for ; d > 0; d -= time.Second {
			r.now = r.now.Add(min(d, time.Second))
			r.state(r.l.Number(r.now), Called, 0)
		}
	}
	for offset := time.Duration(0); offset < 5*time.Minute; offset += 13 * time.Second {
		others(offset)
		n = r.l.Number(r.now)
		if s := r.present(n, 3); s.State != Called {
			t.Fatalf("%+v", s)
		}
		ticket := r.l.Renew(Ticket{}, r.now.Add(Stay-1)) // the last time that it may be renewed
		others(Stay - 1)
		if s := r.present(n, 3); s.State != Called {
			t.Fatalf("%+v", s)
		}
		for others(1); !r.now.After(ticket.By); others(time.Second) {
			if s := r.present(n, 3); s.State != Spent {
				t.Fatalf("%s after it was let in: %+v", r.now.Sub(ticket.By), s)
			}
		}
	}
}

// However many come at once, a ticket is worth what it covers.
func TestTicketCannotBeMultiplied(t *testing.T) {
	for _, covers := range []int{1, 7} {
		r := newRig(t, Options{Concurrent: 1})
		n := r.l.Number(r.now)
		var called, spent atomic.Int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for range 50 {
					switch s := r.l.Present(n, address(1), covers, epoch); s.State {
					case Called:
						called.Add(1)
					case Spent:
						spent.Add(1)
					default:
						t.Errorf("%+v", s)
					}
				}
			})
		}
		wg.Wait()
		if called.Load() != int64(covers) || spent.Load() != int64(500-covers) {
			t.Errorf("called %d times, spent %d times: it covers %d", called.Load(), spent.Load(), covers)
		}
	}
}

func TestLineIsBounded(t *testing.T) {
	r, inLane := crowded(t, Options{Line: 3})
	for i := range 3 {
		r.state(r.l.Number(r.now), InLine, i)
	}
	late := r.l.Number(r.now)
	r.state(late, Full, 0)
	if s := r.stats(); s.LineFull != 1 || s.InLine != 3 {
		t.Fatalf("%+v", s)
	}
	r.settle(inLane, false)
	r.state(late, Full, 0) // who is called and has not come counts, too
	r.advance(12 * time.Second)
	r.state(late, Called, 0) // the number was kept
}

// TestOneClientDoesNotFillTheLine: one address leaves a tenth of the line to others, and all may be in it.
func TestOneClientDoesNotFillTheLine(t *testing.T) {
	r, _ := crowded(t, Options{Line: 20})
	show := func(number uint64, client int, want State) {
		t.Helper()
		if s := r.l.Present(number, address(client), 1, r.now); s.State != want {
			t.Fatalf("client %d: %s, want %s", client, s.State, want)
		}
	}
	var greedy []uint64
	for range 18 {
		greedy = append(greedy, r.l.Number(r.now))
		show(greedy[len(greedy)-1], 10, InLine)
	}
	late := r.l.Number(r.now)
	show(late, 10, Full)
	show(r.l.Number(r.now), 11, InLine)
	show(r.l.Number(r.now), 12, InLine)
	show(late, 13, Full)
	show(greedy[17], 10, InLine) // who is in line stays
	if s := r.stats(); s.LineFull != 2 || s.InLine != 20 {
		t.Errorf("%+v", s)
	}
}

func TestMemoryOfThoseLetInIsBounded(t *testing.T) {
	r := newRig(t, Options{Concurrent: 1})
	r.l.room.most = 3
	for range 3 {
		r.state(r.l.Number(r.now), Called, 0)
	}
	late := r.l.Number(r.now)
	r.state(late, Full, 0)
	if s := r.stats(); s.LineFull != 1 || s.Admitted != 3 || s.Called+s.InLine != 1 {
		t.Fatalf("%+v", s)
	}
	for range 30 { // it keeps coming, until there is room again
		r.now = r.now.Add(5 * time.Second)
		if s := r.present(late, 1); s.State == Called {
			return
		}
	}
	t.Error("never let in")
}

// Numbers that nobody comes back with cost nothing, and hold nobody up.
func TestNumbersNeverUsed(t *testing.T) {
	r, inLane := crowded(t, Options{})
	tickets := NewTickets(nil)
	for range 100_000 {
		r.l.Number(r.now)
	}
	for range 1000 {
		if tickets.Sign(r.l.Issue("somebody", r.now)) == "" {
			t.Fatal("no ticket")
		}
	}
	if got := testing.AllocsPerRun(100, func() { r.l.Issue("somebody", r.now) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if s := r.stats(); s.InLine+s.Called != 0 || len(r.l.room.entries) != 0 {
		t.Fatalf("%+v", s)
	}
	n := r.l.Number(r.now)
	r.state(n, InLine, 0)
	r.settle(inLane, false)
	r.state(n, Called, 0)
}

// Whoever hoards tickets has to keep coming with all of them, and is let in line with no more than a client may be.
func TestHoarding(t *testing.T) {
	r, inLane := crowded(t, Options{PerClient: 4})
	tickets := NewTickets([]byte("key"))
	var hoard []string
	for range 1000 {
		hoard = append(hoard, tickets.Sign(r.l.Issue("hoarder", r.now)))
	}
	person := r.l.Issue("person", r.now)
	states := map[State]int{}
	for _, text := range hoard {
		k, err := tickets.Parse(text, "hoarder", r.now)
		must(t, err)
		states[r.l.Present(k.Number, address(1), 50, r.now).State]++
	}
	if states[InLine] != 4 || states[TooMany] != 996 {
		t.Fatalf("%v", states)
	}
	r.state(person.Number, InLine, 4)
	r.advance(11 * time.Second)
	r.state(person.Number, InLine, 4)
	r.advance(2 * time.Second)
	for _, text := range hoard { // nobody came with them
		if _, err := tickets.Parse(text, "hoarder", r.now); err != ErrTicketLapsed {
			t.Fatal(err)
		}
	}
	r.state(person.Number, InLine, 0)
	r.settle(inLane, false)
	r.state(person.Number, Called, 0)
}

// A longer reload gives more time; a shorter one takes nobody's place who was told of a longer one.
func TestReloadChanges(t *testing.T) {
	r, _ := crowded(t, Options{Reload: weir.Duration(30 * time.Second), Strict: true})
	n := r.l.Number(r.now)
	r.state(n, InLine, 0)
	o := r.l.o
	o.Reload = weir.Duration(time.Second)
	must(t, r.l.Configure(o, r.now))
	must(t, r.l.Configure(o, r.now))
	r.advance(40 * time.Second)
	if s := r.stats(); s.InLine != 1 {
		t.Fatalf("%+v", s)
	}
	if s := r.present(n, 1); s.State != InLine || s.Reload != time.Second {
		t.Fatalf("%+v", s)
	}
	r.advance(30 * time.Second)
	if s := r.stats(); s.InLine != 0 || s.NoShows != 1 {
		t.Fatalf("%+v", s)
	}
}

// The estimate is what those saw who were let in.
func TestEstimateIsHonest(t *testing.T) {
	s := newSim(t, Options{Concurrent: 10, Line: 1000})
	w := s.waitingRoom(300, 1, 1)
	s.run(2 * time.Minute)
	if len(w.in) != 300 {
		t.Fatalf("%d of 300 were let in", len(w.in))
	}
	if w.unknown > 300*3 || len(w.told) < 300 {
		t.Errorf("%d were told something, %d nothing", len(w.told), w.unknown)
	}
	good := 0
	for _, said := range w.told {
		was := w.in[said.number].Sub(said.at)
		if d := (was - said.estimate).Abs(); d < 5*time.Second+was/2 {
			good++
		}
	}
	if good < len(w.told)*9/10 {
		t.Errorf("%d of %d estimates were about right", good, len(w.told))
	}
}

// A crowd is people without JavaScript in the waiting room.
type crowd struct {
	in      map[uint64]time.Time // by number, when each was let in
	told    []told
	unknown int
	first   time.Time // when the first was called
}

type told struct {
	number   uint64
	at       time.Time
	estimate time.Duration
}

// waitingRoom plays so many people who come within five seconds and then reload, while those who pay fill the upstream:
// requests take 100 ms. Each needs so many requests once let in.
func (s *sim) waitingRoom(people, requests, covers int) *crowd {
	w := &crowd{in: map[uint64]time.Time{}}
	takes := always(100 * time.Millisecond)
	s.loop(50, 1<<16, takes, 0)
	for i := range people {
		s.after(time.Second+time.Duration(s.rng.Int64N(int64(5*time.Second))), func() {
			number := s.l.Number(s.now)
			var come func()
			come = func() {
				st := s.l.Present(number, address(i), covers, s.now)
				if st.State != Called {
					if st.Known {
						w.told = append(w.told, told{number, s.now, st.Estimate})
					} else {
						w.unknown++
					}
					// A browser is not exact.
					s.after(st.Reload+time.Duration(s.rng.Int64N(int64(500*time.Millisecond))), come)
					return
				}
				if w.first.IsZero() {
					w.first = s.now
				}
				ev := weir.Event{Source: address(i), Place: weir.Place{Number: number, Called: true}}
				left := requests
				var next func(*event)
				next = func(e *event) {
					if e.answer.Verdict == weir.Refuse {
						s.t.Errorf("number %d: %s", number, e.answer.Explain())
						return
					}
					if _, in := w.in[number]; !in {
						w.in[number] = s.now
					}
					if left--; left > 0 {
						s.l.Present(number, address(i), covers, s.now)
						s.request(ev, takes, next)
					}
				}
				s.request(ev, takes, next)
			}
			s.after(5*time.Second, come)
		})
	}
	return w
}

// 100 people without JavaScript, and those who pay fill everything: the pool has its share, everybody gets in, in
// order.
func TestWaitingRoom(t *testing.T) {
	const people = 100
	for _, c := range []struct {
		requests, covers int
		want             float64 // requests a second, of 100
	}{
		{1, 1, 8}, {5, 5, 8}, {10, 50, 8}, {40, 50, 8},
		{1, 50, 5}, // at first more is kept for each than they need
	} {
		requests := c.requests
		t.Run(fmt.Sprint(requests, " of ", c.covers), func(t *testing.T) {
			s := newSim(t, Options{Concurrent: 10})
			w := s.waitingRoom(people, requests, c.covers)
			for range 1200 {
				if s.run(time.Second); len(w.in) == people {
					break
				}
			}
			if len(w.in) != people {
				t.Fatalf("%d of %d were let in: %+v", len(w.in), people, s.stats())
			}
			var last time.Time
			for _, at := range w.in {
				last = later(last, at)
			}
			rate := float64(people*requests) / last.Sub(w.first).Seconds()
			t.Logf("all in after %s, %.1f requests a second of 100", last.Sub(epoch), rate)
			if rate < c.want {
				t.Errorf("%.1f requests a second, want %.0f", rate, c.want)
			}
			if paid := float64(s.served[stamped]) / float64(s.now.Sub(epoch)*10); paid < 0.85 {
				t.Errorf("those who paid got %.3f", paid)
			}
			// People are away between reloads, so one may come after another who was called at the same time.
			const apart = 5*time.Second + 500*time.Millisecond + time.Second
			for a, at := range w.in {
				for b, bt := range w.in {
					if d := at.Sub(bt); a < b && d > apart {
						t.Errorf("number %d was let in %s after number %d", a, d, b)
					}
				}
			}
			if got := s.stats(); got.NoShows != 0 || got.Pool.Expired != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}
