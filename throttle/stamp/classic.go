package stamp

import (
	"context"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"

	"weir/internal/hmackey"
)

// Bounds of dlog-classic. Above them it becomes dlog of equal work. Below them the subgroup has a single element.
const (
	minClassicBits = 4
	maxClassicBits = 40
)

// classic follows the source document: a = f(M,C) and b = g(M,C) in the field of a small prime, and the stamp is (a, x)
// with a^x = b. The prime is safe, p = 2q+1, and drawn for every challenge. Both values are squared into the subgroup
// of order q and are never 0 or 1, as otherwise there may be no x. n bits of difficulty are n bits of the field.
type classic struct{}

func (classic) fit(w Work) (Algorithm, Work) {
	n := max(bits.Len64(uint64(w)-1), minClassicBits)
	if n > maxClassicBits {
		return dlog{}.fit(w)
	}
	return DLogClassic, 1 << n
}

func (classic) sizes() (int, int) { return 8, 16 }

func (classic) draw(c *Challenge, _ *key) {
	c.Data = binary.BigEndian.AppendUint64(nil, safePrime(bits.Len64(uint64(c.Work)-1), rand.Uint64()))
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
	return 11 // unreachable: there is one for every n up to 40
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

// values are f(M,C) and g(M,C).
func (classic) values(c *Challenge, p uint64) (a, b uint64) {
	member := func(label string) uint64 {
		for n := uint32(0); ; n++ {
			sum := digest(label, n, c.Message, c.Client)
			v := binary.BigEndian.Uint64(sum[:]) % p
			if v = (small{p}).mul(v, v); v > 1 {
				return v
			}
		}
	}
	return member("weir classic f"), member("weir classic g")
}

func (classic) prepare(*Challenge, *hmackey.Hash) bool { return false }

func (d classic) check(c *Challenge, _ *key, _ *hmackey.Hash, solution []byte) bool {
	p := binary.BigEndian.Uint64(c.Data)
	a, b := d.values(c, p)
	x := binary.BigEndian.Uint64(solution[8:])
	return a == binary.BigEndian.Uint64(solution) && x < p/2 && small{p}.pow(a, x) == b
}

func (d classic) solve(ctx context.Context, c *Challenge, s *search) ([]byte, error) {
	p := binary.BigEndian.Uint64(c.Data)
	if p < 7 || bits.Len64(p) > maxClassicBits || !isSafePrime(p) {
		return nil, ErrMalformed // the values would not be in one subgroup, and the search in vain
	}
	a, b := d.values(c, p)
	x, err := logarithm(ctx, small{p}, a, b, p/2, s)
	if err != nil {
		return nil, err
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, a), x), nil
}
