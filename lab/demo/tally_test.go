package demo

import (
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	var y tally
	at := func(ms int64) time.Time { return time.UnixMilli(1_000_000_000 + ms) }
	for i := range int64(10) { // one served every 100 ms, one refused at 1.0 s
		y.add(Served, time.Duration(i+1)*10*time.Millisecond, at(500+100*i))
	}
	y.add(Refused, time.Hour, at(1000))
	y.add(Failed, time.Hour, at(2100))
	f := y.figures()
	if f.Sent != 12 || f.Served != 10 || f.Refused != 1 || f.Failed != 1 {
		t.Errorf("figures: %+v", f)
	}
	if f.P50 < 49 || f.P50 > 51 || f.P99 < 98 || f.P99 > 102 {
		t.Errorf("latencies: %+v", f)
	}
	y.begin()
	if f := y.figures(); f != (Figures{}) {
		t.Errorf("a new half: %+v", f)
	}
	if got := y.at(at(1000).Unix()); got != (counts{sent: 6, served: 5, refused: 1}) {
		t.Errorf("the seconds are gone: %+v", got)
	}
	y.add(Served, 0, at(1000+1000*ringSeconds))
	if got := y.at(at(1000).Unix()); got != (counts{}) {
		t.Errorf("a second that was overwritten: %+v", got)
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	if h.quantile(0.5) != 0 {
		t.Error("an empty one has quantiles")
	}
	for _, d := range []time.Duration{0, time.Nanosecond, 1000 * time.Hour} {
		h.add(d)
	}
	if q := h.quantile(0.5); q > 2*time.Microsecond {
		t.Errorf("median %s", q)
	}
	if q := h.quantile(1); q < 5*time.Minute {
		t.Errorf("most %s", q)
	}
	for _, d := range []time.Duration{time.Millisecond, 20 * time.Millisecond, 3 * time.Second} {
		var h histogram
		h.add(d)
		if off := float64(h.quantile(0.99))/float64(d) - 1; off < -0.011 || off > 0.011 {
			t.Errorf("%s: off by %.3f", d, off)
		}
	}
}
