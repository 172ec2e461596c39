package admission

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// A sim plays clients against lanes, in time that passes as fast as it can be computed. It is the same every time.
type sim struct {
	*rig
	rng    *rand.Rand
	events agenda
	seq    int
	under  [lanes]int           // at the upstream
	served [lanes]time.Duration // places times time
	done   [lanes]int
}

func newSim(t testing.TB, o Options) *sim {
	needs.Unwatched(t)
	return &sim{rig: newRig(t, o), rng: rand.New(rand.NewPCG(4, 2))}
}

// after puts something on the agenda.
func (s *sim) after(d time.Duration, f func()) {
	s.seq++
	heap.Push(&s.events, item{s.now.Add(d), s.seq, f})
}

// run plays what is on the agenda, for a time.
func (s *sim) run(d time.Duration) {
	end := s.now.Add(d)
	for {
		next := end
		if len(s.events) > 0 && s.events[0].at.Before(next) {
			next = s.events[0].at
		}
		if !s.due.IsZero() && !s.due.After(next) {
			s.until(later(s.now, s.due))
			s.tick()
			s.called()
			continue
		}
		s.until(next)
		if len(s.events) == 0 || s.events[0].at.After(end) || !next.Before(end) {
			return
		}
		heap.Pop(&s.events).(item).do()
	}
}

// until lets time pass.
func (s *sim) until(at time.Time) {
	for i, n := range s.under {
		s.served[i] += at.Sub(s.now) * time.Duration(n)
	}
	s.now = at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// request sends an event; where it is let in, it takes as long as takes says at that time. Then done is told how it
// went.
func (s *sim) request(ev weir.Event, takes func() time.Duration, done func(*event)) {
	e := s.ask(ev)
	in := func() {
		of := pool
		if ev.Purse.Paid().First() {
			of = stamped
		}
		s.under[of]++
		s.after(takes(), func() {
			s.under[of]--
			s.done[of]++
			s.settle(e, true)
			s.called()
			done(e)
		})
	}
	switch e.answer.Verdict {
	case weir.Admit:
		in()
	case weir.Wait:
		e.done = func(granted bool) {
			if granted {
				in()
			} else {
				done(e)
			}
		}
	default:
		done(e)
	}
}

// loop plays so many clients, each of which asks again as soon as it was answered, or a pause later.
func (s *sim) loop(n int, work uint64, takes func() time.Duration, pause time.Duration) {
	for range n {
		var again func()
		again = func() {
			s.request(paying(work), takes, func(e *event) {
				if e.answer.Verdict == weir.Refuse || pause > 0 {
					s.after(max(pause, 50*time.Millisecond), again)
				} else {
					again()
				}
			})
		}
		s.after(time.Duration(s.rng.Int64N(int64(10*time.Millisecond))), again)
	}
}

// always takes the same time, mostly a time that varies a lot (exponentially).
func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

func (s *sim) mostly(d time.Duration) func() time.Duration {
	return func() time.Duration { return max(time.Microsecond, time.Duration(s.rng.ExpFloat64()*float64(d))) }
}

// item is something that happens at a time.
type item struct {
	at  time.Time
	seq int
	do  func()
}

type agenda []item

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at.Before(a[j].at) || a[i].at.Equal(a[j].at) && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(item)) }
func (a *agenda) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// The two properties that matter when both lanes are full: the pool has its share of the time, and those who paid have
// nearly all the rest. However small the capacity is, and however slow either of them.
func TestSharesOfTime(t *testing.T) {
	const ms = time.Millisecond
	for _, capacity := range []int{1, 4, 64} {
		for _, c := range []struct {
			name          string
			pool, stamped time.Duration
			vary          bool
		}{
			{"equal", 100 * ms, 100 * ms, false},
			{"equal, varying", 100 * ms, 100 * ms, true},
			{"slow pool", 2000 * ms, 100 * ms, false},
			{"slow stamped", 50 * ms, 1000 * ms, true},
			{"very slow pool", 20_000 * ms, 1000 * ms, false},
			{"quick", ms, 2 * ms, true},
		} {
			s := newSim(t, Options{Concurrent: capacity, MaxWait: weir.Duration(MaxMaxWait)})
			takes := [lanes]func() time.Duration{always(c.pool), always(c.stamped)}
			if c.vary {
				takes = [lanes]func() time.Duration{s.mostly(c.pool), s.mostly(c.stamped)}
			}
			s.loop(2*capacity, 1<<16, takes[stamped], 0)
			s.loop(2*capacity, 0, takes[pool], 0)
			period := 150 * max(c.pool, c.stamped)
			switch { // so many more requests say as much sooner
			case capacity > 10:
				period /= 16
			case capacity > 1:
				period /= 4
			}
			s.run(max(period/5, 20*ms))
			s.served = [lanes]time.Duration{}
			s.run(period)
			whole := float64(capacity) * float64(period)
			inPool, paid := float64(s.served[pool])/whole, float64(s.served[stamped])/whole
			t.Logf("capacity %d, %s: pool %.3f, stamped %.3f", capacity, c.name, inPool, paid)
			if inPool < 0.09 || paid < 0.85 {
				t.Errorf("capacity %d, %s: pool %.3f, stamped %.3f", capacity, c.name, inPool, paid)
			}
		}
	}
}

// A flood of the pool that finds everything free takes everything; but those who pay then get it back as soon as places
// become free, and the pool keeps no more than its share.
func TestSuddenFloodOfThePool(t *testing.T) {
	s := newSim(t, Options{Concurrent: 10})
	s.loop(200, 0, always(time.Second), 0)
	s.run(5500 * time.Millisecond)
	if got := s.stats(); got.Pool.InUse != 10 {
		t.Fatalf("%+v", got)
	}
	s.loop(50, 1<<16, always(100*time.Millisecond), 0)
	s.run(time.Second)
	if got := s.stats(); got.Pool.InUse > 1 || got.Stamped.InUse < 9 {
		t.Errorf("%+v", got)
	}
	s.served = [lanes]time.Duration{}
	s.run(20 * time.Second)
	if paid := s.served[stamped]; paid < 85*2*time.Second {
		t.Errorf("those who paid got %s of 200s", paid)
	}
	if got := s.stats(); got.Pool.LetIn < 50+18 {
		t.Errorf("%+v", got)
	}
}

// With one lane only, nothing is left unused.
func TestNothingIsLeftUnused(t *testing.T) {
	for _, strict := range []bool{true, false} {
		for _, work := range []uint64{0, 1 << 16} {
			s := newSim(t, Options{Concurrent: 7, Strict: strict})
			s.loop(20, work, s.mostly(50*time.Millisecond), 0)
			s.run(30 * time.Second)
			if used := s.served[pool] + s.served[stamped]; used < 7*29*time.Second {
				t.Errorf("strict %v, work %d: %s of 210s used", strict, work, used)
			}
		}
	}
}
