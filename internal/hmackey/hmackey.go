// Package hmackey signs short texts by HMAC-SHA256 without allocating anything for each of them.
package hmackey

import (
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// A Key signs texts. Make it with New. Goroutines may share it.
type Key struct{ hashes sync.Pool } // of *keyed

// keyed is a hash that is used again, so that the key is not hashed for every text.
type keyed struct {
	hash.Hash
	sum [sha256.Size]byte
}

// New returns a key made of a secret, which must not change afterwards.
func New(secret []byte) *Key {
	return &Key{sync.Pool{New: func() any { return &keyed{Hash: hmac.New(sha256.New, secret)} }}}
}

// Sum returns the signature of a text.
func (k *Key) Sum(text []byte) (sum [sha256.Size]byte) {
	h := k.hashes.Get().(*keyed)
	defer k.hashes.Put(h)
	h.Reset()
	h.Write(text)
	h.Hash.Sum(h.sum[:0])
	return h.sum
}
