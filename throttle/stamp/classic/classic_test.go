package classic

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestClassicPrimes: primes are safe, of as many bits as asked for, and drawn afresh wherever there is a choice.
func TestClassicPrimes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := MinBits; n <= MaxBits; n++ {
		seen := map[uint64]bool{}
		for range 40 {
			p := safePrime(n, r.Uint64())
			seen[p] = true
			if l := bits.Len64(p); l > n || l < n-1 || l < n && n > 5 {
				t.Fatalf("%d bits: %d", n, p)
			}
			if b := new(big.Int).SetUint64(p); !b.ProbablyPrime(10) || !b.Rsh(b, 1).ProbablyPrime(10) {
				t.Fatalf("%d bits: %d is not a safe prime", n, p)
			}
		}
		if len(seen) < 2 || n > 20 && len(seen) < 35 {
			t.Errorf("%d bits: %d primes in 40 draws", n, len(seen))
		}
	}
	if at4 := (map[uint64]bool{safePrime(4, 0): true, safePrime(4, 1): true, safePrime(4, 2): true,
		safePrime(4, 3): true, safePrime(4, 4): true, safePrime(4, 5): true}); len(at4) != 2 || !at4[7] || !at4[11] {
		t.Errorf("at 4 bits: %v", at4)
	}
}

// TestClassicValues: a and b are in the subgroup and never 0 or 1, so that there always is an x; every puzzle can be
// solved, from the smallest on, by one pair only.
func TestClassicValues(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, bits := range []int{4, 5, 6, 7, 8, 9, 12, 16, 20, 24} {
		for i := range 20 {
			h, prime := of(strings.Repeat("x", i)), Prime(1<<bits, r.Uint64())
			p := binary.BigEndian.Uint64(prime)
			a, b := values(h, p)
			g := small{p}
			if a < 2 || b < 2 || g.pow(a, p/2) != 1 || g.pow(b, p/2) != 1 {
				t.Fatalf("a %d, b %d modulo %d", a, b, p)
			}
			pair, err := Solve(bg, h, prime, &crew{count: 2})
			if err != nil || !Check(h, prime, pair) {
				t.Fatalf("modulo %d: %x, %v", p, pair, err)
			}
			for at := range pair {
				pair[at] ^= 1
				if Check(h, prime, pair) {
					t.Errorf("modulo %d: %x is right, too", p, pair)
				}
				pair[at] ^= 1
			}
			binary.BigEndian.PutUint64(pair[8:], binary.BigEndian.Uint64(pair[8:])+p/2) // x + ord(a)
			if Check(h, prime, pair) {
				t.Errorf("modulo %d: %x is right, too", p, pair)
			}
		}
	}
}

// indexCalculus is the textbook method against dlog-classic: logarithms of small primes from smooth powers of a, once
// for a prime; then every further logarithm costs a handful of tries. It is why the algorithm is labelled weak.
type indexCalculus struct {
	g    small
	q    uint64
	a    uint64
	base []uint64 // small primes
	logs []uint64 // of their squares, to base a, modulo q
	ops  uint64   // multiplications and divisions
}

// smooth returns the exponents of v over the base, or false.
func (ic *indexCalculus) smooth(v uint64) ([]uint64, bool) {
	e := make([]uint64, len(ic.base))
	for i, p := range ic.base {
		for v%p == 0 {
			v /= p
			e[i]++
			ic.ops++
		}
		ic.ops++
	}
	return e, v == 1
}

// prepare collects relations and solves them modulo q. Squares lie in the subgroup: log(p²) for each p of the base are
// the unknowns, and of a^k the square is (∏ p^e)² with the sum of e·log(p²) = 2k.
func (ic *indexCalculus) prepare(r *rand.Rand) {
	for n := uint64(2); len(ic.base) < 40; n++ {
		if isPrime(n) {
			ic.base = append(ic.base, n)
		}
	}
	n := len(ic.base)
	f := small{ic.q}
	neg := func(x uint64) uint64 { return (ic.q - x) % ic.q }
	rows := make([][]uint64, n) // by pivot
	for rank := 0; rank < n; {
		k := r.Uint64N(ic.q)
		e, ok := ic.smooth(ic.g.pow(ic.a, k))
		if !ok {
			continue
		}
		row := append(e, k*2%ic.q)
		for i := range n {
			if row[i] %= ic.q; row[i] == 0 {
				continue
			}
			if rows[i] == nil {
				inv := f.pow(row[i], ic.q-2)
				for j := i; j <= n; j++ {
					row[j] = f.mul(row[j]%ic.q, inv)
				}
				rows[i] = row
				rank++
				break
			}
			c := neg(row[i])
			for j := i; j <= n; j++ {
				row[j] = (row[j]%ic.q + f.mul(c, rows[i][j])) % ic.q
			}
		}
	}
	ic.logs = make([]uint64, n)
	for i := n - 1; i >= 0; i-- {
		v := rows[i][n]
		for j := i + 1; j < n; j++ {
			v = (v + neg(f.mul(rows[i][j], ic.logs[j]))) % ic.q
		}
		ic.logs[i] = v
	}
}

// log finds the logarithm of b.
func (ic *indexCalculus) log(b uint64, r *rand.Rand) uint64 {
	f := small{ic.q}
	for {
		s := r.Uint64N(ic.q)
		ic.ops++
		e, ok := ic.smooth(ic.g.mul(b, ic.g.pow(ic.a, s)))
		if !ok {
			continue
		}
		sum := uint64(0)
		for i := range e {
			sum = (sum + f.mul(e[i]%ic.q, ic.logs[i])) % ic.q
		}
		// 2(x+s) = sum
		return (f.mul(sum, (ic.q+1)/2) + ic.q - s) % ic.q
	}
}

// TestIndexCalculus: the attacker's view of dlog-classic, checked to be right; what it costs is in the documentation.
func TestIndexCalculus(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{24, 32} {
		p := safePrime(n, r.Uint64())
		a, _ := values(of("m"), p)
		ic := &indexCalculus{g: small{p}, q: p / 2, a: a}
		ic.prepare(r)
		once := ic.ops
		const many = 20
		for i := range many {
			_, b := values(of(strings.Repeat("m", i)), p)
			if x := ic.log(b, r); ic.g.pow(a, x) != b {
				t.Fatalf("%d bits: a^%d is not b", n, x)
			}
		}
		t.Logf("%d bits: %d operations once for the prime, then %d for each logarithm; the document's way takes %d, "+
			"baby steps and giant steps %.0f",
			n, once, (ic.ops-once)/many, p/4, 1.5*math.Sqrt(float64(p)/2))
	}
}
