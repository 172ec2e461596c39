package farm_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"weir/farm"
	"weir/farm/farmtest"
	"weir/internal/testkit/needs"
)

// stands checks the place of a node.
func stands(t *testing.T, n *farmtest.SimNode, want farm.Standing) {
	t.Helper()
	if got := n.Farm().Standing(); got != want {
		t.Errorf("%s stands at %+v, want %+v", n.Name, got, want)
	}
}

// Who belongs to the farm outlives a restart: a node that is cut off when it starts keeps its place and its part.
func TestRoll(t *testing.T) {
	w := newWorld(t, 1, 3, lan, false)
	w.start(t)
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	ab := []*farmtest.SimNode{a, b}
	stands(t, c, farm.Standing{Of: 1, Up: 1}) // it has heard nobody
	w.Run(time.Second)
	whole := func(rank int) farm.Standing { return farm.Standing{Of: 3, Rank: rank, Up: 7, Parts: 7, Agreed: true} }
	for i, n := range w.nodes {
		stands(t, n, whole(i))
	}
	w.Cut(ab, []*farmtest.SimNode{c})
	again(t, c)
	w.Run(2 * time.Second)
	stands(t, c, farm.Standing{Of: 3, Rank: 2, Up: 4, Parts: 4, Agreed: true})
	stands(t, a, farm.Standing{Of: 3, Rank: 0, Up: 3, Parts: 3, Agreed: true})

	// It says goodbye to nobody, and keeps its part.
	if err := c.Farm().Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.Heal()
	w.Run(time.Second)
	stands(t, a, farm.Standing{Of: 3, Rank: 0, Up: 3, Parts: 3, Agreed: true})
	again(t, c)
	w.Run(time.Second)
	stands(t, c, whole(2))

	// Its goodbye is heard: the others take its part over, and it has none until all have heard of it.
	if err := c.Farm().Leave(context.Background()); err != nil {
		t.Fatal(err)
	}
	stands(t, c, farm.Standing{Of: 3, Rank: 2, Up: 4})
	sees(t, c, "a lost, b lost")
	w.Run(time.Second)
	stands(t, b, farm.Standing{Of: 2, Rank: 1, Up: 3, Parts: 3, Agreed: true})
	w.Cut(ab, []*farmtest.SimNode{c})
	again(t, c)
	w.Run(time.Second)
	if s := c.Farm().Standing(); s.Parts != 0 {
		t.Errorf("it has a part that others have taken over: %+v", s)
	}
	w.Heal()
	w.Run(2 * time.Second)
	for i, n := range w.nodes {
		stands(t, n, whole(i))
	}

	// Its disk is lost, and it hears only one of the others: that one tells it of the third.
	w.CutOneWay(a, c)
	w.CutOneWay(c, a)
	c.Kept = nil
	again(t, c)
	w.Run(2 * time.Second)
	stands(t, c, farm.Standing{Of: 3, Rank: 2, Up: 6, Parts: 2})
	w.Heal()
	w.Run(2 * time.Second)
	stands(t, c, whole(2))
}

// A node that was forgotten though it lives joins again when it is heard.
func TestForgottenNodeJoinsAgain(t *testing.T) {
	w := newWorld(t, 1, 3, lan, false)
	w.start(t)
	w.Run(time.Second)
	a, b, c := w.nodes[0], w.nodes[1], w.nodes[2]
	w.Cut([]*farmtest.SimNode{a, b}, []*farmtest.SimNode{c})
	w.Run(2 * time.Second)
	if err := a.Farm().Forget("c"); err != nil {
		t.Fatal(err)
	}
	w.Run(time.Second)
	stands(t, b, farm.Standing{Of: 2, Rank: 1, Up: 3, Parts: 3, Agreed: true}) // a has told it
	w.Heal()
	w.Run(2 * time.Second)
	for i, n := range w.nodes {
		stands(t, n, farm.Standing{Of: 3, Rank: i, Up: 7, Parts: 7, Agreed: true})
	}
}

