// Package stored reads bytes that were stored, in forms that have one spelling only. Most callers read everything and
// then look at Bad once.
package stored

import "encoding/binary"

// A Reader reads until something is wrong, and nothing but zeroes from then on.
type Reader struct {
	Left []byte // what was not read yet
	Bad  bool   // something was wrong
}

// Fail notes that something is wrong.
func (r *Reader) Fail() { r.Left, r.Bad = nil, true }

// Take returns the next n bytes, or nil where there are fewer.
func (r *Reader) Take(n uint64) []byte {
	if r.Bad || n > uint64(len(r.Left)) {
		r.Fail()
		return nil
	}
	taken := r.Left[:n:n]
	r.Left = r.Left[n:]
	return taken
}

// Byte reads a byte.
func (r *Reader) Byte() byte { return byte(r.number(1)) }

// Uint16 reads a number of two bytes, big-endian like all others.
func (r *Reader) Uint16() uint16 { return uint16(r.number(2)) }

// Uint32 reads a number of four bytes.
func (r *Reader) Uint32() uint32 { return uint32(r.number(4)) }

func (r *Reader) number(bytes uint64) (n uint64) {
	for _, b := range r.Take(bytes) {
		n = n<<8 | uint64(b)
	}
	return n
}

// Uint64 reads a number of eight bytes.
func (r *Reader) Uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// Count reads a number up to a bound, in as few bytes as it takes (binary.AppendUvarint).
func (r *Reader) Count(most uint64) uint64 {
	v, n := binary.Uvarint(r.Left)
	if n <= 0 || n > 1 && r.Left[n-1] == 0 || v > most {
		r.Fail()
		return 0
	}
	r.Left = r.Left[n:]
	return v
}
