package queue

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type thing struct {
	rank, at int
	node     Node[thing]
}

// Items leave in the order of their ranks, whoever joins, changes rank or leaves in between.
func TestRanked(t *testing.T) {
	q := NewRanked(func(a, b *thing) bool { return a.rank < b.rank }, func(x *thing) *int { return &x.at })
	rng := rand.New(rand.NewPCG(1, 2))
	var in []*thing
	for range 2_000 {
		switch n := rng.IntN(4); {
		case n < 2 || len(in) == 0:
			x := &thing{rank: rng.IntN(50)}
			in = append(in, x)
			q.Add(x)
		case n == 2:
			x := in[rng.IntN(len(in))]
			x.rank = rng.IntN(50)
			q.Fix(x)
		default:
			i := rng.IntN(len(in))
			q.Remove(in[i])
			q.Remove(in[i]) // it is not there any more
			in = slices.Delete(in, i, i+1)
		}
		if q.Len() != len(in) {
			t.Fatal(q.Len(), "instead of", len(in))
		}
		for i, x := range q.Items() {
			if x.at != i+1 || x.rank < q.Items()[max(0, i-1)/2].rank {
				t.Fatalf("%+v stands at %d", x, i)
			}
		}
	}
	last := -1
	for x := q.First(); x != nil; x = q.First() {
		if x.rank < last {
			t.Fatal(x.rank, "after", last)
		}
		last = x.rank
		q.Remove(x)
	}
}

func TestListed(t *testing.T) {
	var q Listed[thing]
	var all [4]thing
	check := func(want ...int) {
		t.Helper()
		var got []int
		for x := q.First(); x != nil; x = x.node.Next() {
			got = append(got, x.rank)
		}
		if !slices.Equal(got, want) || len(want) > 0 && q.Last().rank != want[len(want)-1] {
			t.Errorf("%v, want %v", got, want)
		}
	}
	check()
	for i := range all {
		all[i].rank = i
		q.Add(&all[i].node, &all[i])
	}
	check(0, 1, 2, 3)
	q.Remove(&all[1].node)
	q.Remove(&all[3].node)
	check(0, 2)
	q.Add(&all[1].node, &all[1])
	q.Remove(&all[0].node)
	check(2, 1)
	q.Remove(&all[2].node)
	q.Remove(&all[1].node)
	if check(); q.Last() != nil {
		t.Error("somebody is left")
	}
}
