package farm_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/farm"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

var _ weir.Clocked = (*farm.Farm)(nil)

const topic = "things"

// A set is a state that only grows.
type set struct {
	farm *farm.Farm
	has  map[string]bool
	own  []string
	all  bool // a snapshot says also what others told; else only what is this node's own
}

func (s *set) add(thing string) {
	s.has[thing] = true
	s.own = append(s.own, thing)
	s.farm.Send(topic, []byte(thing)) // what the bus does not take, snapshots make up for
}

func (s *set) Hear(_ farm.Node, msg []byte, _ time.Time) error {
	s.has[string(msg)] = true
	return nil
}

func (s *set) Snapshot(_ time.Time, give func([]byte) bool) {
	things := s.own
	if s.all {
		things = slices.Sorted(maps.Keys(s.has))
	}
	for _, thing := range things {
		if !give([]byte(thing)) {
			return
		}
	}
}

// A world is a simulated farm whose nodes share a set.
type world struct {
	*farmtest.Sim
	nodes []*farmtest.SimNode
	sets  map[*farmtest.SimNode]*set
	n     int
}

type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

func newWorld(t failer, seed uint64, nodes int, network farmtest.Network, all bool) *world {
	t.Helper()
	w := &world{Sim: farmtest.NewSim(seed, network), sets: map[*farmtest.SimNode]*set{}}
	for i := range nodes {
		w.add(t, string(rune('a'+i)), all)
	}
	return w
}

func (w *world) add(t failer, name string, all bool) *farmtest.SimNode {
	n := w.Node(name)
	w.nodes = append(w.nodes, n)
	n.Started = func(n *farmtest.SimNode) {
		s := &set{farm: n.Farm(), has: map[string]bool{}, all: all}
		w.sets[n] = s
		if _, err := s.farm.Keep(topic, s); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// again starts a node again.
func again(t failer, n *farmtest.SimNode) {
	t.Helper()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
}

func (w *world) start(t failer) {
	t.Helper()
	for _, n := range w.nodes {
		again(t, n)
	}
}

// grow adds a thing to the set of a node that runs.
func (w *world) grow(n *farmtest.SimNode, size int) {
	if !n.Running() {
		return
	}
	w.n++
	w.sets[n].add(thingOf(w.n, size))
}

// thingOf is a thing with a number.
func thingOf(number, size int) string { return fmt.Sprintf("%d:", number) + strings.Repeat("x", size) }

// states returns how a node sees the others, such as "b up, c lost".
func states(n *farmtest.SimNode) string {
	var list []string
	for _, m := range n.Farm().Members(n.Clock())[1:] {
		list = append(list, m.Name+" "+string(m.State))
	}
	return strings.Join(list, ", ")
}

// agree checks that all nodes see all others up and have the same set.
func (w *world) agree(t failer) {
	t.Helper()
	first := w.sets[w.nodes[0]].has
	for _, n := range w.nodes {
		for _, m := range n.Farm().Members(n.Clock())[1:] {
			if m.State != farm.Up {
				t.Errorf("%s sees %s", n.Name, states(n))
			}
		}
		if got, want := len(n.Farm().Members(n.Clock())), len(w.nodes); got != want {
			t.Errorf("%s knows %d nodes of %d", n.Name, got, want)
		}
		if has := w.sets[n].has; !maps.Equal(has, first) {
			t.Errorf("%s has %d things, %s has %d", n.Name, len(has), w.nodes[0].Name, len(first))
		}
		if s := n.Farm().Stats(); s.Malformed != 0 || s.Strangers != 0 {
			t.Errorf("%s: %+v", n.Name, s)
		}
	}
}

func networks() *rapid.Generator[farmtest.Network] {
	return rapid.Custom(func(t *rapid.T) farmtest.Network {
		n := farmtest.Network{
			DelayMin: time.Duration(rapid.IntRange(0, 2000).Draw(t, "least delay")) * time.Microsecond,
			Loss:     float64(rapid.IntRange(0, 30).Draw(t, "loss")) / 100,
			Repeat:   float64(rapid.IntRange(0, 30).Draw(t, "repeat")) / 100,
			Backlog:  rapid.IntRange(0, 50).Draw(t, "backlog"),
			Outbox:   rapid.SampledFrom([]int{0, 200_000}).Draw(t, "outbox"),
			Rate:     rapid.SampledFrom([]int{0, 5_000_000}).Draw(t, "rate"),
		}
		n.DelayMax = n.DelayMin + time.Duration(rapid.IntRange(0, 150).Draw(t, "jitter"))*time.Millisecond
		return n
	})
}

// After whatever happens, once the network is well all nodes see each other and have the same.
func TestAllAgreeAfterQuiet(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(t *rapid.T) {
		restarts := rapid.Bool().Draw(t, "restarts")
		w := newWorld(t, rapid.Uint64().Draw(t, "seed"), rapid.IntRange(2, 5).Draw(t, "nodes"), networks().Draw(t, "network"), restarts)
		for _, n := range w.nodes {
			n.Skew = time.Duration(rapid.IntRange(-3000, 3000).Draw(t, "skew")) * time.Millisecond
		}
		w.start(t)
		node := func() *farmtest.SimNode { return w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node")] }
		t.Repeat(map[string]func(*rapid.T){
			"run": func(t *rapid.T) {
				w.Run(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * time.Millisecond)
			},
			"grow": func(*rapid.T) { w.grow(node(), 1) },
			"grow much": func(t *rapid.T) {
				n := node()
				for range rapid.IntRange(1, 20).Draw(t, "things") {
					w.grow(n, 10_000)
				}
			},
			"cut": func(t *rapid.T) {
				at := rapid.IntRange(1, len(w.nodes)-1).Draw(t, "at")
				w.Cut(w.nodes[:at], w.nodes[at:])
			},
			"cut one way": func(*rapid.T) { w.CutOneWay(node(), node()) },
			"heal":        func(*rapid.T) { w.Heal() },
			"stop":        func(*rapid.T) { node().Stop() },
			"wake": func(*rapid.T) {
				if n := node(); n.Farm() != nil {
					n.Wake()
				}
			},
			"restart": func(t *rapid.T) {
				if n := node(); restarts {
					if err := n.Start(); err != nil {
						t.Fatal(err)
					}
				}
			},
		})
		w.Heal()
		for _, n := range w.nodes {
			n.Wake()
		}
		w.Network.Loss, w.Network.DelayMax = 0, w.Network.DelayMin
		w.Run(8 * time.Second)
		w.agree(t)
	})
}
