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
