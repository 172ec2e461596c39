package bloom

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
)

// A Key makes the slots of a network unpredictable, so that nobody can aim at the limiters of a victim.
type Key [2]uint64

// NewKey returns a random key.
func NewKey() Key {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	return Key{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
}

// A Network is what has one limit: an IPv4 or IPv6 network, or a group of ranges. Networks may be compared by ==.
type Network struct {
	a, b uint64 // the words before the last one, as SipHash reads them
	last uint64 // the last word: what is left, and the length of the whole in the top byte
}

// The lengths of what is hashed, in bytes. Each kind of network has its own, so that none can be taken for another.
const (
	lengthV4    = 5  // the address and how many bits of it count
	lengthGroup = 6  // the number of the group
	lengthV6    = 17 // the address and how many bits of it count
)

// NetworkV4 returns the network of the first n bits of an IPv4 address, n from 0 to 32.
func NetworkV4(addr [4]byte, n int) Network {
	masked := binary.BigEndian.Uint32(addr[:]) & uint32(^uint64(0)<<(32-n))
	return Network{last: uint64(bits.ReverseBytes32(masked)) | uint64(n)<<32 | lengthV4<<56}
}

// NetworkV6 returns the network of the first n bits of an IPv6 address, n from 0 to 128.
func NetworkV6(addr [16]byte, n int) Network {
	return networkV6(binary.BigEndian.Uint64(addr[:]), binary.BigEndian.Uint64(addr[8:]), n)
}

func networkV6(high, low uint64, n int) Network {
	if n <= 64 {
		high, low = high&(^uint64(0)<<(64-n)), 0
	} else {
		low &= ^uint64(0) << (128 - n)
	}
	return Network{a: bits.ReverseBytes64(high), b: bits.ReverseBytes64(low), last: uint64(n) | lengthV6<<56}
}

// wider is the network of the first n bits of an IPv6 network.
func (w Network) wider(n int) Network {
	return networkV6(bits.ReverseBytes64(w.a), bits.ReverseBytes64(w.b), n)
}

// NetworkGroup returns the network of a group, by its number.
func NetworkGroup(number uint32) Network { return Network{last: uint64(number) | lengthGroup<<56} }

// Hash returns SipHash-1-3 of a network.
func (k Key) Hash(n Network) uint64 {
	v0, v1, v2, v3 := k[0]^0x736f6d6570736575, k[1]^0x646f72616e646f6d, k[0]^0x6c7967656e657261, k[1]^0x7465646279746573
	if n.last>>56 == lengthV6 {
		v0, v1, v2, v3 = round(v0, v1, v2, v3^n.a)
		v0, v1, v2, v3 = round(v0^n.a, v1, v2, v3^n.b)
		v0 ^= n.b
	}
	v0, v1, v2, v3 = round(v0, v1, v2, v3^n.last)
	v0, v1, v2, v3 = round(v0^n.last, v1, v2^0xff, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	v0, v1, v2, v3 = round(v0, v1, v2, v3)
	return v0 ^ v1 ^ v2 ^ v3
}

// round is small enough to be inlined.
func round(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32) + v3
	v2 += v1
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	return v0, v1, bits.RotateLeft64(v2, 32), v3
}
