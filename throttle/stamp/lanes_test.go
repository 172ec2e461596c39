package stamp

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/hmackey"
	"weir/internal/needs"
)

// eqsChecked is what check says of a solution. It fails the test if the plain check says something else.
func eqsChecked(tb testing.TB, c *Challenge, solution []byte) bool {
	tb.Helper()
	k, t := eqs{}.key(c), eqs{}.target(c.Work)
	got := eqsCheck(c, hmackey.NewHash(), solution)
	if plain := k.accepts(t, (*[eqsBytes]byte)(solution)); plain != got {
		tb.Fatalf("%x is accepted: %t, and by the plain check: %t", solution, got, plain)
	}
	return got
}

// eqsCheck prepares a hash, and checks a solution.
func eqsCheck(c *Challenge, hash *hmackey.Hash, solution []byte) bool {
	eqs{}.prepare(c, hash)
	return eqs{}.check(c, nil, hash, solution)
}

// eqsBoth says of a solution what both ways to check it say.
func eqsBoth(tb testing.TB, k *sipKey, target uint64, solution []byte) bool {
	tb.Helper()
	s := (*[eqsBytes]byte)(solution)
	plain := k.accepts(target, s)
	if hasEqsLanes && eqsLanes(k, target, &eqsPairs, s) != plain {
		tb.Fatalf("key %x, target %x: %x is accepted by the plain check: %t", *k, target, solution, plain)
	}
	return plain
}

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
		if eqsBoth(t, &k, most, solution) || !eqsBoth(t, &k, most+1, solution) {
			t.Fatalf("the effort %x of hit %d: %x", most, place, solution)
		}
	}
	if len(places) != eqsHits {
		t.Errorf("only %d places", len(places))
	}
}

// TestEqsHalvesEverywhere: of the 128 ways to write a hit whose sums are all right, one is accepted, in each place.
func TestEqsHalvesEverywhere(t *testing.T) {
	t.Parallel()
	k := sipKey{9, 10, 11, 12}
	good := inOrder(someHits(&k, 0, eqsHits))
	for place := range eqsHits {
		for swaps := range 128 {
			solution := slices.Clone(good)
			h, bit := hitOf(solution, place)[4:], 0
			for w := 2; w < 16; w *= 2 {
				for at := 0; at < 16; at += 2 * w {
					if swaps>>bit&1 == 1 {
						half := slices.Clone(h[at : at+w])
						copy(h[at:], h[at+w:at+2*w])
						copy(h[at+w:], half)
					}
					bit++
				}
			}
			if eqsBoth(t, &k, math.MaxUint64, solution) != (swaps == 0) {
				t.Fatalf("hit %d, swaps %b: %x", place, swaps, solution)
			}
		}
	}
}

