package admission

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"weir"
	"weir/farm"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

// A farmRig is a simulated farm of real lanes in front of one upstream.
type farmRig struct {
	*farmtest.Sim
	t     testing.TB
	o     Options
	nodes []*farmNode
	takes time.Duration // how long a request takes at the upstream
	// slower says how long one takes that begins now, if that is not always the same.
	slower func() time.Duration
	came   int // requests so far
	used   int // at the upstream, from all nodes
	peak   int
	area   float64 // used, times seconds
	since  time.Time
}

// A farmNode is a node of it.
type farmNode struct {
	*farmtest.SimNode
	rig    *farmRig
	l      *Lanes
	shared *Shared
	held   []*call
	served int
	used   int
}

// A call is a request on its way.
type call struct {
	hold weir.Hold
	turn *weir.Turn
	run  *Lanes
	done func(served bool)
}

// quick is what nodes beside each other have; lossy is worse than any of them.
var (
	quick = farmtest.Network{DelayMin: 200 * time.Microsecond, DelayMax: 2 * time.Millisecond}
	lossy = farmtest.Network{DelayMin: time.Millisecond, DelayMax: 20 * time.Millisecond, Loss: 0.05, Repeat: 0.05}
)

const farmTopic = "room"

// newFarmRig starts nodes that know how many they are.
func newFarmRig(t testing.TB, seed uint64, n int, network farmtest.Network, o Options) *farmRig {
	t.Helper()
	needs.Unwatched(t) // all nodes run in one goroutine
	r := &farmRig{Sim: farmtest.NewSim(seed, network), t: t, o: o, takes: 100 * time.Millisecond}
	for i := range n {
		r.nodes = append(r.nodes, r.add(string(rune('a'+i)), n))
	}
	for _, n := range r.nodes {
		r.start(n)
	}
	r.Run(2 * time.Second)
	r.Every(time.Millisecond, func() bool {
		for _, n := range r.nodes {
			n.collect()
		}
		return true
	})
	r.clear()
	return r
}

// sharedAt is a Shared that is told the farm's time.
type sharedAt struct{ n *farmNode }

func (s sharedAt) Hear(from farm.Node, msg []byte, _ time.Time) error {
	return s.n.shared.Hear(from, msg, s.n.FarmTime())
}

func (s sharedAt) Snapshot(_ time.Time, give func([]byte) bool) {
	s.n.shared.Snapshot(s.n.FarmTime(), give)
}

func (r *farmRig) add(name string, expected int) *farmNode {
	n := &farmNode{SimNode: r.Node(name), rig: r}
	n.Options = func(j *farm.Joining) { j.Expected = expected }
	n.Started = func(*farmtest.SimNode) {
		var err error
		if n.l, err = New(r.o, n.FarmTime()); err != nil {
			r.t.Fatal(err)
		}
		run := n.l
		f := n.Farm()
		n.shared = n.l.Join(Joining{Self: f.Self(), Send: func(msg []byte) error { return f.Send(farmTopic, msg) },
			Skip: func() { f.Skip(farmTopic) }}, n.FarmTime())
		if _, err = f.Keep(farmTopic, sharedAt{n}); err != nil {
			r.t.Fatal(err)
		}
		n.Drive(n.l)
		f.Watch(func(farm.Member) { // it is called under a lock
			r.After(0, func() {
				if n.l != run || !n.Running() {
					return
				}
				var up []farm.Node
				for _, m := range f.Members(n.Clock()) {
					if m.State == farm.Up {
						up = append(up, m.Node)
					}
				}
				of, rank := f.Share()
				n.shared.Nodes(up, of, rank, n.FarmTime())
			})
		})
	}
	return n
}

func (r *farmRig) start(n *farmNode) {
	r.t.Helper()
	if err := n.Start(); err != nil {
		r.t.Fatal(err)
	}
}

// kill ends a node, and with it what it had at the upstream.
func (r *farmRig) kill(n *farmNode) {
	n.Kill()
	r.count(-n.used)
	held := n.held
	n.used, n.held = 0, nil
	for _, c := range held {
		c.done(false)
	}
}

