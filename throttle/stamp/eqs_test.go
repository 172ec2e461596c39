package stamp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"weir/internal/testkit/needs"
)

var updateVectors = flag.Bool("update-vectors", false, "write testdata/eqs60.json anew")

// An eqsVector is what the solvers in Go, WebAssembly and JavaScript agree on. Numbers of 64 bits are hexadecimal.
type eqsVector struct {
	Seed     string        `json:"seed"`
	Key      []string      `json:"key"`
	Values   []string      `json:"values"` // of counter and index 0, 1, 65535
	Counters []eqsCounters `json:"counters"`
}

type eqsCounters struct {
	Counter   uint32   `json:"counter"`
	Solutions []string `json:"solutions"` // eight indices as little-endian bytes
	Efforts   []string `json:"efforts"`
}

func word(n uint64) string { return fmt.Sprintf("%016x", n) }

// vectorOf computes a vector.
func vectorOf(seed [seedBytes]byte, counters []uint32) eqsVector {
	c := seeded(seed)
	k := eqs{}.key(c)
	v := eqsVector{Seed: hex.EncodeToString(seed[:])}
	for _, w := range k {
		v.Key = append(v.Key, word(w))
	}
	for _, m := range []uint64{0, 1, 65535} {
		v.Values = append(v.Values, word(k.value(m<<16|m)))
	}
	table := new(eqsTable)
	for _, n := range counters {
		found := slices.Clone(table.solutions(&k, n))
		slices.SortFunc(found, func(a, b eqsSolution) int { return a.compare(&b) })
		all := eqsCounters{Counter: n, Solutions: []string{}, Efforts: []string{}}
		for _, h := range found {
			all.Solutions = append(all.Solutions, hex.EncodeToString(h.append(nil)[4:]))
			all.Efforts = append(all.Efforts, word(k.effort(n, h.low, h.high)))
		}
		v.Counters = append(v.Counters, all)
	}
	return v
}

// seeded is a challenge of a seed.
func seeded(seed [seedBytes]byte) *Challenge {
	c := &Challenge{Algorithm: EQS60, Work: eqsLeast}
	copy(c.Nonce[:], seed[:])
	copy(c.tag[:], seed[nonceBytes:])
	return c
}

const vectorFile = "testdata/eqs60.json"

// TestEqsVectors: the vectors that all solvers share are those of the Go solver.
func TestEqsVectors(t *testing.T) {
	var up [seedBytes]byte
	for i := range up {
		up[i] = byte(i)
	}
	got := []eqsVector{vectorOf([seedBytes]byte{}, []uint32{0, 1, 2, 3, math.MaxUint32}),
		vectorOf(up, []uint32{0, 1, 1 << 16, 1 << 31})}
	text, err := json.MarshalIndent(got, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *updateVectors {
		if err := os.WriteFile(vectorFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(want) {
		t.Errorf("got\n%s", text)
	}
}

// TestEqsSolver: the solver finds what a search with maps finds that has nothing in common with it but the values, and
// as many as are expected.
func TestEqsSolver(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	k := sipKey{1, 2, 3, 4}
	table := new(eqsTable)
	for _, n := range []uint32{7, math.MaxUint32} {
		got := slices.Clone(table.solutions(&k, n))
		slices.SortFunc(got, func(a, b eqsSolution) int { return a.compare(&b) })
		if want := plainSearch(&k, n); !slices.Equal(got, want) {
			t.Errorf("counter %d: found %x, want %x", n, got, want)
		}
	}
	total, counters := 0, 100
	for n := range counters {
		for _, h := range table.solutions(&k, uint32(n)) {
			if total++; !h.ordered() || !k.solves((*[eqsHit]byte)(h.append(nil))) {
				t.Errorf("counter %d: %x", n, h)
			}
		}
	}
	// The key is fixed: 200 expected, and the usual deviation is 14.
	if total < 150 || total > 250 {
		t.Errorf("%d solutions of %d counters", total, counters)
	}
}

// A plainEntry is some indices, in canonical order, and the sum of their values.
type plainEntry struct {
	sum     uint64
	indices []uint16
}

// plainSearch finds the solutions of a counter by maps from sums to what makes them.
func plainSearch(k *sipKey, counter uint32) (found []eqsSolution) {
	for _, e := range plainRounds(k, counter)[2] {
		if plainDistinct(e.indices) {
			found = append(found, eqsHitOf(counter, e.indices))
		}
	}
	slices.SortFunc(found, func(a, b eqsSolution) int { return a.compare(&b) })
	return found
}

func eqsHitOf(counter uint32, indices []uint16) eqsSolution {
	b := binary.BigEndian.AppendUint32(nil, counter)
	for _, i := range indices {
		b = binary.LittleEndian.AppendUint16(b, i)
	}
	return eqsAt((*[eqsHit]byte)(b))
}

func plainDistinct(indices []uint16) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(indices)))) == len(indices)
}

