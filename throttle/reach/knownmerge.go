package reach

import (
	"bytes"
	"fmt"
)

// Merge adds everything that is in another set. What was settled apart stays as coarse as it was, so that sets of
// different people are together wrong as often as both of them; where that would be more than twice as often as usual,
// or there are more than MaxKnown, it is ErrFull, and the set is as before.
func (k *Known) Merge(o *Known) error {
	merged := *k
	merged.recent = nil
	if len(o.settled) > 0 && (len(k.settled) == 0 || !bytes.Equal(k.settled[settledHead:], o.settled[settledHead:])) {
		sets, n, err := mergeSettled(openSettled(k.settled), openSettled(o.settled))
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
