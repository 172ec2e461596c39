package app_test

import (
	"strings"
	"testing"
	"time"
)

// A client with an id that keeps coming without a ticket and without paying is turned away for the rest of the minute.
func TestWhoKeepsComingWithoutPaying(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always+", patience: 3")
	id := ""
	for _, c := range s.person("192.0.2.1").look("/").header.Values("Set-Cookie") {
		if c, _, _ = strings.Cut(c, ";"); strings.HasPrefix(c, "weir-client=") {
			id = c
		}
	}
	get := func() *reply { return s.program("192.0.2.1").get("/", "Cookie", id) }
	for range 3 {
		get().want(503, "unpaid")
	}
	r := get().want(429, "not-paying")
	if r.header.Get("Retry-After") == "" || r.header.Get("Stamp-Challenge") != "" {
		t.Errorf("%v", r.header)
	}
	s.person("192.0.2.2").pays("/")
	s.clock.Advance(time.Minute)
	get().want(503, "unpaid")
}

// TestNewcomersWherePatienceIsUsedUp: where others at the address have left too many challenges unpaid, a new browser
// may pay all the same, more than usual, and its page says so.
func TestNewcomersWherePatienceIsUsedUp(t *testing.T) {
	t.Parallel()
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps]", always+", patience: 3")
	for range 10 {
		s.program("192.0.2.1").get("/").want(503, "unpaid")
	}
	p := s.person("192.0.2.1")
	page := p.look("/")
	if page.status != 503 || !strings.Contains(page.body, "Many requests from your network did not pay") {
		t.Fatalf("%d %s", page.status, page.body)
	}
	p.get("/", "Stamp", solve(t, page.header.Get("Stamp-Challenge"))).want(200, "")
	if other := s.person("192.0.2.2").look("/"); strings.Contains(other.body, "did not pay") {
		t.Error("so does a page elsewhere")
	}
}
