// Package hmackey signs short texts by HMAC-SHA256, without allocating anything for each.
package hmackey

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"hash"
	"sync"
)

// A Key signs texts. Make it with New. Goroutines may share it.
type Key struct{ signers sync.Pool } // of *signer

// A signer is an HMAC that is used again. It keeps the text and the sum, which would be allocated for an interface.
type signer struct {
	hmac hash.Hash
	text []byte
	sum  [sha256.Size]byte
}

// New returns a key made of a secret.
func New(secret []byte) *Key {
	secret = bytes.Clone(secret)
	return &Key{sync.Pool{New: func() any { return &signer{hmac: hmac.New(sha256.New, secret)} }}}
}

// Sum returns the signature of a text.
func (k *Key) Sum(text []byte) [sha256.Size]byte {
	s := k.signers.Get().(*signer)
	defer k.signers.Put(s)
	s.hmac.Reset()
	s.text = append(s.text[:0], text...)
	s.hmac.Write(s.text)
	s.hmac.Sum(s.sum[:0])
	return s.sum
}