// restart ends a node with a goodbye and starts it anew.
func (r *farmRig) restart(n *farmNode, away time.Duration) {
	r.t.Helper()
	_ = n.Farm().Leave(context.Background()) // it cannot fail: nobody waits
	r.kill(n)
	r.Run(away)
	r.start(n)
}

// count notes that more or fewer are at the upstream.
func (r *farmRig) count(n int) {
	r.area += float64(r.used) * r.Now().Sub(r.since).Seconds()
	r.since = r.Now()
	r.used += n
	r.peak = max(r.peak, r.used)
}

// clear begins to measure.
func (r *farmRig) clear() {
	r.peak, r.area, r.since = r.used, 0, r.Now()
	for _, n := range r.nodes {
		n.served = 0
	}
}

// mean is how many were at the upstream on average, over a time since clear.
func (r *farmRig) mean(d time.Duration) float64 {
	r.count(0)
	return r.area / d.Seconds()
}

// ask sends a request of another client to a node.
func (n *farmNode) ask() { n.send(weir.Event{Source: address(n.rig.came)}, nil) }

// send sends a request. done is told whether it was served.
func (n *farmNode) send(ev weir.Event, done func(served bool)) {
	r := n.rig
	r.came++
	if done == nil {
		done = func(bool) {}
	}
	if !n.Running() {
		done(false)
		return
	}
	ev.Time = n.FarmTime()
	var a weir.Answer
	_ = n.l.Judge(context.Background(), &ev, &a) // it never fails
	c := &call{hold: a.Hold, run: n.l, done: done}
	a.Clear()
	n.l.Enter(&c.hold, ev.Time, &a)
	switch a.Verdict {
	case weir.Admit:
		n.serve(c)
	case weir.Wait:
		c.turn = a.Turn
		n.held = append(n.held, c)
	default:
		n.l.TurnedAway(&ev, ev.Time)
		done(false)
	}
}

// serve is what happens at the upstream.
func (n *farmNode) serve(c *call) {
	n.rig.count(1)
	n.used++
	takes := n.rig.takes
	if n.rig.slower != nil {
		takes = n.rig.slower()
	}
	n.rig.After(takes, func() {
		if n.l != c.run || n.Farm() == nil {
			c.done(false)
			return
		}
		n.used--
		n.rig.count(-1)
		n.served++
		n.l.Settle(c.hold, weir.Outcome{Time: n.FarmTime(), Done: true})
		n.collect()
		c.done(true)
	})
}

// collect takes those whose turn has come.
func (n *farmNode) collect() {
	n.held = slices.DeleteFunc(n.held, func(c *call) bool {
		select {
		case <-c.turn.Called():
		default:
			return false
		}
		if c.turn.Refused() != weir.NoReason {
			n.l.Settle(c.hold, weir.Outcome{Time: n.FarmTime()})
			c.done(false)
		} else {
			n.serve(c)
		}
		return true
	})
}

// offer sends so many requests a second to a node, at times of chance, for as long as the simulation runs.
func (r *farmRig) offer(n *farmNode, rate float64) {
	if rate > 0 {
		r.After(time.Duration(r.Rand.ExpFloat64()/rate*float64(time.Second)), func() {
			if n.Running() {
				n.ask()
			}
			r.offer(n, rate)
		})
	}
}

// part is how many places the node may have.
func (n *farmNode) part() int {
	n.l.mu.Lock()
	defer n.l.mu.Unlock()
	return n.l.farm.part
}

func (r *farmRig) String() (s string) {
	for _, n := range r.nodes {
		if n.l == nil || n.Farm() == nil {
			s += fmt.Sprintf("%s is down; ", n.Name)
			continue
		}
		n.l.mu.Lock()
		f := n.l.farm
		s += fmt.Sprintf("%s: part %d used %d held %d told %.1f hears %d of %d, served %d; ", n.Name, f.part,
			n.l.used(), n.l.waiting(), f.told.wants, len(f.up), f.of, n.served)
		n.l.mu.Unlock()
	}
	return s
}