// plainRounds returns the pairs, fours and eights whose sums are zero in as many bits, those included in which an index
// comes twice.
func plainRounds(k *sipKey, counter uint32) (rounds [][]plainEntry) {
	var all []plainEntry
	for i := range 1 << 16 {
		all = append(all, plainEntry{k.value(uint64(counter)<<16 | uint64(i)), []uint16{uint16(i)}})
	}
	for _, width := range []int{15, 30, 60} {
		mask := uint64(1)<<width - 1
		byRest := map[uint64][]plainEntry{}
		var next []plainEntry
		for _, b := range all {
			for _, a := range byRest[-b.sum&mask] {
				halves := [][]uint16{a.indices, b.indices}
				slices.SortFunc(halves, func(a, b []uint16) int { // the last one counts most
					for i := len(a) - 1; i >= 0; i-- {
						if a[i] != b[i] {
							return int(a[i]) - int(b[i])
						}
					}
					return 0
				})
				next = append(next, plainEntry{a.sum + b.sum, slices.Concat(halves...)})
			}
			byRest[b.sum&mask] = append(byRest[b.sum&mask], b)
		}
		all = next
		rounds = append(rounds, all)
	}
	return rounds
}

// TestEqsOrder: of the orders that the sums allow only one is canonical, and none where an index comes twice.
func TestEqsOrder(t *testing.T) {
	needs.Unwatched(t)
	good := []uint16{1, 9, 4, 10, 3, 11, 2, 60000}
	of := func(i []uint16) eqsSolution { return eqsHitOf(0, i) }
	if h := of(good); !h.ordered() {
		t.Fatal("the canonical order is refused")
	}
	// The seven swaps of halves.
	for _, s := range [][3]int{{0, 1, 1}, {2, 3, 1}, {4, 5, 1}, {6, 7, 1}, {0, 2, 2}, {4, 6, 2}, {0, 4, 4}} {
		swapped := slices.Clone(good)
		for i := range s[2] {
			swapped[s[0]+i], swapped[s[1]+i] = swapped[s[1]+i], swapped[s[0]+i]
		}
		if h := of(swapped); h.ordered() {
			t.Errorf("%v is taken", swapped)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 300_000 {
		// Few indices, so that some come twice; half of them in the order of the pairs, so that some are canonical.
		some := make([]uint16, eqsIndices)
		for i := range some {
			some[i] = uint16(r.IntN(24))
		}
		if r.IntN(2) == 0 {
			for i := 0; i < eqsIndices; i += 2 {
				slices.Sort(some[i : i+2])
			}
		}
		h := of(some)
		if h.ordered() != plainOrdered(some) {
			t.Fatalf("%v: ordered %t", some, h.ordered())
		}
		if h.ordered() {
			taken++
		}
	}
	if taken < 1000 {
		t.Errorf("only %d were canonical", taken)
	}
}

// plainOrdered says what ordered says, index by index.
func plainOrdered(all []uint16) bool {
	for width := 1; width < eqsIndices; width *= 2 {
		for at := 0; at < eqsIndices; at += 2 * width {
			one, other := slices.Clone(all[at:at+width]), slices.Clone(all[at+width:at+2*width])
			slices.Reverse(one) // the last one counts most
			slices.Reverse(other)
			if slices.Compare(one, other) >= 0 {
				return false
			}
		}
	}
	return plainDistinct(all)
}

// plainCheck says what check says, value by value, by the definition of the puzzle alone.
func plainCheck(c *Challenge, solution []byte) bool {
	k, t := eqs{}.key(c), eqs{}.target(c.Work)
	for i := range eqsHits {
		raw := hitOf(solution, i)
		var indices []uint16
		for j := 4; j < eqsHit; j += 2 {
			indices = append(indices, binary.LittleEndian.Uint16(raw[j:]))
		}
		h := eqsAt((*[eqsHit]byte)(raw))
		if !plainOrdered(indices) || !plainSolves(&k, h.counter, indices) || k.effort(h.counter, h.low, h.high) >= t {
			return false
		}
		if i > 0 && bytes.Compare(ascending(hitOf(solution, i-1)), ascending(raw)) >= 0 {
			return false
		}
	}
	return true
}

// ascending turns a hit into bytes that are compared from the left: the counter, then the last index first.
func ascending(hit []byte) []byte {
	b := slices.Clone(hit)
	slices.Reverse(b[4:])
	return b
}

// plainSolves says what solves says, value by value.
func plainSolves(k *sipKey, counter uint32, indices []uint16) bool {
	for width, bits := 2, 15; width <= eqsIndices; width, bits = 2*width, 2*bits {
		for part := range slices.Chunk(indices, width) {
			sum := uint64(0)
			for _, i := range part {
				sum += plainValue(k, uint64(counter)<<16|uint64(i))
			}
			if sum%(1<<bits) != 0 {
				return false
			}
		}
	}
	return true
}

// plainValue is SipHash-1-3 as its authors wrote it.
func plainValue(k *sipKey, m uint64) uint64 {
	v := *k
	round := func() {
		v[0], v[2] = v[0]+v[1], v[2]+v[3]
		v[1], v[3] = v[1]<<13|v[1]>>51, v[3]<<16|v[3]>>48
		v[1], v[3] = v[1]^v[0], v[3]^v[2]
		v[0] = v[0]<<32 | v[0]>>32
		v[2], v[0] = v[2]+v[1], v[0]+v[3]
		v[1], v[3] = v[1]<<17|v[1]>>47, v[3]<<21|v[3]>>43
		v[1], v[3] = v[1]^v[2], v[3]^v[0]
		v[2] = v[2]<<32 | v[2]>>32
	}
	v[3] ^= m
	round()
	v[0] ^= m
	v[2] ^= 0xff
	round()
	round()
	round()
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

// TestEqsNearMisses: hits whose pairs, or fours, add up to zero and no more, and whole ones. The verifier says of each
// what the plain sums say.
func TestEqsNearMisses(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	k, counter := sipKey{1, 2, 3, 4}, uint32(0)
	for table := new(eqsTable); len(table.solutions(&k, counter)) == 0; counter++ { // one that has some
	}
	rounds := plainRounds(&k, counter)
	r := rand.New(rand.NewPCG(11, 12))
	right := 0
	try := func(indices []uint16) {
		h := eqsHitOf(counter, indices)
		got, want := k.solves((*[eqsHit]byte)(h.append(nil))), plainSolves(&k, counter, indices)
		if got != want {
			t.Fatalf("%v solves: %t", indices, got)
		}
		if want {
			right++
		}
	}
	some := func(round, n int) (indices []uint16) {
		for range n {
			indices = append(indices, rounds[round][r.IntN(len(rounds[round]))].indices...)
		}
		return indices
	}
	for range 50_000 {
		try(some(0, 4)) // pairs
		try(some(1, 2)) // fours
		mixed := some(1, 2)
		mixed[r.IntN(len(mixed))] = uint16(r.Uint32())
		try(mixed)
	}
	for _, e := range rounds[2] {
		try(e.indices)
	}
	if right < len(rounds[2]) || right == 0 {
		t.Errorf("%d were right, of %d", right, len(rounds[2]))
	}
}

// TestEqsChoices: any sixteen hits of a challenge are right in ascending order and in no other, each of them once.
func TestEqsChoices(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	c := seeded([seedBytes]byte{4})
	k, table := eqs{}.key(c), new(eqsTable)
	var hits []eqsSolution
	for n := uint32(0); len(hits) < eqsHits+8; n++ {
		hits = append(hits, table.solutions(&k, n)...)
	}
	r := rand.New(rand.NewPCG(13, 14))
	right := 0
	for i := range 20_000 {
		r.Shuffle(len(hits), func(i, j int) { hits[i], hits[j] = hits[j], hits[i] })
		chosen := slices.Clone(hits[:eqsHits])
		if i%4 > 0 {
			slices.SortFunc(chosen, func(a, b eqsSolution) int { return a.compare(&b) })
		}
		switch at := r.IntN(eqsHits - 1); i % 4 {
		case 2:
			chosen[at], chosen[at+1] = chosen[at+1], chosen[at]
		case 3:
			chosen[at+1] = chosen[at]
		}
		var solution []byte
		for _, h := range chosen {
			solution = h.append(solution)
		}
		got, want := taken(c, solution), plainCheck(c, solution)
		if got != want || want != (i%4 == 1) {
			t.Fatalf("choice %d: %x is taken: %t, and right: %t", i, solution, got, want)
		}
		if want {
			right++
		}
	}
	if right != 5000 {
		t.Errorf("%d were right", right)
	}
}

// eqsSolved issues a challenge and solves it with the counters from one on.
func eqsSolved(tb testing.TB, o *Issuer, a Ask, from uint64) (challenge string, solution []byte) {
	tb.Helper()
	challenge, err := o.Issue(start, a)
	if err != nil {
		tb.Fatal(err)
	}
	return challenge, eqsSolution16(tb, challenge, from)
}

func eqsSolution16(tb testing.TB, challenge string, from uint64) []byte {
	tb.Helper()
	c, err := ParseChallenge(challenge)
	if err != nil {
		tb.Fatal(err)
	}
	solution, err := eqs{}.solveFrom(bg, &c, &search{workers: 2}, from)
	if err != nil {
		tb.Fatal(err)
	}
	return solution
}

func stampOf(challenge string, solution []byte) string {
	return challenge + "." + encoding.EncodeToString(solution)
}

func taken(c *Challenge, solution []byte) bool { return eqs{}.check(c, nil, solution) }

// TestEqsMutations: whatever is changed in a stamp, it is refused, and none of it spends the stamp. A million changes
// in the long run.
func TestEqsMutations(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	n := 20_000
	if needs.Long() {
		n = 1_000_000
	}
	o := NewIssuer(Parts{})
	a := ask(EQS60, 1<<17)
	challenge, solution := eqsSolved(t, o, a, 0)
	c, err := ParseChallenge(challenge)
	if err != nil || !plainCheck(&c, solution) {
		t.Fatal("not solved", err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	kinds := []func(b []byte){
		func(b []byte) { b[r.IntN(len(b))] ^= 1 << r.IntN(8) },                         // a bit
		func(b []byte) { b[r.IntN(len(b))] = byte(r.Uint32()) },                        // a byte
		func(b []byte) { swap(b, r.IntN(eqsHits), r.IntN(eqsHits)) },                   // the order of hits
		func(b []byte) { copy(b[r.IntN(eqsHits)*eqsHit:], hitOf(b, r.IntN(eqsHits))) }, // one hit twice
		func(b []byte) { // two indices of a hit
			h := hitOf(b, r.IntN(eqsHits))[4:]
			i, j := 2*r.IntN(eqsIndices), 2*r.IntN(eqsIndices)
			h[i], h[i+1], h[j], h[j+1] = h[j], h[j+1], h[i], h[i+1]
		},
		func(b []byte) { // one index twice
			h := hitOf(b, r.IntN(eqsHits))[4:]
			copy(h[2*r.IntN(eqsIndices):], h[2*r.IntN(eqsIndices):][:2])
		},
		func(b []byte) { // the halves of a hit, a four or a pair
			h, w := hitOf(b, r.IntN(eqsHits))[4:], 2<<r.IntN(3)
			at := r.IntN(16/(2*w)) * 2 * w
			half := slices.Clone(h[at : at+w])
			copy(h[at:], h[at+w:at+2*w])
			copy(h[at+w:], half)
		},
		func(b []byte) { // the counter
			binary.BigEndian.PutUint32(hitOf(b, r.IntN(eqsHits)), r.Uint32N(64))
		},
		func(b []byte) { // all of a hit
			h := hitOf(b, r.IntN(eqsHits))
			for i := range h {
				h[i] = byte(r.Uint32())
			}
		},
	}
	tried := 0
	for tried < n {
		changed := slices.Clone(solution)
		kind := tried % len(kinds)
		for range 1 + r.IntN(2) {
			kinds[kind](changed)
		}
		if slices.Equal(changed, solution) {
			continue
		}
		tried++
		if _, err := o.Verify(bg, start, stampOf(challenge, changed), demand(a)); err != ErrWrong {
			t.Fatalf("kind %d: %x is %v", kind, changed, err)
		}
		if plainCheck(&c, changed) || taken(&c, changed) {
			t.Fatalf("kind %d: %x is right by the plain sums", kind, changed)
		}
	}
	if _, err := o.Verify(bg, start, stampOf(challenge, solution), demand(a)); err != nil {
		t.Errorf("after %d wrong ones: %v", n, err)
	}
}

func hitOf(b []byte, i int) []byte { return b[i*eqsHit:][:eqsHit] }

func swap(b []byte, i, j int) {
	one := slices.Clone(hitOf(b, i))
	copy(hitOf(b, i), hitOf(b, j))
	copy(hitOf(b, j), one)
}

// TestEqsReplay: a challenge is paid once, whatever solution comes, and none but the canonical form of one is right.
func TestEqsReplay(t *testing.T) {
	t.Parallel()
	o := NewIssuer(Parts{})
	a := ask(EQS60, 1)
	challenge, solution := eqsSolved(t, o, a, 0)
	second := eqsSolution16(t, challenge, 1000)
	if slices.Equal(solution, second) {
		t.Fatal("the second solution is the first")
	}
	permuted := slices.Clone(solution)
	swap(permuted, 0, 1)
	if _, err := o.Verify(bg, start, stampOf(challenge, permuted), demand(a)); err != ErrWrong {
		t.Errorf("permuted: %v", err)
	}
	if _, err := o.Verify(bg, start, stampOf(challenge, solution), demand(a)); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string][]byte{"the same": solution, "permuted": permuted, "another": second} {
		if _, err := o.Verify(bg, start, stampOf(challenge, s), demand(a)); err != ErrReplayed {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Each solution was good by itself.
	fresh, err := o.Issue(start, a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.Verify(bg, start, stampOf(fresh, eqsSolution16(t, fresh, 1000)), demand(a)); err != nil {
		t.Error(err)
	}
	// A solution of another challenge is none.
	third, _ := o.Issue(start, a)
	if _, err := o.Verify(bg, start, stampOf(third, solution), demand(a)); err != ErrWrong {
		t.Errorf("of another challenge: %v", err)
	}
}

// TestEqsTarget: more work is a lower target, in steps of at most a percent, and effort counts.
func TestEqsTarget(t *testing.T) {
	for w := Work(eqsLeast + 1); w < MaxWork; w += w / 50 {
		a, b := eqs{}.target(w), eqs{}.target(w+w/100)
		if ratio := float64(a) / float64(b); !(ratio > 1 && ratio <= 1.0101) {
			t.Fatalf("from %d: a step of %f", w, ratio)
		}
	}
	o := NewIssuer(Parts{})
	challenge, solution := eqsSolved(t, o, ask(EQS60, 1), 0)
	c, err := ParseChallenge(challenge)
	if err != nil || !taken(&c, solution) {
		t.Fatal("not solved", err)
	}
	c.Work = 64 * eqsLeast // sixteen hits in a row would be a chance of 2^-96
	if taken(&c, solution) {
		t.Error("a solution without the effort is taken")
	}
}

// TestEqsCounters: a solver that has no counters left says so.
func TestEqsCounters(t *testing.T) {
	c := seeded([seedBytes]byte{1})
	s := &search{workers: 1}
	if _, err := (eqs{}).solveFrom(bg, c, s, math.MaxUint32); err != ErrTooHard || s.done.Load() != eqsEach {
		t.Errorf("%v after %d operations", err, s.done.Load())
	}
}

// TestEqsAllocates: neither taking nor refusing a stamp allocates.
func TestEqsAllocates(t *testing.T) {
	needs.Unwatched(t) // the race detector allocates
	o := NewIssuer(Parts{})
	a := ask(EQS60, 1)
	challenge, solution := eqsSolved(t, o, a, 0)
	c, err := ParseChallenge(challenge)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() {
		if !taken(&c, solution) {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("taking: %f allocations", n)
	}
	solution[eqsBytes-1] ^= 1
	if n := testing.AllocsPerRun(100, func() {
		if taken(&c, solution) {
			t.Error("taken")
		}
	}); n != 0 {
		t.Errorf("refusing: %f allocations", n)
	}
}

// TestEqsLuck is target S5 for eqs60: the hits of a counter are Poisson distributed.
func TestEqsLuck(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for _, w := range []Work{eqsLeast, 1 << 20, 5_000_000} {
		const draws = 200_000
		r := rand.New(rand.NewPCG(5, 6))
		each := float64(eqsHits) * eqsEach / float64(w) // hits of a counter
		costs, sum := make([]float64, draws), 0.0
		for i := range costs {
			// The counters until the sixteenth hit: arrivals of a Poisson process, in whole counters.
			at := 0.0
			for range eqsHits {
				at += r.ExpFloat64() / each
			}
			costs[i] = math.Ceil(at) * eqsEach
			sum += costs[i]
		}
		slices.Sort(costs)
		mean := sum / draws
		ratio := costs[draws*99/100] / mean
		t.Logf("%s: p99 / mean = %.3f, mean / declared = %.3f", w, ratio, mean/float64(w))
		if ratio > 1.7 {
			t.Errorf("%s: p99 / mean = %.3f", w, ratio)
		}
		// The counter with the last hit is searched to its end: half a counter more than declared.
		if want := float64(w) + eqsEach/2; math.Abs(mean/want-1) > 0.003 {
			t.Errorf("%s: the mean is %f", w, mean)
		}
	}
}

// FuzzEqs: whatever is taken is a solution by plain arithmetic.
func FuzzEqs(f *testing.F) {
	c := seeded([seedBytes]byte{2})
	solution, err := eqs{}.solve(bg, c, &search{workers: 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(solution)
	f.Add(make([]byte, eqsBytes))
	k := eqs{}.key(c)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != eqsBytes || !taken(c, b) {
			return
		}
		for i := range eqsHits {
			h := hitOf(b, i)
			if i > 0 && slices.Equal(h, hitOf(b, i-1)) {
				t.Fatalf("hit %d comes twice", i)
			}
			seen, sum := map[uint16]bool{}, uint64(0)
			for j := range eqsIndices {
				index := binary.LittleEndian.Uint16(h[4+2*j:])
				seen[index] = true
				sum += k.value(uint64(binary.BigEndian.Uint32(h))<<16 | uint64(index))
			}
			if len(seen) != eqsIndices || sum%(1<<60) != 0 {
				t.Fatalf("hit %d: %x", i, h)
			}
		}
	})
}

// BenchmarkEqsCounter is what searching one counter takes: eqsEach operations of work.
func BenchmarkEqsCounter(b *testing.B) {
	t, k := new(eqsTable), sipKey{1, 2, 3, 4}
	n, found := uint32(0), 0
	for b.Loop() {
		found += len(t.solutions(&k, n))
		n++
	}
	b.ReportMetric(float64(found)/float64(n), "solutions/counter")
}

// BenchmarkEqsCheck is what the solution alone takes to verify.
func BenchmarkEqsCheck(b *testing.B) {
	c := seeded([seedBytes]byte{3})
	solution, err := eqs{}.solve(bg, c, &search{workers: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !taken(c, solution) {
			b.Fatal("refused")
		}
	}
}
