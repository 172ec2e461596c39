//go:build !amd64

package hmackey

import "crypto/sha256"

// There is no assembly for these processors here: the standard library has it.
const hasSHA = false

type shaKey struct{}

var shaTable struct{}

func shaKeyOf(_, _ []byte) shaKey { return shaKey{} }

func shaMAC(*struct{}, *shaKey, *[sha256.Size]byte, *byte, int, *[sha256.BlockSize]byte, *[sha256.Size]byte) {
	panic("hmackey: no instructions for SHA-256")
}

func shaBlock(*struct{}, *[sha256.Size]byte, *[sha256.BlockSize]byte) {
	panic("hmackey: no instructions for SHA-256")
}
