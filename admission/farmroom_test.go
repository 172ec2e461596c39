package admission

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"weir"
	"weir/farm/farmtest"
)

// A guest is somebody without JavaScript. The balancer sends them to any node.
type guest struct {
	i      int
	number uint64
	came   time.Time
	in     time.Time // first let in
	uses   int
}

// A hall is a farm whose places those who pay use all the time, and people who wait.
type hall struct {
	*farmRig
	people []*guest
	covers int
	lost   int // a page that was let in, and did not get all it loads
}

func newHall(t testing.TB, seed uint64, nodes int, network farmtest.Network, o Options) *hall {
	h := &hall{farmRig: newFarmRig(t, seed, nodes, network, o), covers: 5}
	for i := range 60 { // they pay, and come again as soon as they are served
		source := address(1<<20 + i)
		var again func(bool)
		again = func(bool) {
			h.After(time.Millisecond, func() {
				ev := paying(1000)
				ev.Source = source
				h.any().send(ev, again)
			})
		}
		again(true)
	}
	h.Run(2 * time.Second)
	h.clear()
	return h
}

// any returns a node that serves.
func (h *hall) any() *farmNode {
	var up []*farmNode
	for _, n := range h.nodes {
		if n.Running() {
			up = append(up, n)
		}
	}
	return up[h.Rand.IntN(len(up))]
}

// person adds somebody who comes to a node now, and then to any.
func (h *hall) person(at *farmNode) *guest {
	v := &guest{i: len(h.people), number: at.l.Issue("c", at.FarmTime()).Number, came: h.Now()}
	h.people = append(h.people, v)
	h.After(5*time.Second, func() { h.reload(v) })
	return v
}

// present shows a ticket to a node, which serves the request if the number has been called.
func (h *hall) present(n *farmNode, v *guest) Standing {
	s := n.l.Present(v.number, address(v.i), h.covers, n.FarmTime())
	if s.State == Called {
		v.uses++
		n.send(weir.Event{Source: address(v.i), Place: weir.Place{Number: v.number, Called: true}}, nil)
	}
	return s
}

func (h *hall) reload(v *guest) {
	n := h.any()
	s := h.present(n, v)
	switch {
	case s.State == Spent:
		h.t.Errorf("number %d is spent before it was let in", v.number)
		return
	case s.State != Called:
		h.After(5*time.Second+time.Duration(h.Rand.Int64N(int64(500*time.Millisecond))), func() { h.reload(v) })
		return
	}
	v.in = h.Now()
	for range h.covers - 1 { // what the page loads, from any node
		h.After(20*time.Millisecond+time.Duration(h.Rand.Int64N(int64(100*time.Millisecond))), func() {
			if h.present(h.any(), v).State != Called {
				h.lost++
			}
		})
	}
}

// crowd lets people come for some seconds, all to one node or to any.
func (h *hall) crowd(n int, over time.Duration, to func() *farmNode) {
	for range n {
		h.After(time.Duration(h.Rand.Int64N(int64(over))), func() { h.person(to()) })
	}
}

// missing is how many wait.
func (h *hall) missing(all int) int {
	for _, v := range h.people {
		if !v.in.IsZero() {
			all--
		}
	}
	return all
}

// orderly fails the test unless all people were let in, in the order in which they came, as far as people who look
// every five seconds can be. late is how much more they may be apart.
func (h *hall) orderly(all int, late time.Duration) {
	h.t.Helper()
	for range 1200 {
		if h.Run(time.Second); h.missing(all) == 0 {
			break
		}
	}
	if left := h.missing(all); left > 0 {
		h.t.Fatalf("%d of %d still wait: %s", left, all, h)
	}
	const apart = 5*time.Second + 500*time.Millisecond + time.Second
	slices.SortFunc(h.people, func(a, b *guest) int { return a.came.Compare(b.came) })
	worst := time.Duration(0)
	for i, a := range h.people {
		for _, b := range h.people[i+1:] {
			worst = max(worst, a.in.Sub(b.in))
		}
	}
	if worst > apart+late {
		h.t.Errorf("somebody was let in %s after somebody who came later", worst)
	}
	if h.lost > all*h.covers/50 {
		h.t.Errorf("%d of %d requests of those let in were not served", h.lost, all*h.covers)
	}
}

