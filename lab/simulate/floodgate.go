package simulate

import (
	"context"
	"strconv"
	"time"

	"weir"
	"weir/admission"
	"weir/identify"
	"weir/throttle/stamp"
)

// A floodGate is weir in front of the service: its lanes, its waiting room and its stamps, asked in the order in which
// its HTTP gate asks them.
type floodGate struct {
	*play
	lanes  *admission.Lanes
	taker  *stamp.Throttle
	due    time.Time   // when the lanes have something to do; zero for never
	held   [2][]*visit // in the general pool, and in the stamped lane
	peak   stamp.Work
	stamps int // how many were made
}

func newFloodGate(o FloodOptions) (*floodGate, error) {
	lanes, err := admission.New(o.Lanes, floodStart)
	if err != nil {
		return nil, err
	}
	o.Stamps.NeverAsk = identify.ExemptOptions{} // nobody here is exempt, and addresses are made up
	taker, err := stamp.NewThrottle(o.Stamps, floodStart, nil)
	if err != nil {
		return nil, err
	}
	g := &floodGate{play: newPlay(o), lanes: lanes, taker: taker}
	g.defence = g
	lanes.Alarm(func(due time.Time) {
		if g.due.IsZero() || due.Before(g.due) {
			g.due = due
		}
	})
	return g, nil
}

func (g *floodGate) time() time.Time { return floodStart.Add(g.now) }

func (g *floodGate) load() weir.Load {
	share, delay := g.lanes.Load(g.time())
	return weir.Load{Of: "gate", Share: share, Delay: delay}
}

func (g *floodGate) early(next time.Duration) bool {
	if g.due.IsZero() || g.due.Sub(floodStart) > next {
		return false
	}
	g.now = max(g.now, g.due.Sub(floodStart))
	g.due = time.Time{}
	if next := g.lanes.Advance(g.time()); !next.IsZero() && (g.due.IsZero() || next.Before(g.due)) {
		g.due = next
	}
	g.call()
	return true
}

// arrive judges a request: first whether it must pay, then which place it gets.
func (g *floodGate) arrive(v *visit) {
	ev := weir.Event{Time: g.time(), Source: v.source, Load: g.load(), Place: weir.Place{Number: v.ticket},
		Purse: g.purse(v)}
	if with := v.brings(g.now); with != nil {
		ev.Client = with.id
	}
	v.purse, v.called = ev.Purse, false
	ev.Pool = &floodPool{g, v, &ev}
	var a weir.Answer
	_ = g.taker.Judge(context.Background(), &ev, &a) // nothing here makes it fail
	switch a.Verdict {
	case weir.Challenge:
		if ev.Place.Number == 0 {
			g.lanes.TurnedAway(&ev, g.time())
		}
		g.lanes.Asked(uint64(a.Limit))
		g.asked(v, stamp.Work(a.Limit), g.o.Lanes.Reload.Std())
	case weir.Refuse:
		g.lanes.TurnedAway(&ev, g.time())
		g.refuse(v)
	default:
		g.enter(v, &ev)
	}
}

// A floodPool takes a request that did not pay, as the HTTP gate does. People have browsers, which are not held.
type floodPool struct {
	*floodGate
	visit *visit
	event *weir.Event
}

func (p *floodPool) Take() bool {
	v, ev := p.visit, p.event
	how := admission.Taking{Covers: p.o.Stamps.Covers, AtOnce: v.crowd.people, Always: p.taker.Terms().Always}
	_, ok := p.lanes.Take(ev, how, p.time())
	v.ticket, v.called = ev.Place.Number, ev.Place.Called
	return ok
}

// brings is the stamp that a request brings, or nil.
func (v *visit) brings(now time.Duration) *bought {
	with := v.stamp
	if v.crowd.paying {
		with = v.crowd.stamp
	}
	if with == nil || with.left == 0 || now >= with.until {
		return nil
	}
	return with
}

// purse is what a request brings to pay with; nil for nothing.
func (g *floodGate) purse(v *visit) *weir.Purse {
	with := v.brings(g.now)
	if with == nil {
		return nil
	}
	return weir.NewPurse(func(context.Context, *weir.Event) (weir.Paid, func()) {
		with.left--
		return weir.Paid{Work: uint64(with.work), Uses: g.o.Stamps.Covers - with.left}, func() { with.left++ }
	})
}

// asked is what clients do that are asked for a stamp. Browsers make one. Those without scripts come again with their
// ticket. A flood that can pay makes one for later, and any other goes on with the next request.
func (g *floodGate) asked(v *visit, work stamp.Work, reload time.Duration) {
	c := v.crowd
	g.peak = max(g.peak, work)
	switch {
	case c.people && c.speed > 0:
		g.make(c, work, func(s *bought) {
			v.stamp = s
			g.comeAgain(v)
		})
	case c.people:
		if v.ticket == 0 {
			v.ticket = g.lanes.Number(g.time())
		}
		g.after(reload, func() { g.comeAgain(v) })
	default:
		if c.paying && !c.making {
			c.making = true
			g.make(c, work, func(s *bought) { c.stamp, c.making = s, false })
		}
		g.refuse(v)
	}
}

