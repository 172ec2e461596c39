package stamp

import (
	"encoding/binary"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestClassicPrimes: primes are safe, of as many bits as asked for, and drawn afresh wherever there is a choice.
func TestClassicPrimes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := minClassicBits; n <= maxClassicBits; n++ {
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

// TestClassicValues: a and b are in the subgroup and never 0 or 1, so that there always is an x; every challenge can be
// solved, from the smallest on.
func TestClassicValues(t *testing.T) {
	o := NewOffice(Parts{})
	for _, bits := range []float64{0, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24} {
		for i := range 20 {
			a := ask(DLogClassic, Bits(bits))
			a.Message = ID(strings.Repeat("x", i))
			s := solved(t, o, a)
			c, _ := ParseChallenge(strings.Split(s, ".")[0])
			p := binary.BigEndian.Uint64(c.Data)
			v, w := classic{}.values(&c, p)
			g := small{p}
			if v < 2 || w < 2 || g.pow(v, p/2) != 1 || g.pow(w, p/2) != 1 {
				t.Fatalf("a %d, b %d modulo %d", v, w, p)
			}
			if _, err := o.Verify(bg, start, s, demand(a)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestClassicClip: above 40 bits it is dlog of equal work.
func TestClassicClip(t *testing.T) {
	for w, want := range map[Work]Algorithm{1 << 40: DLogClassic, 1<<40 + 1: DLog, MaxWork: DLog, 1: DLogClassic} {
		a, got := classic{}.fit(w)
		if a != want || a == DLog && got != w || got < w {
			t.Errorf("%s: %s of %s", w, a, got)
		}
	}
	o := NewOffice(Parts{})
	text, err := o.Issue(start, ask(DLogClassic, 1<<41))
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := ParseChallenge(text); c.Algorithm != DLog || c.Work != 1<<41 {
		t.Errorf("%s", &c)
	}
	// A solver does not trust the prime that it is given.
	for _, p := range []uint64{0, 1, 4, 5, 9, 1<<40 + 15, 13} {
		c := Challenge{Algorithm: DLogClassic, Work: 16, Data: binary.BigEndian.AppendUint64(nil, p)}
		if _, err := (SolveOptions{}).solve(bg, &c); err != ErrMalformed {
			t.Errorf("modulo %d: %v", p, err)
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
		c := Challenge{Message: "m", Client: "c"}
		a, _ := classic{}.values(&c, p)
		ic := &indexCalculus{g: small{p}, q: p / 2, a: a}
		ic.prepare(r)
		once := ic.ops
		const many = 20
		for i := range many {
			c.Message = strings.Repeat("m", i)
			_, b := classic{}.values(&c, p)
			if x := ic.log(b, r); ic.g.pow(a, x) != b {
				t.Fatalf("%d bits: a^%d is not b", n, x)
			}
		}
		t.Logf("%d bits: %d operations once for the prime, then %d for each logarithm; the document's way takes %d, "+
			"baby steps and giant steps %.0f",
			n, once, (ic.ops-once)/many, p/4, Work(1<<n).Time(DLogClassic).Seconds()*phone[DLogClassic])
	}
}
