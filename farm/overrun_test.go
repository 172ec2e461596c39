package farm_test

import (
	"testing"
	"time"

	"weir/farm"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

// A slow state takes time to hear.
type slow struct {
	*set
	node *farmtest.SimNode
	each time.Duration // message
}

func (s slow) Hear(from farm.Node, msg []byte, now time.Time) error {
	s.node.Busy(s.each)
	return s.set.Hear(from, msg, now)
}

// slowWorld is a farm of nodes that hear slowly, and have things of a thousand bytes of their own from the beginning.
func slowWorld(t *testing.T, nodes, things int, each time.Duration) *world {
	t.Helper()
	w := newWorld(t, 1, nodes, lan, false)
	for _, n := range w.nodes {
		n.Started = func(n *farmtest.SimNode) {
			s := &set{farm: n.Farm(), has: map[string]bool{}}
			w.sets[n] = s
			for range things {
				w.n++
				thing := thingOf(w.n, 1000)
				s.has[thing], s.own = true, append(s.own, thing)
			}
			if _, err := s.farm.Keep(topic, slow{s, n, each}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.start(t)
	return w
}

// chatter has all nodes tell something every 10 ms, for a while, and lets that pass.
func (w *world) chatter(d time.Duration, things int) {
	left := int(d / (10 * time.Millisecond))
	w.Every(10*time.Millisecond, func() bool {
		for _, n := range w.nodes {
			for range things {
				w.grow(n, 10)
			}
		}
		left--
		return left > 0
	})
	w.Run(d)
}

// rest checks that all nodes have all there is, and that nobody asks for anything any more.
func (w *world) rest(t *testing.T) {
	t.Helper()
	w.agree(t)
	asked := make([]uint64, len(w.nodes))
	for i, n := range w.nodes {
		asked[i] = n.Farm().Stats().Snapshots
		if !n.Farm().CaughtUp() {
			t.Errorf("%s has not caught up", n.Name)
		}
	}
	w.Run(5 * time.Second)
	for i, n := range w.nodes {
		if again := n.Farm().Stats().Snapshots - asked[i]; again > 0 {
			t.Errorf("%s asked for %d more snapshots while nobody told anything", n.Name, again)
		}
	}
}

// Nodes that are told more than they can hear lose messages. When that is over they make up for it and come to
// rest: the snapshots that they need do not make them lose more, and they go on talking meanwhile.
func TestOverrunFarmComesToRest(t *testing.T) {
	needs.Unwatched(t)
	w := slowWorld(t, 4, 1000, 200*time.Microsecond)
	w.Run(3 * time.Second)
	w.chatter(3*time.Second, 40) // 12,000 a second for each to hear, and it can hear 5,000
	lost := uint64(0)
	for _, n := range w.nodes {
		lost += n.Farm().Stats().Dropped
	}
	if lost == 0 {
		t.Error("nothing was lost, which this test is about")
	}
	w.chatter(20*time.Second, 1)
	w.Run(10 * time.Second)
	w.rest(t)
}

// A lasting set may keep what a lost node told.
type lasting struct {
	*set
	keeps bool
}

func (l lasting) Lasting() bool { return l.keeps }

// A node that is too busy to be heard, and then goes on, is asked for a snapshot only where something was missed.
func TestBusyNodeIsNotAsked(t *testing.T) {
	for _, c := range []struct {
		keeps bool
		told  int // while it is cut off
		asked bool
	}{{true, 0, false}, {true, 1, true}, {false, 0, true}} {
		w := newWorld(t, 1, 3, lan, false)
		for _, n := range w.nodes {
			n.Started = func(n *farmtest.SimNode) {
				s := &set{farm: n.Farm(), has: map[string]bool{}}
				w.sets[n] = s
				if _, err := s.farm.Keep(topic, lasting{s, c.keeps}); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.start(t)
		a, b := w.nodes[0], w.nodes[1]
		w.grow(b, 10)
		w.Run(3 * time.Second)
		before := a.Farm().Stats().Snapshots
		w.Cut([]*farmtest.SimNode{b}, w.nodes)
		for range c.told {
			w.grow(b, 10)
		}
		w.Run(1500 * time.Millisecond)
		if got := states(a); got != "b lost, c up" {
			t.Fatal(got)
		}
		w.Heal()
		w.Run(3 * time.Second)
		w.agree(t)
		if asked := a.Farm().Stats().Snapshots > before; asked != c.asked {
			t.Errorf("%+v: it is asked: %t", c, asked)
		}
	}
}

// A node that comes back when another is cut off hears what that one had told meanwhile as soon as it is lost: from
// then on those who hear each other grant together.
func TestWhoComesBackHearsOfTheLost(t *testing.T) {
	w := newWorld(t, 1, 3, lan, false)
	for _, n := range w.nodes {
		n.Started = func(n *farmtest.SimNode) {
			s := &set{farm: n.Farm(), has: map[string]bool{}, all: true}
			w.sets[n] = s
			if _, err := s.farm.Keep(topic, lasting{s, true}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.start(t)
	w.Run(10 * time.Second)
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	w.Cut([]*farmtest.SimNode{b}, w.nodes)
	w.Run(farm.LostAfter + 500*time.Millisecond)
	w.grow(c, 10)
	w.Run(100 * time.Millisecond)
	w.Heal()
	w.Cut([]*farmtest.SimNode{c}, w.nodes)
	w.Run(farm.LostAfter + 500*time.Millisecond)
	if got := states(b); got != "a up, c lost" {
		t.Fatal(got)
	}
	if n := len(w.sets[b].has); n != 1 || len(w.sets[a].has) != 1 {
		t.Errorf("it has heard %d of 1, and the other one %d", n, len(w.sets[a].has))
	}
}
