package classic

import (
	"context"
	"encoding/binary"
	"math/bits"
)

// Bounds of the puzzle in a small field, in bits of its prime. Below them the subgroup has a single element.
const (
	MinBits = 4
	MaxBits = 40
)

// Sizes of the puzzle in a small field, in bytes.
const (
	PrimeBytes = 8
	PairBytes  = 16 // (a, x)
)

// Prime draws a prime for a work: n bits of difficulty are n bits of the field. The prime is safe, p = 2q+1.
func Prime(work, random uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, safePrime(bits.Len64(work-1), random))
}

// safePrime returns the first safe prime of n bits after a start, and begins anew at the end of the range. Below six
// bits, primes one bit shorter count too, so that there is a choice: at four bits 7 and 11.
func safePrime(n int, start uint64) uint64 {
	lo, hi := uint64(1)<<(n-1), uint64(1)<<n
	if n < 6 {
		lo /= 2
	}
	span := (hi - lo) / 2
	first := start % span
	for i := range span {
		p := lo + 1 + 2*((first+i)%span)
		if p >= 7 && p%4 == 3 && isSafePrime(p) {
			return p
		}
	}
	return 11 // unreachable: there is one for every number of bits up to 40
}

// isSafePrime reports whether p and (p-1)/2 are prime, for p below 2^40.
func isSafePrime(p uint64) bool {
	q := p / 2
	for _, d := range [...]uint64{3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37} {
		if p%d == 0 && p != d || q%d == 0 && q != d {
			return false
		}
	}
	return isPrime(q) && isPrime(p)
}

// isPrime is the Miller-Rabin test with bases that suffice below 2,152,302,898,747.
func isPrime(n uint64) bool {
	if n < 2 || n%2 == 0 {
		return n == 2
	}
	g := small{n}
	s := bits.TrailingZeros64(n - 1)
	for _, base := range [...]uint64{2, 3, 5, 7, 11} {
		if base%n == 0 {
			continue
		}
		x := g.pow(base%n, (n-1)>>s)
		if x == 1 || x == n-1 {
			continue
		}
		composite := true
		for i := 1; i < s && composite; i++ {
			x = g.mul(x, x)
			composite = x != n-1
		}
		if composite {
			return false
		}
	}
	return true
}

// small is arithmetic modulo a number below 2^63.
type small struct{ p uint64 }

func (g small) mul(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x, y)
	return bits.Rem64(hi, lo, g.p)
}

func (g small) one() uint64 { return 1 }

func (g small) low(x uint64) uint64 { return x }

func (g small) pow(x, n uint64) uint64 {
	r := uint64(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			r = g.mul(r, x)
		}
		x = g.mul(x, x)
	}
	return r
}

// values are f(M,C) and g(M,C), squared into the subgroup of order q. They are never 0 or 1: then there may be no x.
func values(h Hash, p uint64) (a, b uint64) {
	member := func(label string) uint64 {
		for n := uint32(0); ; n++ {
			sum := h(label, n)
			v := binary.BigEndian.Uint64(sum[:]) % p
			if v = (small{p}).mul(v, v); v > 1 {
				return v
			}
		}
	}
	return member("weir classic f"), member("weir classic g")
}

// Check reports whether a pair is right. The prime is one that Prime drew; h hashes message and client.
func Check(h Hash, prime, pair []byte) bool {
	p, x := binary.BigEndian.Uint64(prime), binary.BigEndian.Uint64(pair[8:])
	a, b := values(h, p)
	return a == binary.BigEndian.Uint64(pair) && x < p/2 && small{p}.pow(a, x) == b
}

// Solve finds the pair. It does not trust the prime that it is given.
func Solve(ctx context.Context, h Hash, prime []byte, w Workers) ([]byte, error) {
	p := binary.BigEndian.Uint64(prime)
	if p < 7 || bits.Len64(p) > MaxBits || !isSafePrime(p) {
		return nil, ErrNoSolution // the values would not be in one subgroup, and the search in vain
	}
	a, b := values(h, p)
	x, err := logarithm(ctx, small{p}, a, b, p/2, w)
	if err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a), x), nil
}
