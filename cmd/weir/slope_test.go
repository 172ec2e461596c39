package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/testkit/needs"
)

// A trend is how fast a measured value grows, for each sample.
type trend struct {
	slope, least float64 // the median of the slopes of all pairs of samples, and the lower end of its interval
	median       float64 // of the values
}

// trendOf fits a line by Theil and Sen, which a few spikes do not move. The interval is Sen's, by Kendall's
// distribution: a steady value has a slope below its lower end once in a hundred times.
func trendOf(values []float64) trend {
	n := len(values)
	slopes := make([]float64, 0, n*(n-1)/2)
	for i := range values {
		for j := range i {
			slopes = append(slopes, (values[i]-values[j])/float64(i-j))
		}
	}
	slices.Sort(slopes)
	sorted := slices.Sorted(slices.Values(values))
	const z = 2.326 // 99 %, of one side
	spread := z * math.Sqrt(float64(n*(n-1)*(2*n+5))/18)
	at := max(0, int((float64(len(slopes))-spread)/2))
	return trend{slope: slopes[len(slopes)/2], least: slopes[at], median: sorted[n/2]}
}

// growth is by which share of itself the value grows over so many samples.
func (t trend) growth(samples int) float64 { return t.slope * float64(samples) / t.median }

// leaks tells whether the value grows, for certain and by more than 2 % over so many samples.
func (t trend) leaks(samples int) bool { return t.least > 0 && t.growth(samples) > 0.02 }

// TestTrend: a leak of 3 % is found among noise and spikes, and noise is not taken for one.
func TestTrend(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	const samples = 270
	seeds := uint64(5)
	if needs.Long() {
		seeds = 50
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 0))
		steady, leaking := make([]float64, samples), make([]float64, samples)
		for i := range steady {
			noise := random.NormFloat64() * 0.3
			if random.IntN(20) == 0 {
				noise += 19 // a password is being verified
			}
			steady[i] = 30 + noise
			leaking[i] = steady[i] + 30*0.03*float64(i)/samples
		}
		if s := trendOf(steady); s.leaks(samples) {
			t.Errorf("seed %d: a steady value is said to grow: %+v", seed, s)
		}
		if l := trendOf(leaking); !l.leaks(samples) {
			t.Errorf("seed %d: a leak is not found: %+v", seed, l)
		}
	}
	// Whole numbers: one descriptor for each third reload.
	leaking := make([]float64, samples)
	for i := range leaking {
		leaking[i] = 60 + float64(i/3)
	}
	if !trendOf(leaking).leaks(samples) {
		t.Error("a leak of descriptors is not found")
	}
}
