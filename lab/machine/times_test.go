package machine

import (
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	var h Times
	if h.Quantile(0.5) != 0 {
		t.Error("an empty one has quantiles")
	}
	for _, d := range []time.Duration{0, time.Nanosecond, 1000 * time.Hour} {
		h.Add(d)
	}
	if q := h.Quantile(0.5); q > 2*time.Microsecond {
		t.Errorf("median %s", q)
	}
	if q := h.Quantile(1); q < 5*time.Minute {
		t.Errorf("most %s", q)
	}
	for _, d := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 3 * time.Second} {
		var h Times
		h.Add(d)
		if off := float64(h.Quantile(0.99))/float64(d) - 1; off < -0.011 || off > 0.011 {
			t.Errorf("%s: off by %.3f", d, off)
		}
	}
}
