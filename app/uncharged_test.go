package app_test

import (
	"strings"
	"testing"
)

// TestUnchargedFigures: a request that reached nobody is not charged, and its answer says so: also one that is refused
// because there is no place.
func TestUnchargedFigures(t *testing.T) {
	t.Parallel()
	s := newSite(t, one("{name: hourly, limit: 3, period: 1h}", "{name: together, kind: concurrent, limit: 2}"))
	if got := s.get("ann", "/").want(200).resp.Header.Get("RateLimit"); !strings.Contains(got, `"hourly";r=2`) {
		t.Error(got)
	}
	s.server.Close()
	for range 2 {
		c := s.get("ann", "/").want(502)
		if got := c.resp.Header.Get("RateLimit"); !strings.Contains(got, `"hourly";r=2`) || !strings.Contains(got, `"together";r=2`) {
			t.Error(got)
		}
	}
}
