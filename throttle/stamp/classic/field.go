package classic

import (
	"encoding/binary"
	"math/big"
	"math/bits"
	"sync"
)

// Modulus is the prime of dlog in hexadecimal: the first safe prime from three SHA-256 upwards, with the two highest
// bits set: of "weir stamp dlog 768-bit safe prime 0", … 1 and … 2. It is random, so that nobody can have chosen it for
// a weakness, and so long that the logarithms of the whole field cost thousands of core years once, and each one more
// than a stamp.
const Modulus = "fc3280a656b358aace634bbd2aa09f3c89d1b6f1abb05e37b69f159787e46e94554ce1ea19e19e8cb6d3e22190f43efa" +
	"0664a8c8a933b9c538b239a26ea1afecc22f6f9806aa445fb805c450f08b4adb86c7e2e93b937816093fb9a90c64d967"

const (
	limbs      = 12
	fieldBytes = limbs * 8
)

// An elem is a number modulo the prime, in Montgomery form, fully reduced: equal numbers are equal bits.
type elem [limbs]uint64

// A field768 is arithmetic modulo the prime of 768 bits.
type field768 struct {
	p    elem
	n0   uint64 // -1/p modulo 2^64
	rr   elem   // 2^1536 modulo p, to get into Montgomery form
	unit elem   // 1 in Montgomery form
	big  *big.Int
}

// theField is made when it is first needed. Most programs never need it.
var theField = sync.OnceValue(func() *field768 {
	p, _ := new(big.Int).SetString(Modulus, 16)
	f := &field768{p: limbsOf(p), big: p}
	inv := uint64(1)
	for range 6 { // Newton: each step doubles the bits that are right
		inv *= 2 - f.p[0]*inv
	}
	f.n0 = -inv
	r := new(big.Int).Lsh(big.NewInt(1), 64*limbs)
	f.unit = limbsOf(new(big.Int).Mod(r, p))
	f.rr = limbsOf(new(big.Int).Mod(r.Mul(r, r), p))
	return f
})

func limbsOf(n *big.Int) (e elem) {
	var b [fieldBytes]byte
	n.FillBytes(b[:])
	for i := range e {
		e[i] = binary.BigEndian.Uint64(b[fieldBytes-8*i-8:])
	}
	return e
}

// elem reads a number below the prime, big-endian.
func (f *field768) elem(b []byte) (elem, bool) {
	n := new(big.Int).SetBytes(b)
	if n.Cmp(f.big) >= 0 {
		return elem{}, false
	}
	return f.mul(limbsOf(n), f.rr), true
}

// bytes writes a number, big-endian.
func (f *field768) bytes(e elem) []byte {
	plain := f.mul(e, elem{1})
	b := make([]byte, fieldBytes)
	for i, v := range plain {
		binary.BigEndian.PutUint64(b[fieldBytes-8*i-8:], v)
	}
	return b
}

// mul multiplies (coarsely integrated operand scanning).
func (f *field768) mul(x, y elem) elem {
	var t [limbs + 1]uint64
	for i := range y {
		var c, carry, over uint64
		yi := y[i]
		for j := range x {
			hi, lo := bits.Mul64(x[j], yi)
			lo, carry = bits.Add64(lo, t[j], 0)
			hi += carry
			t[j], carry = bits.Add64(lo, c, 0)
			c = hi + carry
		}
		t[limbs], over = bits.Add64(t[limbs], c, 0)
		m := t[0] * f.n0
		hi, lo := bits.Mul64(m, f.p[0])
		_, carry = bits.Add64(lo, t[0], 0)
		c = hi + carry
		for j := 1; j < limbs; j++ {
			hi, lo = bits.Mul64(m, f.p[j])
			lo, carry = bits.Add64(lo, t[j], 0)
			hi += carry
			t[j-1], carry = bits.Add64(lo, c, 0)
			c = hi + carry
		}
		t[limbs-1], carry = bits.Add64(t[limbs], c, 0)
		t[limbs] = over + carry
	}
	var less elem
	var borrow uint64
	for i := range less {
		less[i], borrow = bits.Sub64(t[i], f.p[i], borrow)
	}
	if t[limbs] != 0 || borrow == 0 {
		return less
	}
	return elem(t[:limbs])
}

func (f *field768) one() elem { return f.unit }

func (f *field768) low(e elem) uint64 { return e[0] }
