package app_test

import (
	"strings"
	"testing"
)

// TestNodesWithOneSecret honour each other's ids and stamps.
func TestNodesWithOneSecret(t *testing.T) {
	t.Parallel()
	const gate, options = "capacity: {concurrent: 10}, throttles: [stamps]",
		always + ", secret: the same on all of them"
	one, two := stamped(t, gate, options), stamped(t, gate, options)
	p := one.person("192.0.2.1")
	page := p.look("/")
	good := solve(t, page.header.Get("Stamp-Challenge"))
	p.s, p.address = two, "192.0.2.2" // so that it is known by the id alone
	for _, c := range page.header.Values("Set-Cookie") {
		if name, value, _ := strings.Cut(strings.SplitN(c, ";", 2)[0], "="); name == "weir-client" {
			p.keeps(name, value)
		}
	}
	p.drops("weir-ticket")
	p.get("/", "Stamp", good).want(200, "")
	if got := two.stamps().Stamp; got.Paid != 1 {
		t.Errorf("%+v", got)
	}
}

// TestWhatIsNoLimitHasNone: an answer names a limit only where something is counted.
func TestWhatIsNoLimitHasNone(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always)
	p := s.program("192.0.2.1")
	good := solve(t, p.get("/").want(503, "unpaid").header.Get("Stamp-Challenge"))
	if r := p.get("/", "Stamp", turn(good, 40)).want(403, "forged"); strings.Contains(r.body, `"limit"`) {
		t.Error(r.body)
	}
}
