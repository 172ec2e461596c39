package admission

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/stamp"
)

var begin = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// A world is an upstream behind the real lanes and the real throttle that asks for stamps, in time that passes as
// fast as it can be computed. Whoever comes is a visitor.
type world struct {
	t       testing.TB
	lanes   *Lanes
	taker   *stamp.Throttle // nil: capacity alone
	takes   time.Duration
	places  int
	rng     *rand.Rand
	now     time.Time
	due     time.Time
	agenda  agenda
	seq     int
	waiting []*visitor
	broken  func(world *world) // looks after every step whether all is well
}

// A visitor is one request of somebody.
type visitor struct {
	source  netip.Addr
	account string
	id      string        // that weir gave it
	page    bool          // a browser's navigation
	ticket  uint64        // that it brings
	keeps   bool          // it brings the ticket that it was given when it comes again
	stamp   *bought       // that it brings
	takes   time.Duration // at the upstream; 0 for what everybody takes
	stuck   bool          // it never ends by itself, and makes no progress
	tries   int           // how often it comes again; endless below 0
	pause   time.Duration // before that
	patient time.Duration // it leaves after so long; 0 for never
	pays    func(w *world, v *visitor, work stamp.Work)
	done    func(v *visitor, served bool) // may be nil

	came, since time.Time
	hold        weir.Hold
	purse       *weir.Purse
	place       weir.Place
	turn        *weir.Turn
	inside      bool
	over        bool
}

// bought is a stamp.
type bought struct {
	work   stamp.Work
	uses   int
	covers int
}

func newWorld(t testing.TB, lanes Options, stamps *stamp.Options, takes time.Duration, seed uint64) *world {
	t.Helper()
	needs.Unwatched(t)
	w := &world{t: t, takes: takes, places: lanes.Concurrent, rng: rand.New(rand.NewPCG(seed, 1)), now: begin}
	var err error
	if w.lanes, err = New(lanes, begin); err != nil {
		t.Fatal(err)
	}
	if stamps != nil {
		if w.taker, err = stamp.NewThrottle(*stamps, begin, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.lanes.Alarm(func(due time.Time) {
		if w.due.IsZero() || due.Before(w.due) {
			w.due = due
		}
	})
	w.after(time.Second, w.look)
	return w
}

// look has the price follow the load where nobody comes.
func (w *world) look() {
	w.work()
	w.after(time.Second, w.look)
}

// work is what is asked for a stamp now.
func (w *world) work() stamp.Work {
	if w.taker == nil {
		return 0
	}
	return w.taker.Observe(w.load(), w.now)
}

func (w *world) load() weir.Load {
	share, delay := w.lanes.Load(w.now)
	return weir.Load{Of: "gate", Share: share, Delay: delay}
}

// come has a visitor come, or come again.
func (w *world) come(v *visitor) {
	if v.came.IsZero() {
		v.came = w.now
	}
	v.since, v.place, v.hold, v.turn, v.inside = w.now, weir.Place{Number: v.ticket}, weir.Hold{}, nil, false
	ev := weir.Event{Time: w.now, Source: v.source, Account: v.account, Client: v.id, Load: w.load(), Place: v.place,
		Holder: v}
	v.purse = nil
	if s := v.stamp; s != nil && s.uses < s.covers {
		v.purse = weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid, func()) {
			s.uses++
			return weir.Paid{Work: uint64(s.work), Uses: s.uses}, func() { s.uses-- }
		})
	}
	ev.Purse = v.purse
	ev.Pool = taker{w, v, &ev}
	var a weir.Answer
	if w.taker != nil {
		if err := w.taker.Judge(context.Background(), &ev, &a); err != nil {
			w.t.Fatal(err)
		}
	}
	switch a.Verdict {
	case weir.Admit:
		w.enter(v, &ev)
	case weir.Challenge:
		w.challenge(v, &ev, stamp.Work(a.Limit))
	default:
		w.lanes.TurnedAway(&ev, w.now)
		w.refused(v)
	}
}

// A taker is how the gate takes a visitor into the pool.
type taker struct {
	w  *world
	v  *visitor
	ev *weir.Event
}

func (t taker) Take() bool {
	_, ok := t.w.lanes.Take(t.ev, Taking{Covers: t.w.taker.Terms().Covers, AtOnce: t.v.page,
		Always: t.w.taker.Terms().Always}, t.w.now)
	return ok
}

// Moved and Lose make the visitor a weir.Holder.
func (v *visitor) Moved() (int64, bool) { return 0, v.stuck }
func (v *visitor) Lose()                { v.stuck = false }

func (w *world) challenge(v *visitor, ev *weir.Event, work stamp.Work) {
	if ev.Place.Number == 0 {
		w.lanes.TurnedAway(ev, w.now)
		if v.keeps {
			v.ticket = w.lanes.Number(w.now)
		}
	} else {
		v.ticket = ev.Place.Number
	}
	w.lanes.Asked(uint64(work))
	if v.pays != nil {
		v.pays(w, v, work)
		return
	}
	w.refused(v)
}