// TestEqsAlmost: hits whose pairs or fours add up to zero, but not all of it, are refused in both ways, and so is
// whatever else is near: another counter, an index more, a bit, random bytes.
func TestEqsAlmost(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	k, r := sipKey{1, 2, 3, 4}, rand.New(rand.NewPCG(23, 24))
	hits := someHits(&k, 0, 2*eqsHits)
	last := slices.MaxFunc(hits, func(a, b eqsSolution) int { return a.compare(&b) })
	rounds := plainRounds(&k, last.counter)
	right := 0
	for i := range 40_000 {
		r.Shuffle(len(hits), func(i, j int) { hits[i], hits[j] = hits[j], hits[i] })
		chosen := slices.Clone(hits[:eqsHits])
		switch i % 4 {
		case 0: // pairs or fours that are right, of the same counter, in canonical order
			var parts []plainEntry
			for range 4 >> (i / 4 % 2) {
				of := rounds[i/4%2]
				parts = append(parts, of[r.IntN(len(of))])
			}
			chosen[r.IntN(eqsHits)] = eqsHitOf(last.counter, canonical(parts))
		case 1:
			chosen[r.IntN(eqsHits)].counter++
		case 2:
			chosen[r.IntN(eqsHits)].high++
		}
		solution := inOrder(chosen)
		if i%8 == 3 {
			solution[r.IntN(len(solution))] ^= 1 << r.IntN(8)
		}
		if i%1000 == 0 {
			for j := range solution {
				solution[j] = byte(r.Uint32())
			}
		}
		if eqsBoth(t, &k, math.MaxUint64, solution) {
			right++
		}
	}
	if right < 4000 || right > 6000 { // every eighth is unchanged
		t.Errorf("%d were right", right)
	}
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
					if got := eqsBoth(t, &k, math.MaxUint64, solution); got != c.right {
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

// TestEqsPairs: the table of comparisons says what ordered says, and each of its entries counts.
func TestEqsPairs(t *testing.T) {
	if !hasEqsLanes {
		t.Skip("this processor has no AVX-512")
	}
	r, taken := rand.New(rand.NewPCG(25, 26)), 0
	for range 500_000 {
		some := make([]uint16, eqsIndices)
		for i := range some {
			some[i] = uint16(r.IntN(16))
		}
		if r.IntN(2) == 0 {
			var parts []plainEntry
			for one := range slices.Chunk(some, 1) {
				parts = append(parts, plainEntry{indices: one})
			}
			some = canonical(parts)
		}
		ok := true
		for i, other := range eqsPairs {
			a, b := some[i%eqsIndices], some[other]
			ok = ok && (i < 7 && a < b || i >= 7 && a != b)
		}
		if ok != plainOrdered(some) {
			t.Fatalf("%v: %t", some, ok)
		}
		if ok {
			taken++
		}
	}
	if taken < 1000 {
		t.Errorf("only %d were canonical", taken)
	}
	k := sipKey{13, 14, 15, 16}
	good := (*[eqsBytes]byte)(inOrder(someHits(&k, 0, eqsHits)))
	if !eqsLanes(&k, math.MaxUint64, &eqsPairs, good) {
		t.Fatal("refused")
	}
	for i := range eqsPairs {
		changed := eqsPairs
		changed[i] = uint16(i % eqsIndices) // an index is neither greater than itself nor different
		if eqsLanes(&k, math.MaxUint64, &changed, good) {
			t.Errorf("comparison %d does not count", i)
		}
	}
}

// TestTextLanes: both decoders write what they should and not a byte more.
func TestTextLanes(t *testing.T) {
	r := rand.New(rand.NewPCG(27, 28))
	for n := range 400 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		text := encoding.EncodeToString(b)
		for name, decode := range textDecoders() {
			room := bytes.Repeat([]byte{0xa5}, n+80)
			if !decode(room[:n], text) || !bytes.Equal(room[:n], b) {
				t.Fatalf("%s: %x is %x", name, b, room[:n])
			}
			if left := room[n:]; !bytes.Equal(left, bytes.Repeat([]byte{0xa5}, 80)) {
				t.Fatalf("%s: %d bytes, and behind them %x", name, n, left)
			}
		}
	}
}

// textDecoders are the decoders that this processor has.
func textDecoders() map[string]func([]byte, string) bool {
	all := map[string]func([]byte, string) bool{"plain": textPlain}
	if hasTextLanes {
		all["lanes"] = func(out []byte, text string) bool { return textLanes(&text64, out, text) }
	}
	return all
}

// FuzzEqsLanes: both checks say the same, for any key, target and solution.
func FuzzEqsLanes(f *testing.F) {
	k := sipKey{1, 2, 3, 4}
	good := inOrder(someHits(&k, 0, eqsHits))
	f.Add(k[0], k[1], k[2], k[3], uint64(math.MaxUint64), good)
	f.Add(k[0], k[1], k[2], k[3], uint64(1)<<63, good)
	f.Add(uint64(0), uint64(0), uint64(0), uint64(0), uint64(0), make([]byte, eqsBytes))
	f.Fuzz(func(t *testing.T, k0, k1, k2, k3, target uint64, b []byte) {
		if len(b) == eqsBytes {
			eqsBoth(t, &sipKey{k0, k1, k2, k3}, target, b)
		}
	})
}
