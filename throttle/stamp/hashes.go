package stamp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
)

// The counter of a part in a solution.
const (
	counterBytes = 6
	maxCounter   = 1<<(8*counterBytes) - 1
)

// hashes is a puzzle of independent parts: for each part i, find a counter n so that the hash of seed, i and n is below
// the target.
type hashes struct {
	algorithm Algorithm
	parts     int
	least     Work   // with less, a guess would be right more often than once in a million
	chunk     uint64 // tries that a worker takes at a time
}

// sha256k is sixteen parts of one SHA-256 each, whose input fits into one block of the hash. Sixteen parts keep luck
// small: of a hundred stamps the costliest takes 1.67 times the average. A guess is right with (16/38)^16.
var sha256k = &hashes{SHA256K, 16, 38, 1 << 12}

func (h *hashes) fit(w Work) (Algorithm, Work) { return h.algorithm, max(w, h.least) }

func (h *hashes) sizes() (int, int) { return 0, h.parts * counterBytes }

func (h *hashes) draw(*Challenge, *key) {}

// target is what the first 64 bits of a hash must stay below, so that each part takes its share of the work on average.
func (h *hashes) target(w Work) uint64 {
	all := uint64(h.parts)
	if uint64(w) <= all {
		return math.MaxUint64
	}
	t, _ := bits.Div64(all, 0, uint64(w))
	return t
}

// A block is what is hashed: the seed, the part and the counter.
type block [seedBytes + 16]byte

func newBlock(c *Challenge) (b block) {
	seed := c.seed()
	copy(b[:], seed[:])
	return b
}

// value is the first 64 bits of a hash.
func (b *block) value(part int, n uint64) uint64 {
	binary.BigEndian.PutUint64(b[seedBytes:], uint64(part))
	binary.BigEndian.PutUint64(b[seedBytes+8:], n)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:])
}

func (h *hashes) check(c *Challenge, _ *key, solution []byte) bool {
	b, t := newBlock(c), h.target(c.Work)
	for i := range h.parts {
		if b.value(i, counter(solution, i)) >= t {
			return false
		}
	}
	return true
}

func (h *hashes) solve(ctx context.Context, c *Challenge, s *search) ([]byte, error) {
	t := h.target(c.Work)
	return s.parts(ctx, h.parts, h.chunk, func() func(int, uint64) bool {
		b := newBlock(c)
		return func(part int, n uint64) bool { return b.value(part, n) < t }
	})
}

func counter(solution []byte, part int) uint64 {
	b := solution[part*counterBytes:][:counterBytes]
	return uint64(b[0])<<40 | uint64(b[1])<<32 | uint64(binary.BigEndian.Uint32(b[2:]))
}

func putCounter(solution []byte, part int, n uint64) {
	b := solution[part*counterBytes:][:counterBytes]
	b[0], b[1] = byte(n>>40), byte(n>>32)
	binary.BigEndian.PutUint32(b[2:], uint32(n))
}
