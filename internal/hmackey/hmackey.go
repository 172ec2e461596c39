// Package hmackey signs short texts by HMAC-SHA256, and hashes single blocks, without allocating anything for each.
package hmackey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"
	"sync"
)

// A Key signs texts. Make it with New. Goroutines may share it.
type Key struct {
	secret       []byte
	inner, outer []byte // the states of SHA-256 after the two blocks that HMAC makes of the secret
	states       shaKey // the same, for processors with instructions for SHA-256
	hashes       sync.Pool
}

// New returns a key made of a secret, which must not change afterwards.
func New(secret []byte) *Key {
	short := secret
	if len(short) > sha256.BlockSize {
		sum := sha256.Sum256(secret)
		short = sum[:]
	}
	inner, outer := after(short, 0x36), after(short, 0x5c)
	return &Key{secret: secret, inner: inner, outer: outer, states: shaKeyOf(inner, outer),
		hashes: sync.Pool{New: func() any { return NewHash() }}}
}

// after is the state of SHA-256 after a block with the secret, each byte of which is changed by a pad.
func after(secret []byte, pad byte) []byte {
	var b [sha256.BlockSize]byte
	copy(b[:], secret)
	for i := range b {
		b[i] ^= pad
	}
	h := NewHash()
	h.Write(b[:])
	state, err := h.AppendBinary(nil)
	if err != nil {
		panic(err) // never fails
	}
	return state
}

// Sum returns the signature of a text.
func (k *Key) Sum(text []byte) [sha256.Size]byte {
	h := k.hashes.Get().(*Hash)
	defer k.hashes.Put(h)
	return k.SumWith(h, text)
}

// SumWith is Sum for those who have a Hash of their own.
func (k *Key) SumWith(h *Hash, text []byte) [sha256.Size]byte {
	if len(text) > maxText {
		return k.long(text)
	}
	if hasSHA {
		var sum [sha256.Size]byte
		shaMAC(&shaTable, &k.states, &sum, &h.text[0], h.pad(text)/sha256.BlockSize, nil, nil)
		return sum
	}
	return k.plain(h, text)
}

// SumBeside is SumWith. If this processor can do both at once, it also hashes the block that stands in Text, so that
// Block has nothing to do if it is called next.
func (k *Key) SumBeside(h *Hash, text []byte) [sha256.Size]byte {
	if !hasSHA || len(text) > maxText {
		return k.SumWith(h, text)
	}
	var sum [sha256.Size]byte
	shaMAC(&shaTable, &k.states, &sum, &h.text[0], h.pad(text)/sha256.BlockSize, &h.block, &h.sum)
	h.done = true
	return sum
}

// long signs a text that a Hash has no room for.
func (k *Key) long(text []byte) [sha256.Size]byte {
	h := hmac.New(sha256.New, k.secret)
	h.Write(text)
	return [sha256.Size]byte(h.Sum(nil))
}

// plain signs a text with the hash of the standard library. The padding is written here, so that a state read after
// whole blocks is the sum. Sum of a hash.Hash copies the hash to do the same, which takes as long as a block.
func (k *Key) plain(h *Hash, text []byte) [sha256.Size]byte {
	inner := h.run(k.inner, h.text[:h.pad(text)])
	b := h.text[:sha256.BlockSize]
	copy(b, inner[:])
	b[sha256.Size] = 0x80
	clear(b[sha256.Size+1:])
	binary.BigEndian.PutUint16(b[sha256.BlockSize-2:], (sha256.BlockSize+sha256.Size)*8)
	return *h.run(k.outer, b)
}

// maxText is what a Hash has room for. Longer texts are signed the slow way.
const maxText = 5*sha256.BlockSize - 9

// The state of SHA-256 as it is written: a word that names the hash, the sum so far, and what is not hashed yet.
const (
	stateName  = 4
	stateBytes = stateName + sha256.Size + sha256.BlockSize + 8
)

// A Hash is a SHA-256 that is used again and again. Make it with NewHash. It is for one goroutine at a time.
type Hash struct {
	state
	text  [maxText + 9]byte
	block [sha256.BlockSize]byte
	sum   [sha256.Size]byte // of the block, if it is done
	done  bool
	after [stateBytes]byte
}

// pad writes a text and the padding behind it, and returns how many bytes of whole blocks these are.
func (h *Hash) pad(text []byte) int {
	n := copy(h.text[:], text)
	end := (n + 1 + 8 + sha256.BlockSize - 1) / sha256.BlockSize * sha256.BlockSize
	clear(h.text[n : end-8])
	h.text[n] = 0x80
	binary.BigEndian.PutUint64(h.text[end-8:], uint64(sha256.BlockSize+n)*8)
	return end
}

// state is what the hash of the standard library is.
type state interface {
	hash.Hash
	encoding.BinaryAppender
	encoding.BinaryUnmarshaler
}

// NewHash returns a Hash.
func NewHash() *Hash {
	return &Hash{state: sha256.New().(state)}
}

// Text is the block that Block hashes. It holds anything to begin with.
func (h *Hash) Text() *[sha256.BlockSize]byte {
	h.done = false
	return &h.block
}

// Block returns the sum of the text that stands in Text and was padded there to one block as SHA-256 demands: a bit of
// one, zeros, and the length in bits. What it returns is good until the next call.
func (h *Hash) Block() *[sha256.Size]byte {
	if hasSHA {
		if !h.done {
			shaBlock(&shaTable, &h.sum, &h.block)
		}
		return &h.sum
	}
	return h.plainBlock()
}

func (h *Hash) plainBlock() *[sha256.Size]byte {
	h.Reset()
	h.Write(h.block[:])
	return h.written()
}

// run returns the sum of whole blocks, from a state on.
func (h *Hash) run(from, blocks []byte) *[sha256.Size]byte {
	if err := h.UnmarshalBinary(from); err != nil {
		panic(err) // it was written by such a hash
	}
	h.Write(blocks)
	return h.written()
}

// written reads the sum of the blocks so far.
func (h *Hash) written() *[sha256.Size]byte {
	if _, err := h.AppendBinary(h.after[:0]); err != nil {
		panic(err) // never fails
	}
	return (*[sha256.Size]byte)(h.after[stateName:])
}
