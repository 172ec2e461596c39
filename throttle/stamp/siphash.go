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
	return sipLast(v0, v1, v2, v3)
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
