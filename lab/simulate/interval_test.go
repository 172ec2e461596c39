package simulate

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
)

// TestIntervals: as tables of statistics have them (exact Poisson: Garwood 1936; shares: Wilson 1927).
func TestIntervals(t *testing.T) {
	t.Parallel()
	near := func(what string, got, want Interval) {
		for i := range got {
			if math.Abs(got[i]-want[i]) > 0.0006*max(want[i], 0.1) {
				t.Errorf("%s: %v, want %v", what, got, want)
				return
			}
		}
	}
	for n, want := range map[int]Interval{
		0: {0, 3.6889}, 1: {0.0253, 5.5716}, 2: {0.2422, 7.2247}, 5: {1.6235, 11.6683}, 10: {4.7954, 18.3904},
		20: {12.2165, 30.8884}, 100: {81.3640, 121.6272},
		1000: {938.97, 1063.96},
	} {
		near("poisson", poisson(n), want)
	}
	for _, c := range []struct {
		n, all int
		want   Interval
	}{{0, 10, Interval{0, 0.2775}}, {5, 10, Interval{0.2366, 0.7634}}, {10, 10, Interval{0.7225, 1}},
		{1, 100, Interval{0.00177, 0.05449}}, {0, 0, Interval{0, 1}}} {
		near("wilson", wilson(c.n, c.all), c.want)
	}
	near("of many", poisson(1_000_000), Interval{998_040.98, 1_001_961.91})
}

// What was seen lies in its interval, which is narrower the more there is of it.
func TestIntervalsHoldWhatWasSeen(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20_000).Draw(t, "n")
		i, double := poisson(n), poisson(2*n)
		if !(i[0] < float64(n) && float64(n) < i[1]) || double[1]/double[0] >= i[1]/i[0] {
			t.Fatalf("%d: %v; twice as many: %v", n, i, double)
		}
		all := n + rapid.IntRange(0, 20_000).Draw(t, "others")
		w, p := wilson(n, all), float64(n)/float64(all)
		if !(0 <= w[0] && w[0] <= p && p <= w[1] && w[1] <= 1) {
			t.Fatalf("%d of %d: %v", n, all, w)
		}
	})
}
