package reach

import (
	"bytes"
	"fmt"
	"slices"
	"unsafe"
)

// MaxKnown is how many recipients of one user are known. Those beyond it stay new.
const MaxKnown = 1 << 20

// generations say how the settled part is cut: the first recipients make up the first generation, and so on. What is
// settled has lost most of its hash, so later ones, of which there are more, are told apart by more. The number of
// values over their bound is the share of strangers who seem to be known: 0.95% in all generations together. Each bound
// is a multiple of the one before, so that a value of a later generation also gives the one of an earlier.
var generations = [...]struct {
	size  int    // how many it is for
	bound uint32 // hashes are made values below it
}{
	{24_576, firstBound},
	{159_744, 8 * firstBound},
	{MaxKnown - 24_576 - 159_744, 56 * firstBound},
}

const firstBound = 24_576 * 256

// How many recent recipients there may be: a 64th of all, within bounds.
const (
	minRecent   = 64
	maxRecent   = 4096
	recentShare = 64
)

// A Known is the set of the recipients that a user has written to: 1.5 bytes each, one in a hundred strangers seems to
// be in it. It has two parts: the settled one is packed and rarely changes; what is added goes to the recent one, and
// is settled when that gets large. The zero value is empty. It is not safe for concurrent use.
type Known struct {
	recent  []uint32 // the lower halves of the keys, sorted
	settled []byte   // as it is stored (knownbinary.go), not to be changed
	n       int      // settled ones
	times   uint64   // that something was settled
}

// Has reports whether a recipient is known.
func (k *Known) Has(key uint64) bool {
	if _, found := search(k.recent, uint32(key)); found {
		return true
	}
	return len(k.settled) > 0 && inSettled(k.settled, uint32(key))
}

// value is what a hash is in a generation.
func value(h, bound uint32) uint32 { return uint32(uint64(h) * uint64(bound) >> 32) }

// Add makes a recipient known. It reports false for one that is known, or when MaxKnown is reached.
func (k *Known) Add(key uint64) bool {
	h := uint32(key)
	at, found := search(k.recent, h)
	if found || len(k.settled) > 0 && inSettled(k.settled, h) || k.Len() >= MaxKnown {
		return false
	}
	if n := len(k.recent); n == cap(k.recent) {
		k.recent = append(make([]uint32, 0, min(n+max(4, n/4, k.n/recentShare/4), k.mostRecent())), k.recent...)
	}
	k.recent = slices.Insert(k.recent, at, h)
	if len(k.recent) >= k.mostRecent() {
		k.settle()
	}
	return true
}

func (k *Known) mostRecent() int { return max(minRecent, min(k.n/recentShare, maxRecent)) }

// settle packs the recent ones into the newest generation that is not full. One may get a few more than its size.
func (k *Known) settle() {
	sets, _, _ := openSettled(k.settled)
	g := max(len(sets)-1, 0)
	if len(sets) > 0 && int(sets[g].n) >= generations[g].size && g+1 < len(generations) {
		g++
	}
	if g == len(sets) {
		sets = append(sets, packed{bound: generations[g].bound})
	}
	w := newPacker(sets[g].bound, int(sets[g].n)+len(k.recent))
	merge(w, sets[g].all(), k.recent)
	k.n += int(w.n) - int(sets[g].n)
	k.times++
	sets[g] = *w.pack()
	k.settled = appendSettled(k.times, sets)
	k.recent = nil // frees the memory
}

func merge(w *packer, c *cursor, recent []uint32) {
	v, more := c.read()
	last := int64(-1)
	for _, h := range recent {
		r := value(h, w.bound)
		for ; more && v < r; v, more = c.read() {
			w.add(v)
		}
		if (!more || v > r) && int64(r) != last { // two recent ones may be one from now on
			w.add(r)
		}
		last = int64(r)
	}
	for ; more; v, more = c.read() {
		w.add(v)
	}
}

// Len is how many there are.
func (k *Known) Len() int { return k.n + len(k.recent) }

// Bytes is how much memory both parts take.
func (k *Known) Bytes() int { return int(unsafe.Sizeof(*k)) + 4*cap(k.recent) + cap(k.settled) }

// Generation counts how often something was settled: another one than before means another settled part.
func (k *Known) Generation() uint64 { return k.times }

// Merge adds everything that is in another set. What was settled apart stays as coarse as it was, so that sets of
// different people are together wrong as often as both of them; where that would be more than twice as often as usual,
// or there are more than MaxKnown, it is ErrFull, and the set is as before.
func (k *Known) Merge(o *Known) error {
	merged := *k
	merged.recent = nil
	if len(o.settled) > 0 && (len(k.settled) == 0 || !bytes.Equal(k.settled[settledHead:], o.settled[settledHead:])) {
		mine, _, _ := openSettled(k.settled)
		others, _, _ := openSettled(o.settled)
		sets, n, err := mergeSettled(mine, others)
		if err != nil {
			return err
		}
		if n > k.n {
			merged.n, merged.times = n, max(k.times, o.times)+1
			merged.settled = appendSettled(merged.times, sets)
		}
	}
	for _, h := range union(k.recent, o.recent) {
		if len(merged.settled) == 0 || !inSettled(merged.settled, h) {
			merged.recent = append(merged.recent, h)
		}
	}
	if merged.Len() > MaxKnown {
		return fmt.Errorf("%w: %d and %d known ones cannot be merged", ErrFull, k.Len(), o.Len())
	}
	if len(merged.recent) >= merged.mostRecent() {
		merged.settle()
	}
	*k = merged
	return nil
}

// mergeSettled merges generation by generation. Whoever is in an earlier one is not in a later one.
func mergeSettled(a, b []packed) (sets []packed, n int, err error) {
	for g := range max(len(a), len(b)) {
		bound := generations[g].bound
		p, q := packed{bound: bound}, packed{bound: bound}
		if g < len(a) {
			p = a[g]
		}
		if g < len(b) {
			q = b[g]
		}
		w := newPacker(bound, int(p.n+q.n))
		w.union(p.all(), q.all(), sets)
		if int(w.n) > 2*generations[g].size || n+int(w.n) > MaxKnown {
			return nil, 0, fmt.Errorf("%w: %d settled ones of a generation cannot be merged with %d", ErrFull, p.n, q.n)
		}
		n += int(w.n)
		sets = append(sets, *w.pack())
	}
	return sets, n, nil
}

// union packs what is in one of two sets and in no earlier one.
func (w *packer) union(a, b *cursor, earlier []packed) {
	x, inA := a.read()
	y, inB := b.read()
	for inA || inB {
		v := x
		if !inA || inB && y < x {
			v = y
		}
		if !inEarlier(earlier, v, w.bound) {
			w.add(v)
		}
		if inA && x == v {
			x, inA = a.read()
		}
		if inB && y == v {
			y, inB = b.read()
		}
	}
}

func inEarlier(earlier []packed, v, bound uint32) bool {
	for i := range earlier {
		if earlier[i].has(v / (bound / earlier[i].bound)) {
			return true
		}
	}
	return false
}
