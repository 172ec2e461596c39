package stamp

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/testkit/needs"
)

// TestLuck is target S5: of a million stamps of sha256-k, the cost of the 99th percentile against the average, by
// simulation with a fixed seed. The tries of a part are geometrically distributed.
func TestLuck(t *testing.T) {
	needs.Unwatched(t)
	const draws, w = 1_000_000, 1 << 20
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	p := float64(sha256k.target(Work(w))) / math.Exp2(64)
	scale := -1 / math.Log1p(-p)
	costs := make([]float64, draws)
	sum := 0.0
	for i := range costs {
		c := 0.0
		for range sha256k.parts {
			c += math.Floor(r.ExpFloat64()*scale) + 1
		}
		costs[i] = c
		sum += c
	}
	mean := sum / draws
	if mean < 0.999*w || mean > 1.001*w {
		t.Errorf("a stamp costs %f on average, not %d", mean, w)
	}
	slices.Sort(costs)
	ratio := costs[draws*99/100] / mean
	t.Logf("p99 / mean = %.3f, declared work / mean = %.4f", ratio, w/mean)
	if ratio > 1.7 {
		t.Errorf("p99 / mean = %.3f", ratio)
	}
}

// TestMeanOfSolver: the real solver takes what is declared, on average, with real hashes.
func TestMeanOfSolver(t *testing.T) {
	const n, w = 300, 1 << 10
	o := NewIssuer(Parts{})
	total := uint64(0)
	for range n {
		text, err := o.Issue(start, ask(SHA256K, w))
		if err != nil {
			t.Fatal(err)
		}
		c, _ := ParseChallenge(text)
		s := &search{workers: 1}
		if _, err := sha256k.solve(bg, &c, s); err != nil {
			t.Fatal(err)
		}
		total += s.done.Load()
	}
	// 4800 parts of 64 tries each: the mean is within 7 % but for one run in a million.
	if mean := float64(total) / n / w; mean < 0.93 || mean > 1.07 {
		t.Errorf("%.3f of the declared work", mean)
	}
}