// TestFarmWaitingRoom: people come to any node and look again at any other. They are let in in the order in which they
// came, and get the share of the general pool.
func TestFarmWaitingRoom(t *testing.T) {
	t.Parallel()
	const people, places = 100, 10
	for name, to := range map[string]func(h *hall) *farmNode{
		"to any": (*hall).any,
		"to one": func(h *hall) *farmNode { return h.nodes[1] },
		"ten to one": func(h *hall) *farmNode {
			if h.Rand.IntN(11) == 0 {
				return h.nodes[2]
			}
			return h.nodes[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHall(t, 1, 3, quick, Options{Concurrent: places})
			h.crowd(people, 5*time.Second, func() *farmNode { return to(h) })
			h.orderly(people, 0)
			first, last := h.people[0].in, h.people[0].in
			for _, v := range h.people {
				if last = later(last, v.in); v.in.Before(first) {
					first = v.in
				}
			}
			rate := float64(people*h.covers) / last.Sub(first).Seconds()
			t.Logf("%.1f requests a second of %d, %d lost", rate, places*10, h.lost)
			if rate < places*10*0.06 {
				t.Errorf("%.1f requests a second of %d", rate, places*10)
			}
			for _, n := range h.nodes {
				if s := n.l.Stats(n.FarmTime()); s.NoShows > 0 || s.InLine+s.Called > 0 {
					t.Errorf("%s: %+v", n.Name, s)
				}
			}
			h.within(places + 2)
		})
	}
}

// TestFarmOldNodesAreNotFavoured: whoever comes to a node that just started waits no longer.
func TestFarmOldNodesAreNotFavoured(t *testing.T) {
	t.Parallel()
	r := newFarmRig(t, 1, 2, quick, Options{Concurrent: 10})
	a, b := r.nodes[0], r.nodes[1]
	for range 1000 {
		a.l.Number(a.FarmTime())
	}
	r.restart(b, time.Minute)
	r.Run(2 * time.Second)
	seen := map[uint64]bool{}
	last := uint64(0)
	for range 1000 {
		for _, n := range []*farmNode{b, a} {
			r.Run(time.Millisecond)
			number := n.l.Number(n.FarmTime())
			if number <= last || seen[number] {
				t.Fatalf("%s gave %d after %d", n.Name, number, last)
			}
			seen[number], last = true, number
		}
	}
	// At the same instant they give different ones.
	for range 1000 {
		for _, n := range r.nodes {
			number := n.l.Number(n.FarmTime())
			if seen[number] {
				t.Fatal("two people have one number")
			}
			seen[number] = true
		}
	}
}

// TestFarmRollingRestart: nobody loses their place when the nodes are restarted one after the other, whether others are
// left or not.
func TestFarmRollingRestart(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			const people = 60
			h := newHall(t, 1, nodes, quick, Options{Concurrent: 10})
			h.crowd(people, 5*time.Second, h.any)
			h.Run(12 * time.Second)
			if h.missing(people) < people/2 {
				t.Fatal("too few wait for a test")
			}
			waited := map[*guest]bool{}
			for _, v := range h.people {
				waited[v] = v.in.IsZero()
			}
			for _, n := range slices.Clone(h.nodes) {
				if nodes == 1 {
					// The only node is back before anybody asks: they would try again.
					h.restart(n, 0)
				} else {
					h.restart(n, time.Second)
				}
				h.Run(3 * time.Second)
			}
			// Somebody who comes now goes after all who wait.
			for range 10 {
				h.person(h.any())
			}
			h.orderly(people+10, 2*time.Second)
		})
	}
}

