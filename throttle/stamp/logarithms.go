package stamp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"math/bits"
	"math/rand/v2"

	"weir/throttle/stamp/classic"
)

// dlog is the logarithm in an interval. The exponent is drawn by the key, so that whoever holds the key verifies by
// drawing it again.
type dlog struct{}

func (dlog) fit(w Work) (Algorithm, Work) { return DLog, max(w, classic.LeastInterval) }

func (dlog) sizes() (int, int) { return classic.PowerBytes, classic.ExponentBytes }

func (dlog) interval(c *Challenge) classic.Interval {
	return classic.Interval{Work: uint64(c.Work), Hash: func(label string, n uint32) [sha256.Size]byte {
		return digest(label, n, string(c.Nonce[:]), c.Message, c.Client)
	}}
}

// secret is the exponent, which follows from everything that names the challenge.
func (d dlog) secret(c *Challenge, k *key) []byte {
	h := hmac.New(sha256.New, k.draw[:])
	h.Write(c.appendHead(make([]byte, 0, maxBytes)))
	return d.interval(c).Exponent(h.Sum(nil))
}

func (d dlog) draw(c *Challenge, k *key) { c.Data = d.interval(c).Power(d.secret(c, k)) }

func (d dlog) check(c *Challenge, k *key, solution []byte) bool {
	return hmac.Equal(d.secret(c, k), solution)
}

func (d dlog) solve(ctx context.Context, c *Challenge, s *search) ([]byte, error) {
	return unsolved(d.interval(c).Solve(ctx, c.Data, s))
}

// dlogClassic is the logarithm in a small field. n bits of work are n bits of the field; above 40 it becomes dlog of
// equal work.
type dlogClassic struct{}

func (dlogClassic) fit(w Work) (Algorithm, Work) {
	n := max(bits.Len64(uint64(w)-1), classic.MinBits)
	if n > classic.MaxBits {
		return dlog{}.fit(w)
	}
	return DLogClassic, 1 << n
}

func (dlogClassic) sizes() (int, int) { return classic.PrimeBytes, classic.PairBytes }

func (dlogClassic) hash(c *Challenge) classic.Hash {
	return func(label string, n uint32) [sha256.Size]byte { return digest(label, n, c.Message, c.Client) }
}

func (dlogClassic) draw(c *Challenge, _ *key) { c.Data = classic.Prime(uint64(c.Work), rand.Uint64()) }

func (d dlogClassic) check(c *Challenge, _ *key, solution []byte) bool {
	return classic.Check(d.hash(c), c.Data, solution)
}

func (d dlogClassic) solve(ctx context.Context, c *Challenge, s *search) ([]byte, error) {
	return unsolved(classic.Solve(ctx, d.hash(c), c.Data, s))
}

// unsolved says why there is no logarithm as this package does.
func unsolved(solution []byte, err error) ([]byte, error) {
	switch err {
	case classic.ErrTooHard:
		err = ErrTooHard
	case classic.ErrNoSolution:
		err = ErrMalformed
	}
	return solution, err
}