// A disk that keeps nothing takes nobody's part: what was told must hold after a restart.
func TestRollIsToldWhenItIsKept(t *testing.T) {
	w := newWorld(t, 1, 2, lan, false)
	a, b := w.nodes[0], w.nodes[1]
	var done func(error)
	b.Options = func(j *farm.Joining) { j.Keep = func(_ []byte, d func(error)) { done = d } }
	w.start(t)
	w.Run(2 * time.Second)
	stands(t, a, farm.Standing{Of: 2, Rank: 0, Up: 3})
	stands(t, b, farm.Standing{Of: 2, Rank: 1, Up: 3})
	done(context.DeadlineExceeded) // it is asked again
	w.Run(2 * time.Second)
	stands(t, a, farm.Standing{Of: 2, Rank: 0, Up: 3})
	for range 10 {
		done(nil)
		w.Run(100 * time.Millisecond)
	}
	for i, n := range w.nodes {
		stands(t, n, farm.Standing{Of: 2, Rank: i, Up: 3, Parts: 3, Agreed: true})
	}
}

// Whatever nodes hear of each other, all that have a part count all others that have one, and ranks that are agreed on
// are different. After quiet all have their parts.
func TestPartsAreNeverMoreThanTheWhole(t *testing.T) {
	needs.Unwatched(t)
	rounds := uint64(40)
	if needs.Long() {
		rounds = 4000
	}
	for seed := range rounds {
		partsAddUp(t, seed)
	}
}

func partsAddUp(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 4))
	nodes, listed := 2+r.IntN(4), r.IntN(2) == 0
	w := newWorld(t, seed, nodes, lan, false)
	w.Network.Loss = []float64{0, 0, 0.2}[r.IntN(3)]
	for _, n := range w.nodes {
		if listed {
			n.Options = func(j *farm.Joining) { j.Expected = nodes }
		}
	}
	w.start(t)
	check := func() {
		parts, ranks := 0, map[int]string{}
		for _, n := range w.nodes {
			if n.Farm() == nil {
				continue
			}
			s := n.Farm().Standing()
			if s.Parts&(1<<s.Rank) == 0 {
				continue
			}
			parts++
			if other := ranks[s.Rank]; s.Agreed && other != "" {
				t.Fatalf("seed %d: %s and %s have rank %d", seed, other, n.Name, s.Rank)
			} else if s.Agreed {
				ranks[s.Rank] = n.Name
			}
		}
		for _, n := range w.nodes {
			if n.Farm() == nil {
				continue
			}
			if s := n.Farm().Standing(); s.Parts&(1<<s.Rank) != 0 && s.Of < parts {
				t.Fatalf("seed %d: %s divides by %d, and %d have parts", seed, n.Name, s.Of, parts)
			}
		}
	}
	run := func(d time.Duration) {
		for ; d > 0; d -= 20 * time.Millisecond {
			w.Run(20 * time.Millisecond)
			check()
		}
	}
	if !listed { // nodes that never met, and are not listed, may make two farms
		run(3 * time.Second)
	}
	for range 1 + r.IntN(8) {
		switch n, other := w.nodes[r.IntN(nodes)], w.nodes[r.IntN(nodes)]; r.IntN(9) {
		case 0:
			at := 1 + r.IntN(nodes-1)
			w.Cut(w.nodes[:at], w.nodes[at:])
		case 1:
			w.CutOneWay(n, other)
		case 2:
			w.Heal()
		case 3:
			if n.Farm() != nil {
				_ = n.Farm().Leave(context.Background())
				n.Kill()
			}
		case 4:
			n.Kill()
		case 5, 6:
			again(t, n)
		case 7:
			if n.Kill(); listed {
				n.Kept = nil
			}
		case 8:
			n.Skew = time.Duration(r.IntN(200)-100) * time.Second
		}
		run(time.Duration(r.IntN(1600)) * time.Millisecond)
	}
	w.Heal()
	w.Network.Loss = 0
	for _, n := range w.nodes {
		if n.Farm() == nil {
			again(t, n)
		}
	}
	run(4 * time.Second)
	for i, n := range w.nodes {
		all := uint64(1)<<nodes - 1
		if got, want := n.Farm().Standing(), (farm.Standing{Of: nodes, Rank: i, Up: all, Parts: all,
			Agreed: true}); got != want {
			t.Fatalf("seed %d: %s stands at %+v, want %+v", seed, n.Name, got, want)
		}
	}
}
