package stamp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
)

// The format of an eqs60 solution: sixteen hits, each a counter of four bytes and eight indices of two.
const (
	eqsHits    = 16
	eqsIndices = 8
	eqsHit     = 4 + 2*eqsIndices
	eqsBytes   = eqsHits * eqsHit

	// eqsEach is how many basic operations it takes to search one counter: eight values are one.
	eqsEach = eqsValues / 8
	// eqsLeast is the work where every solution of a counter is a hit: a counter has two, so eight counters.
	eqsLeast = eqsHits / 2 * eqsEach
)

// eqs is the puzzle eqs60. The seed of the challenge keys a SipHash-1-3. A counter has 2^16 values, one for each index.
// A solution of a counter is eight different indices whose values add up to zero: modulo 2^15 in pairs, modulo 2^30 in
// fours, and modulo 2^60 all of them. That is Equihash(60,3) with the sums and the order of Equi-X. The best known way
// to find solutions keeps all values and sorts them, which takes 2 MiB; a counter has two on average. A solution is a
// hit if its effort, another SipHash, is below a target. A stamp is sixteen different hits, whatever their counters, so
// that luck is small: of a hundred stamps the costliest takes 1.68 times the average.
type eqs struct{}

func (eqs) fit(w Work) (Algorithm, Work) { return EQS60, max(w, eqsLeast) }

func (eqs) sizes() (int, int) { return 0, eqsBytes }

func (eqs) draw(*Challenge, *key) {}

// target is what the effort of a hit stays below.
func (eqs) target(w Work) uint64 {
	if w <= eqsLeast {
		return math.MaxUint64
	}
	t, _ := bits.Div64(eqsLeast, 0, uint64(w))
	return t
}

// key is the key of a challenge: the hash of its seed.
func (eqs) key(c *Challenge) sipKey {
	seed := c.seed()
	sum := sha256.Sum256(seed[:])
	return newSipKey(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))
}

func (e eqs) check(c *Challenge, _ *key, solution []byte) bool {
	k := e.key(c)
	return k.accepts(e.target(c.Work), (*[eqsBytes]byte)(solution))
}

// accepts reports whether a solution is sixteen hits in order, with efforts below a target.
func (k *sipKey) accepts(target uint64, solution *[eqsBytes]byte) bool {
	var before eqsSolution
	for i := range eqsHits {
		b := (*[eqsHit]byte)(solution[i*eqsHit:])
		h := eqsAt(b)
		// Strictly ascending, so that one hit counts once and one set of hits is written in one way.
		if i > 0 && !before.less(&h) {
			return false
		}
		if !h.ordered() || k.effort(h.counter, h.low, h.high) >= target || !k.solves(b) {
			return false
		}
		before = h
	}
	return true
}

// An eqsSolution is a counter and eight indices: four in the low word and four in the high one, the first lowest.
type eqsSolution struct {
	counter   uint32
	low, high uint64
}

func eqsAt(b *[eqsHit]byte) eqsSolution {
	le := binary.LittleEndian
	return eqsSolution{binary.BigEndian.Uint32(b[:]), le.Uint64(b[4:]), le.Uint64(b[12:])}
}

func (h *eqsSolution) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, h.counter)
	b = binary.LittleEndian.AppendUint64(b, h.low)
	return binary.LittleEndian.AppendUint64(b, h.high)
}

func (h *eqsSolution) compare(other *eqsSolution) int {
	switch {
	case h.less(other):
		return -1
	case other.less(h):
		return 1
	}
	return 0
}

// less is whether a subtraction borrows: where counters are the same is a matter of chance, so a branch would often be
// predicted wrongly.
func (h *eqsSolution) less(other *eqsSolution) bool {
	_, borrow := bits.Sub64(h.low, other.low, 0)
	_, borrow = bits.Sub64(h.high, other.high, borrow)
	_, borrow = bits.Sub64(uint64(h.counter), uint64(other.counter), borrow)
	return borrow != 0
}

