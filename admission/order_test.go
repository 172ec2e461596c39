package admission

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

// The line is what a sorted list would be.
func TestOrderIsASortedList(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		var o order
		var want []uint64
		in := map[uint64]*entry{}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			n := rapid.Uint64Range(0, 60).Draw(rt, "number")
			at, found := slices.BinarySearch(want, n)
			if found {
				o.remove(in[n])
				want = slices.Delete(want, at, at+1)
			} else {
				in[n] = &entry{number: n, weight: rapid.Uint64().Draw(rt, "weight")}
				o.add(in[n])
				want = slices.Insert(want, at, n)
			}
			if o.len() != len(want) {
				rt.Fatalf("%d in line, want %v", o.len(), want)
			}
			if first := o.first(); (first == nil) != (len(want) == 0) || first != nil && first.number != want[0] {
				rt.Fatalf("first is %v, want %v", first, want)
			}
			for i, n := range want {
				if got := o.ahead(n); got != i {
					rt.Fatalf("%d ahead of %d, want %d in %v", got, n, i, want)
				}
			}
		}
	})
}

// A long line that was joined in order is no list: nobody has to walk along all of it.
func TestOrderIsShallow(t *testing.T) {
	var o order
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range uint64(100_000) {
		o.add(&entry{number: i, weight: rng.Uint64()})
	}
	var deep func(*entry) int
	deep = func(p *entry) int {
		if p == nil {
			return 0
		}
		return 1 + max(deep(p.left), deep(p.right))
	}
	if d := deep(o.root); d > 60 {
		t.Errorf("%d deep", d)
	}
}