func (g *floodGate) make(c *crowd, work stamp.Work, then func(*bought)) {
	issued, counts := g.now, g.counting()
	took := secondsFor(work, g.o.Stamps.Algorithm, c.speed) * g.chance()
	g.after(time.Duration(took*float64(time.Second)), func() {
		if counts {
			c.counts.Stamps++
		}
		g.stamps++
		then(&bought{id: strconv.Itoa(g.stamps), work: work, left: g.o.Stamps.Covers,
			until: issued + g.o.Stamps.Expires.Std()})
	})
}

// enter takes a place at the service, or in a lane.
func (g *floodGate) enter(v *visit, ev *weir.Event) {
	var a weir.Answer
	_ = g.lanes.Judge(context.Background(), ev, &a) // it never fails
	v.hold = a.Hold
	a.Clear()
	g.lanes.Enter(&v.hold, ev.Time, &a)
	switch a.Verdict {
	case weir.Admit:
		g.serve(v)
	case weir.Wait:
		v.turn = a.Turn
		of := g.laneOf(v)
		g.held[of] = append(g.held[of], v)
	default:
		g.back(v)
	}
}

func (g *floodGate) laneOf(v *visit) int {
	if v.purse.Paid().First() {
		return 1
	}
	return 0
}

// back sends a client away that the lanes did not let in, and gives back what it paid.
func (g *floodGate) back(v *visit) {
	g.settle(v, false)
	v.purse.Refund()
	if v.called {
		g.lanes.Refund(v.ticket)
	}
	g.lanes.TurnedAway(&weir.Event{Time: g.time(), Source: v.source}, g.time())
	g.refuse(v)
}

func (g *floodGate) settle(v *visit, done bool) {
	if !v.hold.IsZero() {
		g.lanes.Settle(v.hold, weir.Outcome{Time: g.time(), Done: done})
		v.hold, v.turn = weir.Hold{}, nil
	}
}

// call lets clients go on whose turn has come, and sends those away whose turn will not come.
func (g *floodGate) call() {
	s := g.lanes.Stats(g.time())
	for of, waiting := range [2]int{s.Pool.Waiting, s.Stamped.Waiting} {
		for i := 0; len(g.held[of]) > waiting && i < len(g.held[of]); {
			v := g.held[of][i]
			select {
			case <-v.turn.Called():
			default:
				i++
				continue
			}
			g.release(of, i)
			if why := v.turn.Refused(); why != weir.NoReason {
				g.back(v)
			} else {
				v.turn = nil
				g.serve(v)
			}
		}
	}
}

func (g *floodGate) release(of, i int) {
	if all := g.held[of]; i == 0 { // as it is most of the time
		all[0] = nil
		g.held[of] = all[1:]
	} else {
		g.held[of] = append(all[:i], all[i+1:]...)
	}
}

// leave takes a client out of its lane, or cancels its request.
func (g *floodGate) leave(v *visit) {
	reached := v.turn == nil
	if !reached {
		of := g.laneOf(v)
		for i, other := range g.held[of] {
			if other == v {
				g.release(of, i)
				break
			}
		}
	}
	g.settle(v, reached)
	g.call()
}

func (g *floodGate) done(v *visit) {
	g.settle(v, true)
	g.call()
}

func (g *floodGate) point(second int) FloodPoint {
	load := g.load()
	work := g.taker.Observe(load, g.time())
	g.peak = max(g.peak, work)
	s := g.lanes.Stats(g.time())
	return FloodPoint{
		Second: second, Load: float64(load.Share), Delay: load.Delay.Seconds(), Work: uint64(work),
		Phone:   secondsFor(work, g.o.Stamps.Algorithm, g.o.Phone),
		Desktop: secondsFor(work, g.o.Stamps.Algorithm, g.o.Desktop),
		Stamped: s.Stamped.Waiting, Pool: s.Pool.Waiting, InLine: s.InLine + s.Called,
	}
}

// A floodQueue is the only defence of the service without weir: a queue with a bound and a timeout.
type floodQueue struct{ *play }

func newFloodQueue(o FloodOptions) *floodQueue {
	q := &floodQueue{newPlay(o)}
	q.timeout = o.Timeout
	q.defence = q
	return q
}

func (q *floodQueue) arrive(v *visit) {
	if q.drop(); q.busy == q.o.Concurrent && len(q.backlog) >= q.o.Queue {
		q.refuse(v)
		return
	}
	q.serve(v)
}

func (q *floodQueue) leave(*visit)             {}
func (q *floodQueue) done(*visit)              {}
func (q *floodQueue) early(time.Duration) bool { return false }
