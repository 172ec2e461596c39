package classic

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

var bg = context.Background()

// A crew are workers that count what they do.
type crew struct {
	count int
	done  atomic.Uint64
}

func (c *crew) Count() int   { return c.count }
func (c *crew) Add(n uint64) { c.done.Add(n) }

func (c *crew) Each(f func(worker int)) {
	var all sync.WaitGroup
	for w := range c.count {
		all.Go(func() { f(w) })
	}
	all.Wait()
}

// of hashes what a puzzle is bound to in these tests.
func of(message string) Hash {
	return func(label string, n uint32) [sha256.Size]byte {
		return sha256.Sum256([]byte(label + " " + strconv.Itoa(int(n)) + " " + message))
	}
}

// TestPrime: the prime is the one that its comment tells of.
func TestPrime(t *testing.T) {
	var b []byte
	for _, n := range "012" {
		sum := sha256.Sum256([]byte("weir stamp dlog 768-bit safe prime " + string(n)))
		b = append(b, sum[:]...)
	}
	b[0] |= 0xc0
	p := theField().big
	above := new(big.Int).Sub(p, new(big.Int).SetBytes(b))
	// That none lies between was checked when it was made; here, that it is as near as one can expect.
	if above.Sign() < 0 || above.BitLen() > 20 {
		t.Errorf("it is %s above its start", above)
	}
	if p.BitLen() != 768 || !p.ProbablyPrime(2) || !new(big.Int).Rsh(p, 1).ProbablyPrime(2) {
		t.Error("not a safe prime of 768 bits")
	}
}

// TestField: multiplication agrees with math/big.
func TestField(t *testing.T) {
	needs.Unwatched(t)
	f := theField()
	edges := []*big.Int{new(big.Int), big.NewInt(1), new(big.Int).Sub(f.big, big.NewInt(1)),
		new(big.Int).Sub(f.big, big.NewInt(2))}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) *big.Int {
			if i := rapid.IntRange(0, 20).Draw(t, name+" edge"); i < len(edges) {
				return edges[i]
			}
			n := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), fieldBytes, fieldBytes).Draw(t, name))
			return n.Mod(n, f.big)
		}
		x, y := draw("x"), draw("y")
		var bx, by [fieldBytes]byte
		ex, ok1 := f.elem(x.FillBytes(bx[:]))
		ey, ok2 := f.elem(y.FillBytes(by[:]))
		want := new(big.Int).Mul(x, y)
		want.Mod(want, f.big)
		if got := new(big.Int).SetBytes(f.bytes(f.mul(ex, ey))); !ok1 || !ok2 || got.Cmp(want) != 0 {
			t.Fatalf("%s times %s: %s, want %s", x, y, got, want)
		}
	})
	if _, ok := f.elem(f.big.Bytes()); ok {
		t.Error("the prime itself is an element")
	}
}

// counted is a group that counts what is done in it.
type counted struct {
	*field768
	n *uint64
}

func (c counted) mul(x, y elem) elem { *c.n++; return c.field768.mul(x, y) }

// interleavedSteps is the baby-step giant-step method of an attacker who cares: both sides grow at once, and it ends as
// soon as they meet. On average 4/3 of the root of the width.
func interleavedSteps[E comparable](g group[E], a, inverse, b E, width uint64) uint64 {
	m := uint64(math.Ceil(math.Sqrt(float64(width))))
	back := power64(g, inverse, m, nil)                        // a^-m
	babies, giants := map[uint64]uint64{}, map[uint64]uint64{} // by 64 bits: no two are alike by chance
	baby, giant := g.one(), b
	for i := uint64(0); ; i++ {
		babies[g.low(baby)], giants[g.low(giant)] = i, i
		if j, met := babies[g.low(giant)]; met {
			return i*m + j
		}
		if j, met := giants[g.low(baby)]; met {
			return j*m + i
		}
		baby, giant = g.mul(baby, a), g.mul(giant, back)
	}
}

// TestCost is target S8: what the solvers take on average, against the declared 1.5 times the root of the width.
func TestCost(t *testing.T) {
	const w = uint64(1 << 20)
	declared := 1.5 * math.Sqrt(float64(w))
	f := theField()
	order := new(big.Int).Rsh(f.big, 1)
	for name, c := range map[string]struct {
		seeds       int
		least, most float64
		solve       func(g counted, a, b elem) uint64
	}{
		"baby-step giant-step": {200, 0.85, 1.0, func(g counted, a, b elem) uint64 {
			x, err := babyGiant(bg, g, a, b, w, maxBaby, &crew{count: 1})
			if err != nil {
				t.Fatal(err)
			}
			return x
		}},
		"interleaved": {200, 0.85, 1.0, func(g counted, a, b elem) uint64 {
			// not counted: it is the same for any width
			inverse := power(f, a, new(big.Int).Sub(order, big.NewInt(1)).Bytes(), nil)
			return interleavedSteps(g, a, inverse, b, w)
		}},
		"kangaroo": {200, 0.8, 2.5, func(g counted, a, b elem) uint64 {
			x, err := kangaroo(bg, g, a, b, w, &crew{count: 1})
			if err != nil {
				t.Fatal(err)
			}
			return x
		}},
		"baby-step giant-step in little memory": {30, 0.8, 8, func(g counted, a, b elem) uint64 {
			x, err := babyGiant(bg, g, a, b, w, 1<<7, &crew{count: 1})
			if err != nil {
				t.Fatal(err)
			}
			return x
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			var ops uint64
			for seed := range c.seeds {
				a := Interval{Hash: of(strconv.Itoa(seed))}.base()
				x := r.Uint64N(w)
				if got := c.solve(counted{f, &ops}, a, power64(f, a, x, nil)); got != x {
					t.Fatalf("found %d, not %d", got, x)
				}
			}
			ratio := float64(ops) / float64(c.seeds) / declared
			t.Logf("%.3f of the declared work", ratio)
			if ratio < c.least || ratio > c.most {
				t.Errorf("%.3f of the declared work, want %.2f to %.2f", ratio, c.least, c.most)
			}
		})
	}
}

