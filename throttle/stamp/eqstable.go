package stamp

// The tables of the search for solutions of eqs60. The solvers for browsers have the same.
const (
	eqsValues  = 1 << 16
	eqsBuckets = 256
	// eqsRoom is how many entries a bucket holds: 256 on average, and 128 more are eight times the usual deviation.
	eqsRoom   = 384
	eqsChains = 128
	// eqsLast is how many chains there are in the last round, where nearly all of them are empty.
	eqsLast = 2048
	// eqsMost is how many solutions of one counter are kept: two on average, and more than 16 once in 10^10.
	eqsMost = 16
)

// An eqsTable is the memory for the search of one counter, 2.2 MiB. It is used again for the next one.
//
// The search goes in three rounds. In each, entries lie in 256 buckets by the lowest eight bits of their sums. Those
// of two buckets that can add up to zero meet through chains by the next bits. In the first two rounds these are
// seven, and each pair whose lowest 15 bits add up to zero is an entry of the next round, without those bits. In the
// third, sums have to be zero as a whole, and eleven bits tell most of the others apart.
type eqsTable struct {
	counts [3][eqsBuckets]uint32
	// The values of the first round; then, in the third, a sum of 30 bits above two places of 17 in the second round.
	first [eqsBuckets * eqsRoom]uint64
	index [eqsBuckets * eqsRoom]uint16
	// Sums of pairs, and their two indices, the smaller one lower.
	second [eqsBuckets * eqsRoom]uint64
	pair   [eqsBuckets * eqsRoom]uint32
	// Chains of the entries of one bucket: places in it plus one; zero ends a chain.
	head  [eqsLast]uint32
	next  [eqsRoom + 1]uint32
	found [eqsMost]eqsSolution
}

// solutions returns the solutions of a counter, in canonical form. They are good until the next call.
func (t *eqsTable) solutions(k *sipKey, counter uint32) []eqsSolution {
	t.counts = [3][eqsBuckets]uint32{}
	base := uint64(counter) << 16
	for i := range uint64(eqsValues) {
		v := k.value(base | i)
		if at, ok := t.place(0, v); ok {
			t.first[at], t.index[at] = v, uint16(i)
		}
	}
	for b := range uint32(eqsBuckets/2 + 1) {
		t.pairs(b, -b%eqsBuckets)
	}
	for b := range uint32(eqsBuckets/2 + 1) {
		t.fours(b, -b%eqsBuckets)
	}
	n := 0
	for b := range uint32(eqsBuckets/2 + 1) {
		n = t.eights(b, -b%eqsBuckets, counter, n)
	}
	return t.found[:n]
}

// place takes a place in the bucket of a sum.
func (t *eqsTable) place(round int, sum uint64) (at uint32, ok bool) {
	b := uint32(sum % eqsBuckets)
	n := t.counts[round][b]
	if n >= eqsRoom {
		return 0, false
	}
	t.counts[round][b] = n + 1
	return b*eqsRoom + n, true
}

// chain puts the entry i of a bucket into the chain of its sum, one of so many.
func (t *eqsTable) chain(i uint32, sum, chains uint64) {
	c := sum / eqsBuckets % chains
	t.next[i+1] = t.head[c]
	t.head[c] = i + 1
}

// pairs is the first round for a bucket and its mate, which is itself where two of its entries can meet.
func (t *eqsTable) pairs(bucket, mate uint32) {
	ours, theirs := t.first[bucket*eqsRoom:][:eqsRoom], t.first[mate*eqsRoom:][:eqsRoom]
	clear(t.head[:eqsChains])
	if mate != bucket {
		for i, v := range ours[:t.counts[0][bucket]] {
			t.chain(uint32(i), v, eqsChains)
		}
	}
	for j, v := range theirs[:t.counts[0][mate]] {
		for i := t.head[-v/eqsBuckets%eqsChains]; i != 0; i = t.next[i] {
			sum := (ours[i-1] + v) >> 15
			if at, ok := t.place(1, sum); ok {
				a, b := uint32(t.index[bucket*eqsRoom+i-1]), uint32(t.index[mate*eqsRoom+uint32(j)])
				t.second[at], t.pair[at] = sum, min(a, b)|max(a, b)<<16
			}
		}
		if mate == bucket {
			t.chain(uint32(j), v, eqsChains)
		}
	}
}

// fours is the second round.
func (t *eqsTable) fours(bucket, mate uint32) {
	ours, theirs := t.second[bucket*eqsRoom:][:eqsRoom], t.second[mate*eqsRoom:][:eqsRoom]
	clear(t.head[:eqsChains])
	if mate != bucket {
		for i, v := range ours[:t.counts[1][bucket]] {
			t.chain(uint32(i), v, eqsChains)
		}
	}
	for j, v := range theirs[:t.counts[1][mate]] {
		for i := t.head[-v/eqsBuckets%eqsChains]; i != 0; i = t.next[i] {
			sum := (ours[i-1] + v) >> 15
			if at, ok := t.place(2, sum); ok {
				t.first[at] = sum<<34 | uint64(bucket*eqsRoom+i-1)<<17 | uint64(mate*eqsRoom+uint32(j))
			}
		}
		if mate == bucket {
			t.chain(uint32(j), v, eqsChains)
		}
	}
}

// eights is the third round: the sum of all has to be zero, not only its lowest bits. It returns how many are found.
func (t *eqsTable) eights(bucket, mate, counter uint32, n int) int {
	ours, theirs := t.first[bucket*eqsRoom:][:eqsRoom], t.first[mate*eqsRoom:][:eqsRoom]
	clear(t.head[:])
	if mate != bucket {
		for i, v := range ours[:t.counts[2][bucket]] {
			t.chain(uint32(i), v>>34, eqsLast)
		}
	}
	for j, v := range theirs[:t.counts[2][mate]] {
		for i := t.head[-(v>>34)/eqsBuckets%eqsLast]; i != 0; i = t.next[i] {
			if (ours[i-1]>>34+v>>34)<<34 != 0 || n == eqsMost {
				continue
			}
			a, b := t.four(ours[i-1]), t.four(v)
			h := eqsSolution{counter, min(a, b), max(a, b)}
			if h.ordered() { // but for those where an index comes twice
				t.found[n] = h
				n++
			}
		}
		if mate == bucket {
			t.chain(uint32(j), v>>34, eqsLast)
		}
	}
	return n
}

// four is the four indices of an entry of the third round, the smaller pair lower.
func (t *eqsTable) four(entry uint64) uint64 {
	a, b := uint64(t.pair[entry>>17&(1<<17-1)]), uint64(t.pair[entry&(1<<17-1)])
	return min(a, b) | max(a, b)<<32
}
