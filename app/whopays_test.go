package app_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/console"
)

// TestWhoPays: the capacity's report names the networks that pay, and no others, with the price and the past.
func TestWhoPays(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always)
	s.program("192.0.2.1").pays("/a")
	s.program("192.0.2.1").pays("/b")
	s.program("2001:db8:1:2::3").pays("/a")
	s.program("192.0.2.9").get("/a").want(503, "unpaid")
	s.clock.Advance(console.HistoryEvery)
	r, err := console.CapacityCall.Ask(t.Context(), s.control, console.CapacityQuery{})
	if err != nil || len(r.Gates) != 1 || r.Gates[0].Stamps == nil {
		t.Fatalf("%+v, %v", r, err)
	}
	g := r.Gates[0]
	var who []string
	for _, p := range g.Stamps.Payers {
		who = append(who, fmt.Sprintf("%s %s %d", p.Kind, p.Name, p.Sure()))
	}
	if got := strings.Join(who, ", "); got != "network 192.0.2.1 2, network 2001:db8:1:2::/64 1" {
		t.Errorf("paid: %s", got)
	}
	if g.Stamps.Asks != 64 || g.Stamps.AsksSeconds <= 0 || g.Stamps.Paid != 3 || g.Capacity.Concurrent != 10 ||
		len(g.Past.At) == 0 || len(g.Past.Columns[console.InLine]) != len(g.Past.At) {
		t.Errorf("%+v", g)
	}
	short, err := console.CapacityCall.Ask(t.Context(), s.control, console.CapacityQuery{Window: console.OneHour,
		Top: 1})
	if err != nil || len(short.Gates[0].Stamps.Payers) != 1 || short.Gates[0].Past.Seconds != 10 {
		t.Errorf("%+v, %v", short, err)
	}
}