// TestLogarithmEdges: both ends of the interval are found, by any number of workers; what is not in it is not.
func TestLogarithmEdges(t *testing.T) {
	f := theField()
	a := Interval{Hash: of("")}.base()
	for _, workers := range []int{1, 2, 5} {
		for _, w := range []uint64{16, 17, 100, 4096, 5000} {
			for _, x := range []uint64{0, 1, 2, w / 2, w - 2, w - 1} {
				b := power64(f, a, x, nil)
				if got, err := babyGiant(bg, f, a, b, w, maxBaby, &crew{count: workers}); err != nil || got != x {
					t.Errorf("%d workers, width %d: %d, %v; want %d", workers, w, got, err, x)
				}
				if got, err := babyGiant(bg, f, a, b, w, 3, &crew{count: workers}); err != nil || got != x {
					t.Errorf("%d workers, width %d, little memory: %d, %v; want %d", workers, w, got, err, x)
				}
				if w < 4096 {
					continue
				}
				if got, err := kangaroo(bg, f, a, b, w, &crew{count: workers}); err != nil || got != x {
					t.Errorf("%d workers, width %d, kangaroos: %d, %v; want %d", workers, w, got, err, x)
				}
			}
			if got, err := babyGiant(bg, f, a, power64(f, a, w+w/2+9, nil), w, maxBaby,
				&crew{count: workers}); err != ErrNoSolution {
				t.Errorf("outside the interval: %d, %v", got, err)
			}
		}
	}
}

// TestBothWays: drawing the exponent again and a^x = b agree, for right and for wrong answers.
func TestBothWays(t *testing.T) {
	order := new(big.Int).Rsh(theField().big, 1)
	if order.BitLen() <= 8*ExponentBytes {
		t.Fatal("x + ord(a) can be written as another solution")
	}
	for w := uint64(LeastInterval); w < 20*LeastInterval; w = w*5/4 + 1 {
		i := Interval{w, of(strconv.Itoa(int(w)))}
		x := i.Exponent(order.Bytes())
		b := i.Power(x)
		if new(big.Int).SetBytes(x).Cmp(i.width()) >= 0 {
			t.Fatalf("x = %x, width %s", x, i.width())
		}
		if got, err := i.Solve(bg, b, &crew{count: 2}); err != nil || !slices.Equal(got, x) {
			t.Errorf("work %d: found %x, %v; want %x", w, got, err, x)
		}
		for _, y := range []*big.Int{big.NewInt(1), i.width()} {
			y.Add(y, new(big.Int).SetBytes(x))
			if slices.Equal(i.Power(y.Bytes()), b) {
				t.Errorf("work %d: %s is right, too", w, y)
			}
		}
		if !slices.Equal(i.Power(new(big.Int).Add(order, new(big.Int).SetBytes(x)).Bytes()), b) {
			t.Error("a is not of the order")
		}
	}
}

// TestDoesNotTrust: a solver refuses what is no power, what nobody drew, and what it would never finish.
func TestDoesNotTrust(t *testing.T) {
	i := Interval{LeastInterval, of("")}
	if _, err := i.Solve(bg, theField().big.Bytes(), &crew{count: 1}); err != ErrNoSolution {
		t.Errorf("the prime: %v", err)
	}
	if _, err := i.Solve(bg, i.Power(i.width().Bytes()), &crew{count: 1}); err != ErrNoSolution {
		t.Errorf("an exponent above the interval: %v", err)
	}
	wide := Interval{1 << 44, of("")}
	if _, err := wide.Solve(bg, wide.Power([]byte{1}), &crew{count: 1}); err != ErrTooHard {
		t.Errorf("a wide interval: %v", err)
	}
	for _, p := range []uint64{0, 1, 4, 5, 9, 1<<40 + 15, 13} {
		if _, err := Solve(bg, of(""), binary.BigEndian.AppendUint64(nil, p), &crew{count: 1}); err != ErrNoSolution {
			t.Errorf("modulo %d: %v", p, err)
		}
	}
}
