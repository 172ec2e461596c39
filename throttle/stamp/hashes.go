package stamp

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"

	"weir/internal/hmackey"
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

// A block is what is hashed: 32 bytes of seed, 8 of part, 8 of counter. The rest is what SHA-256 pads.
type block [sha256.BlockSize]byte

const inBlock = seedBytes + 16

func newBlock(c *Challenge) *block {
	b := new(block)
	b.begin(c, inBlock)
	return b
}

// begin writes the seed, and pads as many bytes.
func (b *block) begin(c *Challenge, n int) {
	clear(b[:])
	copy(b[:], c.Nonce[:])
	copy(b[nonceBytes:], c.tag[:])
	b[n] = 0x80
	binary.BigEndian.PutUint16(b[sha256.BlockSize-2:], uint16(8*n))
}

func (b *block) put(part int, n uint64) {
	binary.BigEndian.PutUint64(b[seedBytes:], uint64(part))
	binary.BigEndian.PutUint64(b[seedBytes+8:], n)
}

// value is the first 64 bits of a hash.
func (h *hashes) value(b *block, part int, n uint64) uint64 {
	b.put(part, n)
	sum := sha256.Sum256(b[:inBlock])
	return binary.BigEndian.Uint64(sum[:])
}

func (*hashes) prepare(*Challenge, *hmackey.Hash) bool { return false }

func (h *hashes) check(c *Challenge, _ *key, hash *hmackey.Hash, solution []byte) bool {
	b, t := (*block)(hash.Text()), h.target(c.Work)
	b.begin(c, inBlock)
	for i := range h.parts {
		b.put(i, counter(solution, i))
		if binary.BigEndian.Uint64(hash.Block()[:]) >= t {
			return false
		}
	}
	return true
}

func (h *hashes) solve(ctx context.Context, c *Challenge, s *search) ([]byte, error) {
	t := h.target(c.Work)
	return s.parts(ctx, h.parts, h.chunk, func() func(int, uint64) bool {
		b := newBlock(c)
		return func(part int, n uint64) bool { return h.value(b, part, n) < t }
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
