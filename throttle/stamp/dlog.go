package stamp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"math/big"
	"strings"

	"weir/internal/hmackey"
)

const exponentBytes = 16

// dlog is a discrete logarithm in an interval: find x below the width with a^x = b. a comes from message, client and
// nonce, and x is drawn by the key, so that whoever holds the key verifies by drawing x again.
type dlog struct{}

// width is that of the interval. The best known methods take 1.33 to 1.5 times the root of the width in products; work
// is the latter.
func width(w Work) *big.Int {
	n := new(big.Int).SetUint64(2 * uint64(w))
	n.Mul(n, n)
	return n.Div(n, big.NewInt(9))
}

// minDLog makes the width at least a million, so that a guess is right once in a million.
const minDLog = 1500

func (dlog) fit(w Work) (Algorithm, Work) { return DLog, max(w, minDLog) }

func (dlog) sizes() (int, int) { return fieldBytes, exponentBytes }

// base is a: a hash of message, client and nonce, squared into the subgroup of prime order, and neither 0 nor 1.
func (dlog) base(c *Challenge) elem {
	f := theField()
	for n := uint32(0); ; n += 3 {
		var wide strings.Builder
		for i := range uint32(3) {
			sum := digest("weir dlog a", n+i, string(c.Nonce[:]), c.Message, c.Client)
			wide.Write(sum[:])
		}
		v := new(big.Int).SetBytes([]byte(wide.String()))
		v.Mod(v, f.big)
		e := f.mul(limbsOf(v), f.rr)
		if e = f.mul(e, e); e != (elem{}) && e != f.unit {
			return e
		}
	}
}

// secret is x: drawn by the key from everything that names the challenge, from zero up to the width.
func (dlog) secret(c *Challenge, k *key) *big.Int {
	h := hmac.New(sha256.New, k.draw[:])
	h.Write(c.appendHead(make([]byte, 0, maxBytes)))
	// 256 bits modulo at most 87 bits: the bias is too small to be seen.
	x := new(big.Int).SetBytes(h.Sum(nil))
	return x.Mod(x, width(c.Work))
}

func (d dlog) draw(c *Challenge, k *key) {
	f := theField()
	c.Data = f.bytes(power(f, d.base(c), d.secret(c, k).Bytes(), nil))
}

func (dlog) prepare(*Challenge, *hmackey.Hash) bool { return false }

func (d dlog) check(c *Challenge, k *key, _ *hmackey.Hash, solution []byte) bool {
	var want [exponentBytes]byte
	d.secret(c, k).FillBytes(want[:])
	return hmac.Equal(want[:], solution)
}

func (d dlog) solve(ctx context.Context, c *Challenge, s *search) ([]byte, error) {
	f := theField()
	b, ok := f.elem(c.Data)
	if !ok {
		return nil, ErrMalformed
	}
	w := width(c.Work)
	if w.BitLen() > maxWidthBits {
		return nil, ErrTooHard
	}
	x, err := logarithm(ctx, f, d.base(c), b, w.Uint64(), s)
	if err != nil {
		return nil, err
	}
	solution := make([]byte, exponentBytes)
	new(big.Int).SetUint64(x).FillBytes(solution)
	return solution, nil
}
