package plot

import (
	"strings"
	"testing"
)

// TestTicks: axes are divided at round numbers, a few of them.
func TestTicks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a    Axis
		want string
	}{
		{Axis{Lo: 0, Hi: 10}, "0 2 4 6 8 10"},
		{Axis{Lo: 0, Hi: 1}, "0 0.2 0.4 0.6 0.8 1.0"},
		{Axis{Lo: 0, Hi: 1, Whole: true}, "0 1"},
		{Axis{Lo: 5, Hi: 50, Whole: true}, "10 20 30 40 50"},
		{Axis{Lo: 0, Hi: 0.012}, "0 0.002 0.004 0.006 0.008 0.010 0.012"},
		{Axis{Lo: 0, Hi: 60_000}, "0 10k 20k 30k 40k 50k 60k"},
		{Axis{Lo: 0, Hi: 3e6}, "0 500k 1.0M 1.5M 2.0M 2.5M 3.0M"},
		{Axis{Lo: 0, Hi: 1e18}, "0 200P 400P 600P 800P 1.0E"},
		{Axis{Lo: 0.2, Hi: 10, Log: true}, "0.2 0.5 1 2 5 10"},
		{Axis{Lo: 0.001, Hi: 1000, Log: true}, "0.001 0.01 0.1 1 10 100 1000"},
		{Axis{Lo: 1e-6, Hi: 1e6, Log: true}, "0.000001 0.001 1 1000 1M"},
		{Axis{Lo: 3, Hi: 4, Log: true}, "3.0 3.2 3.4 3.6 3.8 4.0"},
	} {
		var got []string
		for _, k := range ticks(c.a, 6) {
			got = append(got, k.Text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q, want %q", c.a, strings.Join(got, " "), c.want)
		}
	}
}
