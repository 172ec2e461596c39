package flood

import (
	"testing"
	"time"
)

func TestTally(t *testing.T) {
	// 10/s
	o := Options{WarmUp: 2 * time.Second, For: 3 * time.Second, Concurrent: 1,
		Work: 100 * time.Millisecond}.WithDefaults()
	c := newTally(o)
	add := func(g group, at, took time.Duration, r result) { c.add(g, at, took, r) }
	add(people, 500*time.Millisecond, 100*time.Millisecond, served) // in the warm-up
	add(people, 2*time.Second, 1500*time.Millisecond, served)       // the first that counts; served a second later
	add(people, 3*time.Second, 5*time.Second, refused)
	add(people, 4*time.Second, 5*time.Second, failed)
	add(people, 5*time.Second-1, 3*time.Second, served) // the last that counts; served after the end
	add(people, 5*time.Second, 0, served)               // after the end
	add(without, 4*time.Second, time.Second, served)
	for i := range 100 {
		add(flood, 2*time.Second+time.Duration(i)*time.Millisecond, time.Duration(i)*time.Millisecond, result(i%4))
	}
	// two of them in the window
	for i, at := range []time.Duration{0, 2 * time.Second, 3 * time.Second, 5 * time.Second} {
		c.pay(at, payment{work: uint64(100 * i), took: time.Duration(i) * time.Millisecond, phone: time.Second})
	}
	r := c.report(o)
	if want := (Figures{Offered: 4, Served: 2, Refused: 1, Failed: 1, Share: 0.5, P50: 3000,
		P95: 3000}); r.People != want {
		t.Errorf("people %+v, want %+v", r.People, want)
	}
	if want := (Figures{Offered: 1, Served: 1, Share: 1, P50: 1000, P95: 1000}); r.Without != want {
		t.Errorf("without %+v, want %+v", r.Without, want)
	}
	if want := (Figures{Offered: 100, Served: 25, Refused: 25, Failed: 25, Unsent: 25, Share: 0.25, P50: 48,
		P95: 92}); r.Flood != want {
		t.Errorf("flood %+v, want %+v", r.Flood, want)
	}
	if want := (Stamps{Paid: 2, Work: 200, Most: 200, HereMS: 2, PhoneMS: 1000}); r.Stamps == nil || *r.Stamps != want {
		t.Errorf("stamps %+v, want %+v", r.Stamps, want)
	}
	if r.Target.People || !r.Target.Without || r.Target.Met() {
		t.Errorf("target %+v", r.Target)
	}
	wantSeconds := []Second{
		{At: -2, People: Arrived{Came: 1, Got: 1, Served: 1}},
		{At: -1},
		{At: 0, People: Arrived{Came: 1, Got: 1}, Flood: Arrived{Came: 100, Got: 25, Served: 25}},
		{At: 1, People: Arrived{Came: 1, Served: 1}},
		{At: 2, People: Arrived{Came: 2, Got: 1}, Without: Arrived{Came: 1, Got: 1}},
	}
	if len(r.Seconds) != len(wantSeconds) {
		t.Fatalf("%d seconds", len(r.Seconds))
	}
	for i, s := range r.Seconds {
		if s != wantSeconds[i] {
			t.Errorf("second %d: %+v, want %+v", i, s, wantSeconds[i])
		}
	}
}

// TestTarget: those without JavaScript are served all of them, or as many as a tenth of the capacity; people to 95 %.
func TestTarget(t *testing.T) {
	// 100 in all
	o := Options{WarmUp: time.Second, For: 10 * time.Second, Concurrent: 1, Work: 100 * time.Millisecond}.WithDefaults()
	for _, c := range []struct {
		people, lost, without, waiting int
		want                           Target
	}{
		{95, 5, 4, 0, Target{true, true}},
		{94, 6, 4, 0, Target{false, true}},
		{95, 5, 9, 1, Target{true, false}},
		{95, 5, 10, 20, Target{true, true}},
		{0, 0, 0, 0, Target{false, false}},
	} {
		tally := newTally(o)
		for g, n := range map[group][2]int{people: {c.people, c.lost}, without: {c.without, c.waiting}} {
			for range n[0] {
				tally.add(g, 2*time.Second, time.Second, served)
			}
			for range n[1] {
				tally.add(g, 2*time.Second, time.Second, refused)
			}
		}
		if got := tally.report(o).Target; got != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	if got := quantile([]int64(nil), 0.5); got != 0 {
		t.Error(got)
	}
	all := []int64{5, 1, 4, 2, 3}
	for q, want := range map[float64]int64{0: 1, 0.5: 3, 0.95: 5, 1: 5} {
		if got := quantile(all, q); got != want {
			t.Errorf("%g: %d, want %d", q, got, want)
		}
	}
}
