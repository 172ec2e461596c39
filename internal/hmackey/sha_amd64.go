package hmackey

import (
	"crypto/fips140"
	"crypto/sha256"
	"encoding/binary"

	"golang.org/x/sys/cpu"
)

// hasSHA says whether this processor has instructions for SHA-256 that we use. Whoever demands the module of the
// standard library that is certified for FIPS 140 gets it.
var hasSHA = cpu.X86.HasAVX && cpu.X86.HasSSSE3 && cpu.X86.HasSSE41 && shaExtensions() && !fips140.Enabled()

// shaExtensions reports what package cpu does not: bit 29 of EBX, in leaf 7.
func shaExtensions() bool {
	if most, _ := cpuid(0, 0); most < 7 {
		return false
	}
	_, b := cpuid(7, 0)
	return b>>29&1 == 1
}

func cpuid(leaf, part uint32) (most, b uint32)

// shaTables are what the rounds need: the constants of SHA-256, how bytes become words, the state that a sum begins
// with, and the padding of the last block of an HMAC. The assembly knows where each of them is.
type shaTables struct {
	constants [64]uint32
	turn      [16]byte
	first     shaState
	padding   [8]uint32
}

var shaTable = shaTables{
	constants: [64]uint32{
		0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
		0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
		0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
		0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
		0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
		0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
		0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
		0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
	},
	turn: [16]byte{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12},
	first: shaStateOf([8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}),
	padding: [8]uint32{0: 1 << 31, 7: (sha256.BlockSize + sha256.Size) * 8},
}

// A shaState has the words of a state in the order of the registers.
type shaState [8]uint32

func shaStateOf(w [8]uint32) shaState {
	return shaState{w[5], w[4], w[1], w[0], w[7], w[6], w[3], w[2]}
}

// A shaKey has the states after the two blocks that HMAC makes of a secret.
type shaKey struct{ inner, outer shaState }

// shaKeyOf reads the states as the hash of the standard library writes them.
func shaKeyOf(inner, outer []byte) shaKey {
	words := func(state []byte) shaState {
		var w [8]uint32
		for i := range w {
			w[i] = binary.BigEndian.Uint32(state[stateName+4*i:])
		}
		return shaStateOf(w)
	}
	return shaKey{words(inner), words(outer)}
}

// shaMAC writes the HMAC of a text of whole blocks, padded, and the sum of another block beside, unless that is nil. It
// needs hasSHA.
//
//go:noescape
func shaMAC(t *shaTables, k *shaKey, sum *[sha256.Size]byte, text *byte, blocks int, block *[sha256.BlockSize]byte,
	blockSum *[sha256.Size]byte)

// shaBlock writes the sum of a padded block. It needs hasSHA.
//
//go:noescape
func shaBlock(t *shaTables, sum *[sha256.Size]byte, block *[sha256.BlockSize]byte)