func (w *world) enter(v *visitor, ev *weir.Event) {
	var a weir.Answer
	_ = w.lanes.Judge(context.Background(), ev, &a)
	v.hold, v.place = a.Hold, ev.Place
	a.Clear()
	w.lanes.Enter(&v.hold, w.now, &a)
	switch a.Verdict {
	case weir.Admit:
		w.serve(v)
	case weir.Wait:
		v.turn = a.Turn
		w.waiting = append(w.waiting, v)
		if v.patient > 0 {
			since := v.since
			w.after(v.patient, func() {
				if v.turn != nil && v.since.Equal(since) {
					w.leave(v)
				}
			})
		}
	default:
		w.sentAway(v)
	}
}

// sentAway is what becomes of a visitor that the lanes did not let in.
func (w *world) sentAway(v *visitor) {
	w.settle(v, false)
	v.purse.Refund()
	ev := weir.Event{Time: w.now, Source: v.source, Account: v.account}
	if v.place.Held { // it is asked for a stamp after all
		w.challenge(v, &ev, w.work())
		return
	}
	w.lanes.TurnedAway(&ev, w.now)
	w.refused(v)
}

func (w *world) leave(v *visitor) {
	for i, other := range w.waiting {
		if other == v {
			w.waiting = append(w.waiting[:i], w.waiting[i+1:]...)
			break
		}
	}
	v.turn = nil
	w.settle(v, false)
	v.purse.Refund()
	w.refused(v)
}

// refused has a visitor come again, if it does.
func (w *world) refused(v *visitor) {
	if v.tries == 0 {
		v.over = true
		if v.done != nil {
			v.done(v, false)
		}
		return
	}
	v.tries--
	w.after(v.pause, func() { w.come(v) })
}

func (w *world) serve(v *visitor) {
	v.inside, v.turn = true, nil
	takes := v.takes
	if takes == 0 { // a fifth more or less
		takes = time.Duration(float64(w.takes) * (0.8 + 0.4*w.rng.Float64()))
	}
	var end func()
	end = func() {
		if v.stuck { // it has its place until it is taken away
			w.after(100*time.Millisecond, end)
			return
		}
		v.inside, v.over = false, true
		w.settle(v, true)
		if v.done != nil {
			v.done(v, true)
		}
	}
	w.after(takes, end)
}

func (w *world) settle(v *visitor, done bool) {
	if !v.hold.IsZero() {
		w.lanes.Settle(v.hold, weir.Outcome{Time: w.now, Done: done})
		v.hold = weir.Hold{}
	}
}

// call lets those go on whose turn has come.
func (w *world) call() {
	for {
		if _, _, pooled, paying := w.standing(); len(w.waiting) == pooled+paying {
			return
		}
		kept := w.waiting[:0]
		var called []*visitor
		for _, v := range w.waiting {
			select {
			case <-v.turn.Called():
				called = append(called, v)
			default:
				kept = append(kept, v)
			}
		}
		w.waiting = kept
		for _, v := range called {
			if why := v.turn.Refused(); why != weir.NoReason {
				v.turn = nil
				w.sentAway(v)
			} else {
				w.serve(v)
			}
		}
	}
}

// standing is how many places there are, and how many are free; and who waits. Stats would sort clients by what they
// have, too, which takes most of the time where it is asked after every step.
func (w *world) standing() (capacity, free, pooled, paying int) {
	l := w.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	capacity = l.wholeUsual()
	return capacity, capacity - l.used(), l.inLane(pool), l.inLane(stamped)
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for {
		next := end
		if len(w.agenda) > 0 && w.agenda[0].at.Before(next) {
			next = w.agenda[0].at
		}
		if !w.due.IsZero() && !w.due.After(next) {
			if w.due.After(w.now) {
				w.now = w.due
			}
			w.due = time.Time{}
			if due := w.lanes.Advance(w.now); !due.IsZero() && (w.due.IsZero() || due.Before(w.due)) {
				w.due = due
			}
			w.step()
			continue
		}
		w.now = next
		if len(w.agenda) == 0 || w.agenda[0].at.After(end) {
			return
		}
		heap.Pop(&w.agenda).(item).do()
		w.step()
	}
}

func (w *world) step() {
	w.call()
	if w.broken != nil {
		w.broken(w)
	}
}

// after puts something on the agenda.
func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.agenda, item{w.now.Add(d), w.seq, do})
}

// every has visitors come at a steady pace, for a time. They are counted by whoever makes them.
func (w *world) every(gap, lasts time.Duration, make func(i int) *visitor) {
	stop := w.now.Add(lasts)
	i := 0
	var next func()
	next = func() {
		if !w.now.Before(stop) {
			return
		}
		w.come(make(i))
		i++
		w.after(gap, next)
	}
	next()
}

func v4(net byte, i int) netip.Addr {
	return netip.AddrFrom4([4]byte{net, byte(i >> 16), byte(i >> 8), byte(i)})
}
