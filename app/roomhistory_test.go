package app

import (
	"strings"
	"testing"
	"time"

	"weir/console"
)

// roomy is a gate with two routes that have a capacity of their own, one of them with stamps, and none of the gate.
const roomy = `
data: DATA
http:
- listen: "127.0.0.1:0"
  upstream: UPSTREAM
  routes:
  - {name: paid, path: /v1, upstream: UPSTREAM, capacity: {concurrent: 4}, throttles: [stamps]}
  - {name: free, path: /v2, upstream: UPSTREAM, capacity: {concurrent: 2}}
throttles:
  stamps: {stamp: {schedule: [{load: 0%, work: 64}], never_ask: {paths: ["/v1/*"]}}}
console: {listen: "127.0.0.1:0", without_login: view}
`

// TestHistoryOfRoutes: a route with a capacity of its own has the past that a gate's capacity has, on the overview and
// on the page Capacity. It stays over a reload, and goes with the capacity.
func TestHistoryOfRoutes(t *testing.T) {
	t.Parallel()
	b := start(t, roomy)
	address := b.Addr("http", 0).String()
	h := b.past(0)
	if h.Gate != "127.0.0.1:0 paid" || h.Address != address+" paid" || h.Stamps != "stamps" || len(h.Samples) != 0 {
		t.Errorf("at the start: %+v", h)
	}
	for range 3 {
		b.wants("of which nothing is asked", b.get(0, ""), 200) // below /v1
	}
	b.clock.Advance(console.HistoryEvery)
	b.clock.Advance(console.HistoryEvery)
	paid, free := b.past(0), b.past(1)
	if len(paid.Samples) != 2 || len(free.Samples) != 2 {
		t.Fatalf("%+v %+v", paid, free)
	}
	if s := paid.Samples[0]; s.Stamped+s.Pool != 3 || s.Work != 64 || s.TurnedAway != 0 {
		t.Errorf("three were let in for 64 operations: %+v", s)
	}
	if s := free.Samples[0]; free.Stamps != "" || s.Stamped+s.Pool+s.Load+float64(s.Work) != 0 {
		t.Errorf("nobody came to the other route: %+v", free)
	}
	for _, path := range []string{"/", "/capacity"} {
		code, page := b.page(path)
		for _, want := range []string{"Load of " + address + " paid over the last 5 minutes: now 0%",
			"6 bits, about 64µs on a phone", "Let in at " + address + " free over the last 5 minutes",
			`class="line stamped" d="M99.67`} {
			if code != 200 || !strings.Contains(page, want) {
				t.Errorf("%s: %d: no %q in %s", path, code, want, page)
			}
		}
	}
	o := backend{b.App}.Overview(console.OverviewQuery{})
	if len(o.Gates) != 1 || len(o.Routes) != 2 || o.Routes[0].Name != "127.0.0.1:0 paid" ||
		len(o.Routes[0].Columns[console.Load]) != 2 {
		t.Errorf("%+v", o.Routes)
	}
	b.clock.Advance(2 * console.HourEvery)
	if code, page := b.page("/capacity?window=1h"); code != 200 || !strings.Contains(page, address+" paid over the last hour") {
		t.Errorf("%d: %s", code, page)
	}
	reload := func(text string) {
		t.Helper()
		if err := b.Reload(b.config(text)); err != nil {
			t.Fatal(err)
		}
	}
	reload(strings.Replace(roomy, "concurrent: 4", "concurrent: 5", 1))
	b.clock.Advance(console.HistoryEvery)
	b.wants("samples after a reload", len(b.past(0).Samples), 23)
	b.wants("records of routes", len(recordsOf[*lanes](b)), 2)
	b.clock.Advance(2 * time.Hour)
	var took int64
	for _, r := range recordsOf[*lanes](b) {
		took += r.bytes()
	}
	b.wants("bytes that they take", took, HistoryBytes(0, 2, 0))
	// The capacity of the gate comes before those of its routes.
	reload(strings.Replace(roomy, "  upstream: UPSTREAM\n", "  upstream: UPSTREAM\n  capacity: {concurrent: 9}\n", 1))
	b.wants("the first past", b.past(0).Gate, "127.0.0.1:0")
	b.wants("the second past", b.past(1).Gate, "127.0.0.1:0 paid")
	reload(strings.Replace(roomy, "capacity: {concurrent: 2}", "throttles: []", 1))
	b.clock.Advance(console.HistoryEvery)
	b.wants("records of routes that are left", len(recordsOf[*lanes](b)), 1)
	b.wants("pasts that are left", len(backend{b.App}.History()), 1)
}
