package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestServerInTwoPools: status, page and metrics say for which routes a server is unhealthy. A server that a reload
// removes raises no alarm any more.
func TestServerInTwoPools(t *testing.T) {
	t.Parallel()
	const routes = `
  routes:
  - {name: api, path: /api, upstream: {servers: ["SITE"], health: {statuses: [500], unhealthy: 1, every: 1h}}}
  - {name: web, path: /web, upstream: SITE}`
	s, other := routedSite(t, routes, `
  idle: {quota: {policies: [{name: few, limit: 3, period: 1h}]}}`)
	s.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	ask := func(path string) {
		t.Helper()
		s.send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)).want(500)
	}
	ask("/web")
	healthy := func(want string) {
		t.Helper()
		line := fmt.Sprintf(`weir_http_upstream_healthy{gate="127.0.0.1:0",server=%q} %s`, s.server.URL, want)
		if page := scraped(t, s.app); !strings.Contains(page, line) {
			t.Errorf("no %s in %s", line, matching(page, "upstream_healthy"))
		}
	}
	healthy("1")
	ask("/api")
	ask("/web")                // for which it is healthy
	s.clock.Advance(time.Hour) // a request may try it again, and none has
	var rows []string
	for _, v := range s.gate().Servers {
		rows = append(rows, fmt.Sprint(v.Server == s.server.URL, " ", v.For(), " ", v.Healthy, " ", v.Requests))
	}
	if got := strings.Join(rows, "; "); got != "true api false 1; true web true 2" {
		t.Error(got)
	}
	healthy("0")
	resp, err := http.Get("http://" + s.app.ConsoleAddr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	body := slurp(t, resp.Body)
	resp.Body.Close()
	for _, want := range []string{`<b class="bad">1 of 2 servers behind 127.0.0.1:0 are unhealthy</b>`,
		`127.0.0.1:0 <small>api</small><td data-label="health" class="w"><b class="bad">unhealthy</b>`,
		`127.0.0.1:0 <small>web</small><td data-label="health" class="w">healthy`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in %s", want, body)
		}
	}
	if err := s.app.Reload(s.routedConfig(other, `
  routes:
  - {name: web, path: /web, upstream: OTHER}`, `
  idle: {quota: {policies: [{name: few, limit: 3, period: 1h}]}}`)); err != nil {
		t.Fatal(err)
	}
	if page := scraped(t, s.app); strings.Contains(page, fmt.Sprintf(`weir_http_upstream_healthy{gate="127.0.0.1:0",server=%q}`, s.server.URL)) {
		t.Errorf("a server that is no more: %s", matching(page, "upstream_healthy"))
	}
}