// TestFarmTicketElsewhere: a ticket keeps its place at any node, and is worth as much at all of them together as at
// one.
func TestFarmTicketElsewhere(t *testing.T) {
	t.Parallel()
	h := newHall(t, 1, 3, quick, Options{Concurrent: 10})
	a, b, c := h.nodes[0], h.nodes[1], h.nodes[2]
	var line []*guest
	for i := range 60 {
		v := &guest{i: i, number: h.nodes[i%3].l.Issue("c", h.nodes[i%3].FarmTime()).Number}
		line = append(line, v)
		h.present(h.nodes[(i+1)%3], v)
		h.Run(10 * time.Millisecond)
	}
	h.Run(10 * time.Millisecond)
	last := line[59]
	var ahead []int
	for _, n := range h.nodes {
		s := h.present(n, last)
		if ahead = append(ahead, s.Ahead); s.State != InLine {
			t.Fatalf("%s at %s: %s, %+v", s.State, n.Name, h, n.l.Stats(n.FarmTime()))
		}
	}
	if slices.Max(ahead)-slices.Min(ahead) > 1 || ahead[0] < 5 {
		t.Errorf("%v ahead, at three nodes", ahead)
	}
	if s, other := a.l.Stats(a.FarmTime()), b.l.Stats(b.FarmTime()); s.InLine+s.Called != other.InLine+other.Called {
		t.Errorf("%+v", s)
	}
	// One after the other, it is worth what it covers.
	for range 300 {
		h.Run(time.Second)
		if h.present(h.any(), last).State == Called {
			break
		}
	}
	for i := range 20 {
		h.Run(20 * time.Millisecond)
		h.present([]*farmNode{c, a, b}[i%3], last)
	}
	if last.uses != h.covers {
		t.Errorf("%d uses, of %d", last.uses, h.covers)
	}
	if s := h.present(a, last); s.State != Spent {
		t.Errorf("then it is %s", s.State)
	}
	h.restart(b, time.Second)
	h.Run(2 * time.Second)
	if s := h.present(b, last); s.State != Spent {
		t.Errorf("after a restart it is %s", s.State)
	}
}

// TestFarmTicketReplayed: shown to all nodes within the time that a message takes, a ticket is worth what it covers at
// each of them, and never more; after that, nothing.
func TestFarmTicketReplayed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		h := newHall(t, seed, 3, quick, Options{Concurrent: 10})
		v := &guest{number: h.nodes[0].l.Issue("c", h.nodes[0].FarmTime()).Number}
		for range 3000 {
			h.Run(100 * time.Millisecond)
			for range h.covers + 1 {
				for _, n := range h.nodes {
					h.present(n, v)
				}
			}
			if v.uses > 0 {
				break
			}
		}
		h.Run(50 * time.Millisecond)
		before := v.uses
		for range 10 {
			for _, n := range h.nodes {
				h.present(n, v)
				h.Run(20 * time.Millisecond)
			}
		}
		if before == 0 || v.uses > 3*h.covers || v.uses > max(before, h.covers) {
			t.Errorf("%d uses at once and %d later, of %d", before, v.uses-before, h.covers)
		}
	}
}

// TestFarmSkewedClock: two nodes whose clocks are seconds apart give comparable numbers, as each follows the other.
func TestFarmSkewedClock(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{5 * time.Second, -5 * time.Second, time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			const people = 60
			h := newHall(t, 1, 2, quick, Options{Concurrent: 10})
			h.nodes[0].Skew = skew
			h.restart(h.nodes[0], 0)
			h.Run(3 * time.Second)
			i := 0
			h.crowd(people, 5*time.Second, func() *farmNode { i++; return h.nodes[i%2] })
			h.orderly(people, 0)
		})
	}
}

// TestFarmRoomLossy: messages are lost, repeated and late. Snapshots make up for them, and people are at most one more
// look apart.
func TestFarmRoomLossy(t *testing.T) {
	t.Parallel()
	h := newHall(t, 1, 3, lossy, Options{Concurrent: 10})
	h.crowd(60, 5*time.Second, h.any)
	h.Run(12 * time.Second)
	h.restart(h.nodes[1], time.Second)
	h.lost = -60 * h.covers / 10 // a request may come sooner than the word that it may
	h.orderly(60, 6*time.Second)
	h.within(10 + 3)
}

// TestFarmRoomPartition: the parts of a farm that is cut in two let people in by themselves, and agree again when it
// heals.
func TestFarmRoomPartition(t *testing.T) {
	t.Parallel()
	h := newHall(t, 1, 3, quick, Options{Concurrent: 12})
	h.crowd(60, 5*time.Second, h.any)
	h.Run(8 * time.Second)
	h.Cut([]*farmtest.SimNode{h.nodes[0].SimNode}, []*farmtest.SimNode{h.nodes[1].SimNode, h.nodes[2].SimNode})
	h.Run(10 * time.Second)
	h.Heal()
	h.Run(3 * time.Second)
	h.lost = 0                    // whoever was let in by one part was not known to the other
	h.orderly(60, 16*time.Second) // the cut, and one more look
	h.within(12 + 2)
}
