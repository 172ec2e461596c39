package stamp

import (
	"cmp"
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

// A sipKey is the state of a SipHash before the first word.
type sipKey [4]uint64

func (eqs) key(c *Challenge) sipKey {
	seed := c.seed()
	sum := sha256.Sum256(seed[:])
	k0, k1 := binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
	return sipKey{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
}

// value is the SipHash-1-3 of one word. All messages have one length, so the block of the length is left out.
func (k *sipKey) value(m uint64) uint64 {
	v0, v1, v2, v3 := sipRound(k[0], k[1], k[2], k[3]^m)
	v0, v1, v2, v3 = sipRound(v0^m, v1, v2^0xff, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

// effort is the SipHash-1-3 of a solution and its counter, in a domain of its own.
func (k *sipKey) effort(counter uint32, low, high uint64) uint64 {
	v0, v1, v2, v3 := sipRound(k[0], k[1]^0xee, k[2], k[3]^low)
	v0, v1, v2, v3 = sipRound(v0^low, v1, v2, v3^high)
	v0, v1, v2, v3 = sipRound(v0^high, v1, v2, v3^uint64(counter))
	v0, v1, v2, v3 = sipRound(v0^uint64(counter), v1, v2^0xff, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v1
	v0 += v3
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}

func (e eqs) check(c *Challenge, _ *key, solution []byte) bool {
	k, t := e.key(c), e.target(c.Work)
	var before eqsSolution
	for i := range eqsHits {
		h := eqsAt(solution, i)
		// Strictly ascending, so that one hit counts once and one set of hits is written in one way.
		if i > 0 && before.compare(&h) >= 0 {
			return false
		}
		if !h.ordered() || k.effort(h.counter, h.low, h.high) >= t || !k.solves(&h) {
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

func eqsAt(solution []byte, i int) eqsSolution {
	b := solution[i*eqsHit:][:eqsHit]
	le := binary.LittleEndian
	return eqsSolution{binary.BigEndian.Uint32(b), le.Uint64(b[4:]), le.Uint64(b[12:])}
}

func (h *eqsSolution) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, h.counter)
	b = binary.LittleEndian.AppendUint64(b, h.low)
	return binary.LittleEndian.AppendUint64(b, h.high)
}

func (h *eqsSolution) compare(other *eqsSolution) int {
	if h.counter != other.counter {
		return cmp.Compare(h.counter, other.counter)
	}
	return cmp.Or(cmp.Compare(h.high, other.high), cmp.Compare(h.low, other.low))
}

// ordered reports whether the smaller half comes first in every pair, four and eight, and no index comes twice. Halves
// are compared as little-endian numbers, as in Equi-X.
func (h *eqsSolution) ordered() bool {
	if h.low >= h.high || uint32(h.low) >= uint32(h.low>>32) || uint32(h.high) >= uint32(h.high>>32) {
		return false
	}
	return uint16(h.low) < uint16(h.low>>16) && uint16(h.low>>32) < uint16(h.low>>48) &&
		uint16(h.high) < uint16(h.high>>16) && uint16(h.high>>32) < uint16(h.high>>48) && eqsDistinct(h.low, h.high)
}

// eqsDistinct reports whether all of eight indices differ. A word that is turned by one, two and three places and
// compared with itself, or with the other one, has a zero among its four places where two indices are the same.
func eqsDistinct(a, b uint64) bool {
	zero := zeroLane(a^bits.RotateLeft64(a, 16)) | zeroLane(a^bits.RotateLeft64(a, 32)) |
		zeroLane(b^bits.RotateLeft64(b, 16)) | zeroLane(b^bits.RotateLeft64(b, 32)) |
		zeroLane(a^b) | zeroLane(a^bits.RotateLeft64(b, 16)) | zeroLane(a^bits.RotateLeft64(b, 32)) |
		zeroLane(a^bits.RotateLeft64(b, 48))
	return zero == 0
}

// zeroLane is zero if and only if none of the four places of 16 bits is.
func zeroLane(x uint64) uint64 {
	const one, top = 0x0001_0001_0001_0001, 0x8000_8000_8000_8000
	return (x - one) &^ x & top
}

// solves reports whether the values add up to zero, in pairs, fours and all of them.
func (k *sipKey) solves(h *eqsSolution) bool {
	a, ok := k.half(uint64(h.counter)<<16, h.low)
	if !ok {
		return false
	}
	b, ok := k.half(uint64(h.counter)<<16, h.high)
	return ok && (a+b)&(1<<60-1) == 0
}

// half adds up the values of four indices.
func (k *sipKey) half(base, four uint64) (uint64, bool) {
	a := k.value(base|four&0xffff) + k.value(base|four>>16&0xffff)
	b := k.value(base|four>>32&0xffff) + k.value(base|four>>48)
	return a + b, (a|b)&(1<<15-1) == 0 && (a+b)&(1<<30-1) == 0
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
	s.each(func(int) {
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
			s.add(eqsEach)
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
