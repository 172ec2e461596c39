package classic

import (
	"context"
	"math/big"
	"slices"
)

// Sizes of the puzzle in an interval, in bytes.
const (
	PowerBytes    = fieldBytes // b
	ExponentBytes = 16         // x
)

// LeastInterval is the work of a width of a million, so that a guess is right once in a million.
const LeastInterval = 1500

// An Interval is the puzzle of an exponent in an interval.
type Interval struct {
	Work uint64 // 1.5 times the root of the width, in products
	Hash Hash   // of message, client and nonce
}

// width is that of the interval. The best known methods take 1.33 to 1.5 times the root of the width in products; work
// is the latter.
func (i Interval) width() *big.Int {
	n := new(big.Int).SetUint64(2 * i.Work)
	n.Mul(n, n)
	return n.Div(n, big.NewInt(9))
}

// base is a: a hash, squared into the subgroup of prime order, and neither 0 nor 1.
func (i Interval) base() elem {
	f := theField()
	for n := uint32(0); ; n += 3 {
		first, second, third := i.Hash("weir dlog a", n), i.Hash("weir dlog a", n+1), i.Hash("weir dlog a", n+2)
		v := new(big.Int).SetBytes(slices.Concat(first[:], second[:], third[:]))
		v.Mod(v, f.big)
		e := f.mul(limbsOf(v), f.rr)
		if e = f.mul(e, e); e != (elem{}) && e != f.unit {
			return e
		}
	}
}

// Exponent is x, made of 256 random bits. The bias of these modulo at most 87 bits is too small to be seen.
func (i Interval) Exponent(random []byte) []byte {
	x := new(big.Int).SetBytes(random)
	return x.Mod(x, i.width()).FillBytes(make([]byte, ExponentBytes))
}

// Power is b of an exponent.
func (i Interval) Power(exponent []byte) []byte {
	f := theField()
	return f.bytes(power(f, i.base(), exponent, nil))
}

// Solve finds the exponent of a power.
func (i Interval) Solve(ctx context.Context, of []byte, w Workers) ([]byte, error) {
	f := theField()
	b, ok := f.elem(of)
	if !ok {
		return nil, ErrNoSolution
	}
	width := i.width()
	if width.BitLen() > maxWidthBits {
		return nil, ErrTooHard
	}
	x, err := logarithm(ctx, f, i.base(), b, width.Uint64(), w)
	if err != nil {
		return nil, err
	}
	return new(big.Int).SetUint64(x).FillBytes(make([]byte, ExponentBytes)), nil
}