// ordered reports whether the smaller half comes first in every pair, four and eight, and no index comes twice. Halves
// are compared as little-endian numbers, as in Equi-X: by their last indices, which differ where no index comes twice.
func (h *eqsSolution) ordered() bool {
	a, b := h.low, h.high
	a0, a1, a2, a3 := uint16(a), uint16(a>>16), uint16(a>>32), uint16(a>>48)
	b0, b1, b2, b3 := uint16(b), uint16(b>>16), uint16(b>>32), uint16(b>>48)
	if a0 >= a1 || a2 >= a3 || a1 >= a3 || b0 >= b1 || b2 >= b3 || b1 >= b3 || a3 >= b3 {
		return false
	}
	// What can still be the same: the third of a four and one of the first two, and one of each four. A word that is
	// turned by some places and compared with the other one has a zero where two indices are the same.
	same := zeroLane(a^b) | zeroLane(a^bits.RotateLeft64(b, 16)) | zeroLane(a^bits.RotateLeft64(b, 32)) |
		zeroLane(a^bits.RotateLeft64(b, 48))
	return a0 != a2 && a1 != a2 && b0 != b2 && b1 != b2 && same&laneTops == 0
}

// laneTops are the highest bits of the four places of 16 bits.
const laneTops = 0x8000_8000_8000_8000

// zeroLane has none of the highest bits set if and only if none of the four places of 16 bits is zero.
func zeroLane(x uint64) uint64 {
	const one = 0x0001_0001_0001_0001
	return (x - one) &^ x
}

// solves reports whether the values of a hit add up to zero, in pairs, fours and all of them.
func (k *sipKey) solves(b *[eqsHit]byte) bool {
	base := uint64(binary.BigEndian.Uint32(b[:])) << 16
	low, ok := k.half(base, (*[8]byte)(b[4:]))
	if !ok {
		return false
	}
	high, ok := k.half(base, (*[8]byte)(b[12:]))
	return ok && (low+high)&(1<<60-1) == 0
}

// half adds up the values of four indices.
func (k *sipKey) half(base uint64, b *[8]byte) (uint64, bool) {
	le := binary.LittleEndian
	first := k.value(base|uint64(le.Uint16(b[:]))) + k.value(base|uint64(le.Uint16(b[2:])))
	second := k.value(base|uint64(le.Uint16(b[4:]))) + k.value(base|uint64(le.Uint16(b[6:])))
	return first + second, (first|second)&(1<<15-1) == 0 && (first+second)&(1<<30-1) == 0
}

func (e eqs) solve(ctx context.Context, c *Challenge, s *search) ([]byte, error) {
	return e.solveFrom(ctx, c, s, 0)
}

// solveFrom searches the counters from one on.
func (e eqs) solveFrom(ctx context.Context, c *Challenge, s *search, from uint64) ([]byte, error) {
	k, t := e.key(c), e.target(c.Work)
	var next atomic.Uint64
	next.Store(from)
	var mu sync.Mutex
	var hits []eqsSolution
	var enough atomic.Bool
	s.Each(func(int) {
		table := new(eqsTable)
		for !enough.Load() && ctx.Err() == nil {
			n := next.Add(1) - 1
			if n > math.MaxUint32 {
				return
			}
			for _, h := range table.solutions(&k, uint32(n)) {
				if k.effort(h.counter, h.low, h.high) < t {
					mu.Lock()
					hits = append(hits, h)
					enough.Store(len(hits) >= eqsHits)
					mu.Unlock()
				}
			}
			s.Add(eqsEach)
		}
	})
	if len(hits) < eqsHits {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, ErrTooHard
	}
	hits = hits[:eqsHits]
	slices.SortFunc(hits, func(a, b eqsSolution) int { return a.compare(&b) })
	solution := make([]byte, 0, eqsBytes)
	for _, h := range hits {
		solution = h.append(solution)
	}
	return solution, nil
}
