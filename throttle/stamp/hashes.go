package stamp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
)

// Parts of the hash puzzles. Sixteen keep luck small: of a hundred stamps the costliest costs 1.67 times the average.
const (
	sha256Parts  = 16
	sha256Least  = 38 // a guess is right with (16/38)^16, less than once in a million
	counterBytes = 6
	maxCounter   = 1<<(8*counterBytes) - 1
)

// target returns what the first 64 bits of a hash must stay below, so that each part takes work/parts tries on average.
func target(w, parts uint64) uint64 {
	if w <= parts {
		return math.MaxUint64
	}
	t, _ := bits.Div64(parts, 0, w)
	return t
}

// sha256k is sixteen puzzles of one hash each: for every part i, find a counter n with SHA-256(seed | i | n) below the
// target. All of it fits into one block of the hash.
type sha256k struct{}

func (sha256k) fit(w Work) (Algorithm, Work) { return SHA256K, max(w, sha256Least) }

func (sha256k) sizes() (int, int) { return 0, sha256Parts * counterBytes }

func (sha256k) draw(*Challenge, *key) error { return nil }

// A block is what is hashed: 32 bytes of seed, 8 of part, 8 of counter.
type block [seedBytes + 16]byte

func (b *block) value(part int, n uint64) uint64 {
	binary.BigEndian.PutUint64(b[seedBytes:], uint64(part))
	binary.BigEndian.PutUint64(b[seedBytes+8:], n)
	sum := sha256.Sum256(b[:])
	return binary.BigEndian.Uint64(sum[:])
}

func newBlock(c *Challenge) (b block) {
	seed := c.seed()
	copy(b[:], seed[:])
	return b
}

func (sha256k) check(c *Challenge, _ *key, solution []byte) bool {
	b, t := newBlock(c), target(uint64(c.Work), sha256Parts)
	for i := range sha256Parts {
		if b.value(i, counter(solution, i)) >= t {
			return false
		}
	}
	return true
}

func (sha256k) solve(ctx context.Context, c *Challenge, s *search) ([]byte, error) {
	t := target(uint64(c.Work), sha256Parts)
	return s.parts(ctx, sha256Parts, 1<<12, 1, func() func(int, uint64) bool {
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
