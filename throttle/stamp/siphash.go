package stamp

import "math/bits"

// A sipKey is the state of a SipHash before the first word.
type sipKey [4]uint64

func newSipKey(k0, k1 uint64) sipKey {
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
	return sipLast(v0, v1, v2, v3)
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

// sipLast is a round and the exclusive or of what it leaves. The first word is in there twice, so it is left out.
func sipLast(v0, v1, v2, v3 uint64) uint64 {
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ (v0 + v1)
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v2 += v1
	return bits.RotateLeft64(v3, 21) ^ bits.RotateLeft64(v1, 17) ^ v2 ^ bits.RotateLeft64(v2, 32)
}

// A sipPairs computes values for the verifier, which needs 128 of them for a stamp: half of the first round is the same
// for all words, and is done once.
type sipPairs struct{ v0, v1, turned, k2, k3 uint64 }

func (k *sipKey) pairs() sipPairs {
	v0 := k[0] + k[1]
	v1 := bits.RotateLeft64(k[1], 13) ^ v0
	return sipPairs{bits.RotateLeft64(v0, 32), v1, bits.RotateLeft64(v1, 17), k[2], k[3]}
}

// sum is the sum of two values. They are computed side by side, as each by itself waits for its last step all the time.
// A processor of five adders is busy with two.
func (p *sipPairs) sum(m, n uint64) uint64 {
	a3, b3 := p.k3^m, p.k3^n
	a2, b2 := p.k2+a3, p.k2+b3
	a3, b3 = bits.RotateLeft64(a3, 16)^a2, bits.RotateLeft64(b3, 16)^b2
	a2, b2 = a2+p.v1, b2+p.v1
	a0, b0 := p.v0+a3, p.v0+b3
	a1, b1 := p.turned^a2, p.turned^b2
	a3, b3 = bits.RotateLeft64(a3, 21)^a0, bits.RotateLeft64(b3, 21)^b0
	a2, b2 = bits.RotateLeft64(a2, 32)^0xff, bits.RotateLeft64(b2, 32)^0xff
	a0, b0 = a0^m, b0^n

	a0, a1, a2, a3 = sipRound(a0, a1, a2, a3)
	b0, b1, b2, b3 = sipRound(b0, b1, b2, b3)
	a0, a1, a2, a3 = sipRound(a0, a1, a2, a3)
	b0, b1, b2, b3 = sipRound(b0, b1, b2, b3)
	return sipLast(a0, a1, a2, a3) + sipLast(b0, b1, b2, b3)
}
