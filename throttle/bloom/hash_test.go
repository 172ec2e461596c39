package bloom

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

// sipHash is SipHash-c-d as its paper has it, byte by byte.
func sipHash(c, d int, k Key, message []byte) uint64 {
	v := [4]uint64{k[0] ^ 0x736f6d6570736575, k[1] ^ 0x646f72616e646f6d, k[0] ^ 0x6c7967656e657261,
		k[1] ^ 0x7465646279746573}
	rounds := func(n int) {
		for range n {
			v[0] += v[1]
			v[2] += v[3]
			v[1] = bits.RotateLeft64(v[1], 13)
			v[3] = bits.RotateLeft64(v[3], 16)
			v[1] ^= v[0]
			v[3] ^= v[2]
			v[0] = bits.RotateLeft64(v[0], 32)
			v[2] += v[1]
			v[0] += v[3]
			v[1] = bits.RotateLeft64(v[1], 17)
			v[3] = bits.RotateLeft64(v[3], 21)
			v[1] ^= v[2]
			v[3] ^= v[0]
			v[2] = bits.RotateLeft64(v[2], 32)
		}
	}
	padded := make([]byte, len(message)/8*8+8)
	copy(padded, message)
	padded[len(padded)-1] = byte(len(message))
	for i := 0; i < len(padded); i += 8 {
		m := binary.LittleEndian.Uint64(padded[i:])
		v[3] ^= m
		rounds(c)
		v[0] ^= m
	}
	v[2] ^= 0xff
	rounds(d)
	return v[0] ^ v[1] ^ v[2] ^ v[3]
}

func TestHash(t *testing.T) {
	needs.Unwatched(t)
	// The reference is right: the first and the fifteenth vector of SipHash-2-4.
	key := Key{0x0706050403020100, 0x0f0e0d0c0b0a0908}
	var message [15]byte
	for i := range message {
		message[i] = byte(i)
	}
	if got := sipHash(2, 4, key, nil); got != 0x726fdb47dd0e0e31 {
		t.Fatalf("the reference gives %x for nothing", got)
	}
	if got := sipHash(2, 4, key, message[:]); got != 0xa129ca6149be45e5 {
		t.Fatalf("the reference gives %x for fifteen bytes", got)
	}
	rapid.Check(t, func(rt *rapid.T) {
		key := Key{rapid.Uint64().Draw(rt, "k0"), rapid.Uint64().Draw(rt, "k1")}
		raw := [16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "addr"))

		n := rapid.IntRange(0, 32).Draw(rt, "v4")
		masked := netip.PrefixFrom(netip.AddrFrom4([4]byte(raw[:4])), n).Masked().Addr().As4()
		if got, want := key.Hash(NetworkV4([4]byte(raw[:4]), n)),
			sipHash(1, 3, key, append(masked[:], byte(n))); got != want {
			rt.Errorf("v4: %x, want %x", got, want)
		}
		n = rapid.IntRange(0, 128).Draw(rt, "v6")
		wide := netip.PrefixFrom(netip.AddrFrom16(raw), n).Masked().Addr().As16()
		if got, want := key.Hash(NetworkV6(raw, n)), sipHash(1, 3, key, append(wide[:], byte(n))); got != want {
			rt.Errorf("v6: %x, want %x", got, want)
		}
		group := binary.LittleEndian.Uint32(raw[:4])
		if got, want := key.Hash(NetworkGroup(group)), sipHash(1, 3, key, append(raw[:4:4], 0, 0)); got != want {
			rt.Errorf("group: %x, want %x", got, want)
		}
	})
}
