package stamp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/testkit/needs"
)

// someHits are hits of a key, of a few counters.
func someHits(k *sipKey, from uint32, n int) (hits []eqsSolution) {
	for table := new(eqsTable); len(hits) < n; from++ {
		hits = append(hits, table.solutions(k, from)...)
	}
	return hits
}

// inOrder writes sixteen hits as a solution.
func inOrder(hits []eqsSolution) (solution []byte) {
	chosen := slices.Clone(hits[:eqsHits])
	slices.SortFunc(chosen, func(a, b eqsSolution) int { return a.compare(&b) })
	for _, h := range chosen {
		solution = h.append(solution)
	}
	return solution
}

// TestEqsEffortEverywhere: the effort of each hit counts, whichever place it has, and to the last bit.
func TestEqsEffortEverywhere(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	k, r := sipKey{5, 6, 7, 8}, rand.New(rand.NewPCG(21, 22))
	hits := someHits(&k, math.MaxUint32-40, 3*eqsHits)
	places := map[int]bool{}
	for range 2000 {
		r.Shuffle(len(hits), func(i, j int) { hits[i], hits[j] = hits[j], hits[i] })
		solution := inOrder(hits)
		most, place := uint64(0), 0
		for i := range eqsHits {
			h := eqsAt((*[eqsHit]byte)(hitOf(solution, i)))
			if e := k.effort(h.counter, h.low, h.high); e >= most {
				most, place = e, i
			}
		}
		places[place] = true
		if s := (*[eqsBytes]byte)(solution); k.accepts(most, s) || !k.accepts(most+1, s) {
			t.Fatalf("the effort %x of hit %d: %x", most, place, solution)
		}
	}
	if len(places) != eqsHits {
		t.Errorf("only %d places", len(places))
	}
}

// TestEqsSumsEverywhere: each of the three sums counts by itself, with its lowest and its highest bit, in each place.
func TestEqsSumsEverywhere(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	k := sipKey{17, 18, 19, 20}
	below, above := someHits(&k, 0, eqsHits), someHits(&k, 2000, eqsHits)
	for _, c := range []struct {
		pair, four, all uint64
		right           bool
		from            uint32 // the first counter that has such sums: the search is long
	}{
		{0, 0, 0, true, 1004},
		{1, 0, 0, false, 1002}, {1 << 14, 0, 0, false, 1000},
		{0, 1 << 15, 0, false, 1000}, {0, 1 << 29, 0, false, 1009},
		{0, 0, 1 << 30, false, 1009}, {0, 0, 1 << 59, false, 1002},
	} {
		tried := 0
		for counter := c.from; tried == 0; counter++ {
			for _, h := range sumsOf(&k, counter, c.pair, c.four, c.all) {
				if !h.ordered() {
					continue
				}
				tried++
				for place := range eqsHits {
					solution := inOrder(slices.Concat(below[:place], []eqsSolution{h}, above))
					if got := k.accepts(math.MaxUint64, (*[eqsBytes]byte)(solution)); got != c.right {
						t.Fatalf("%+v: %x is accepted: %t", c, solution, got)
					}
				}
			}
		}
	}
}

// sumsOf finds eight indices whose values add up to numbers of our choice: the first of two pairs to one modulo 2^15,
// and the second to its negative; the first of two fours to one modulo 2^30, likewise; and all to one modulo 2^60.
func sumsOf(k *sipKey, counter uint32, pair, four, all uint64) (found []eqsSolution) {
	var values []plainEntry
	for i := range 3 << 14 { // there are enough sums among so many
		values = append(values, plainEntry{k.value(uint64(counter)<<16 | uint64(i)), []uint16{uint16(i)}})
	}
	first, second := sumTo(values, values, 15, pair), sumTo(values, values, 15, -pair)
	low, high := sumTo(first, second, 30, four), sumTo(first, second, 30, -four)
	for _, e := range sumTo(low, high, 60, all) {
		found = append(found, eqsHitOf(counter, e.indices))
	}
	return found
}

// sumTo joins one entry of each list, the smaller half first, where the sum is a number modulo a power of two.
func sumTo(some, others []plainEntry, width int, sum uint64) (joined []plainEntry) {
	mask := uint64(1)<<width - 1
	by := make(map[uint64][]plainEntry, len(others))
	for _, b := range others {
		by[b.sum&mask] = append(by[b.sum&mask], b)
	}
	for _, a := range some {
		for _, b := range by[(sum-a.sum)&mask] {
			if len(a.indices) > 1 || a.indices[0] < b.indices[0] { // of two values both orders are found
				joined = append(joined, plainEntry{a.sum + b.sum, canonical([]plainEntry{a, b})})
			}
		}
	}
	return joined
}

// canonical joins parts, the smaller half first everywhere.
func canonical(parts []plainEntry) []uint16 {
	if len(parts) == 1 {
		return parts[0].indices
	}
	a, b := canonical(parts[:len(parts)/2]), canonical(parts[len(parts)/2:])
	if a[len(a)-1] > b[len(b)-1] {
		a, b = b, a
	}
	return slices.Concat(a, b)
}
