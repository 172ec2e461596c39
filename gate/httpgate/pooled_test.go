package httpgate

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	behind "weir/upstream"
)

// TestServersOfPools: a server is listed with the routes that it gets requests of. It stands there twice if two routes
// treat it differently, each with its own health, and once if they do not.
func TestServersOfPools(t *testing.T) {
	var broken atomic.Bool
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(500)
		}
	})
	strict := behind.Options{Servers: []string{up.URL},
		Health: behind.Health{Statuses: []int{500}, Unhealthy: 1, Every: weir.Duration(time.Minute)}}
	g := startRouted(t, Options{Upstream: to(up.URL), Routes: []Route{
		{Name: "slow", Path: "/slow", Timeouts: RouteTimeouts{Response: weir.Duration(time.Minute + time.Second)}},
		{Name: "same", Path: "/same", Throttles: []string{}},
		{Name: "strict", Path: "/strict", Upstream: &strict},
		{Name: "stricter", Path: "/stricter", Upstream: &strict},
		{Name: "fixed", Path: "/fixed", Answer: &Answer{}},
	}}, nil)
	listed := func() (all []string) {
		for _, s := range g.Servers() {
			if s.Server != up.URL {
				t.Errorf("%+v", s)
			}
			all = append(all, fmt.Sprint(s.Routes, s.Requests, s.Well))
		}
		return all
	}
	g.at("a", "/")
	g.at("a", "/same")
	g.at("a", "/strict")
	if got := fmt.Sprint(listed()); got !=
		"[[same default] 2 true [slow] 0 true [strict stricter] 1 true]" {
		t.Error(got)
	}
	broken.Store(true)
	g.at("a", "/stricter")
	g.at("a", "/")
	if got := fmt.Sprint(listed()); got !=
		"[[same default] 3 true [slow] 0 true [strict stricter] 2 false]" {
		t.Error(got)
	}
	// After a while the next request may try it. Until one has, it is down.
	g.clock.Advance(time.Minute)
	if s := g.Servers()[2]; s.Well {
		t.Errorf("%+v", s)
	}
	broken.Store(false)
	g.at("a", "/strict")
	if s := g.Servers()[2]; !s.Well {
		t.Errorf("%+v", s)
	}
	plain := start(t, Options{Upstream: to(up.URL)})
	if s := plain.Servers(); len(s) != 1 || s[0].Routes != nil {
		t.Errorf("%+v", s)
	}
}
