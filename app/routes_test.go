package app_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"weir"
	"weir/config"
	"weir/console"
)

// routedSite starts a weir with these lines below its one gate, and a second service. SITE and OTHER stand for the
// addresses of the two.
func routedSite(t *testing.T, gate, throttles string) (s *site, other *httptest.Server) {
	t.Helper()
	other = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "other %s %q", r.URL.Path, r.Header.Get("Cookie"))
	}))
	t.Cleanup(other.Close)
	return stampedBy(t, func(s *site) *config.Config { return s.routedConfig(other, gate, throttles) }), other
}

func (s *site) routedConfig(other *httptest.Server, gate, throttles string) *config.Config {
	s.t.Helper()
	cfg, err := config.Parse("weir.yaml", []byte(strings.NewReplacer("SITE", s.server.URL, "OTHER", other.URL).Replace(
		fmt.Sprintf(`
data: %s
http:
- listen: 127.0.0.1:0
  trusted_proxies: [127.0.0.0/8]
  account: ["header:X-Api-Key"]
%s
console: {listen: "127.0.0.1:0", without_login: view}
throttles:
%s`, s.folder, gate, throttles))))
	if err != nil {
		s.t.Fatal(err)
	}
	return cfg
}

// TestNobodyChoosesARoute: no way to write a path leads to the service of a route past the limits of that route.
func TestNobodyChoosesARoute(t *testing.T) {
	t.Parallel()
	s, _ := routedSite(t, `
  upstream: SITE
  routes:
  - {path: /login, throttles: [logins]}
  - {host: "*.example.com", path: /login, throttles: [logins], name: wild}
  - {path: /public, throttles: []}
  - {host: admin.example.com, upstream: SITE, throttles: [logins]}`, `
  logins: {quota: {policies: [{name: few, limit: 3, period: 1h}]}}`)
	ask := func(host, account, path string) int {
		t.Helper()
		return s.send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\n\r\n", path, host, account)).status()
	}
	for i, path := range dodges {
		for _, host := range []string{"", "a.example.com"} {
			account := fmt.Sprintf("%s-%d", host, i)
			for range 3 {
				if got := ask(host+"x", account, "/login"); got != 200 {
					t.Fatalf("%d", got)
				}
			}
			for _, target := range []string{path, "http://" + host + "x" + path} {
				if got := ask(host+"x", account, target); got != 429 && got != 400 {
					t.Errorf("%s %q: %d", host, target, got)
				}
			}
		}
	}
	for _, path := range bystanders {
		if got := ask("x", "many", path); got != 200 && path != "/login/help" { // a route is for what lies below it, too
			t.Errorf("%q: %d", path, got)
		}
	}
	for range 3 {
		if got := ask("admin.example.com", "root", "/"); got != 200 {
			t.Fatalf("%d", got)
		}
	}
	for _, host := range []string{"admin.example.com", "ADMIN.example.com", "admin.example.com.", "admin.example.com:80",
		"admin.example.com..", "admin%2eexample.com", ".admin.example.com"} {
		if got := ask(host, "root", "/"); got != 429 && got != 400 {
			t.Errorf("%q: %d", host, got)
		}
	}
}

// TestRoutesOfTheirOwn: each route has its throttles, its accounts and its capacity; status, metrics and weir why tell
// them apart.
func TestRoutesOfTheirOwn(t *testing.T) {
	t.Parallel()
	const routes = `
  throttles: [edge]
  routes:
  - {name: api, host: api.example.org, path: /v1/, upstream: SITE, throttles: [plans], capacity: {concurrent: 1}, account: [bearer]}
  - {name: web, host: "*.example.org", upstream: OTHER}
  - {name: health, path: /health, answer: {body: ok}, throttles: []}
  - {name: old, host: old.example.net, redirect: https}`
	const throttles = `
  plans: {quota: {policies: [{name: few, limit: 3, period: 1h}], on_missing: refuse}}
  edge: {quota: {policies: [{name: web, limit: 2, period: 1h}]}}`
	s, other := routedSite(t, routes, throttles)
	ask := func(host, path, key, token string) *call {
		t.Helper()
		return s.send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nX-Api-Key: %s\r\nAuthorization: Bearer %s\r\n\r\n", path,
			host, key, token))
	}
	// The one place at the api is taken; the other routes do not notice.
	release := s.holding()
	first := ask("api.example.org", "/v1/a", "ann", "token")
	s.arrives("/v1/a")
	second := ask("api.example.org", "/v1/b", "ann", "token")
	s.until("a request to wait", func() bool { return s.gate().Waiting == 1 })
	ask("www.example.org", "/", "ann", "").want(200)
	ask("api.example.org", "/v2", "ann", "").want(200)
	ask("api.example.org", "/v2", "ann", "").want(429) // by the limit of the gate, for an account by its places
	ask("x", "/health", "ann", "").want(200)
	if at := ask("old.example.net", "/x?y", "bob", "").want(308).resp.Header.Get("Location"); at !=
		"https://old.example.net/x?y" {
		t.Errorf("%q", at)
	}
	ask("nobody", "/", "bob", "").want(404)
	ask("nobody", "/", "bob", "").want(429) // what leads nowhere counts
	s.quiet()
	release()
	first.want(200)
	second.want(200)
	ask("api.example.org", "/v1/c", "", "token").want(200)
	ask("api.example.org", "/v1/d", "", "token").want(429)
	ask("api.example.org", "/v1/d", "ann", "other").want(200)

	g := s.gate()
	counts := map[string]string{}
	for _, r := range g.Routes {
		counts[r.Route] = fmt.Sprint(r.Verdicts["admit"], r.Verdicts["wait"], r.Verdicts["refuse"], " ", r.To())
	}
	for name, want := range map[string]string{"api": "4 0 1 " + s.server.URL, "web": "2 0 1 " + other.URL,
		"health": "1 0 0 answers 200", "old": "1 0 0 redirects to https", "none": "1 0 1 answers 404"} {
		if counts[name] != want {
			t.Errorf("%s: %s, want %s", name, counts[name], want)
		}
	}
	if c := g.Routes[0].Capacity; g.Capacity != nil || c == nil || c.Concurrent != 1 || c.LetIn["pool"] != 4 {
		t.Errorf("%+v", c)
	}
	page := scraped(t, s.app)
	for _, line := range []string{
		`weir_http_route_requests_total{gate="127.0.0.1:0",route="api",verdict="admit"} 4`,
		`weir_http_route_requests_total{gate="127.0.0.1:0",route="none",verdict="refuse"} 1`,
		`weir_capacity_limit{gate="127.0.0.1:0 api"} 1`,
		`weir_bound_reached_total{bound="http_route"} 1`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no %s", line)
		}
	}
	for _, c := range []struct{ host, path, account, route, by, ends string }{
		{"api.example.org", "/v1/x", "token", "api", "plans", ""},
		{"api.example.org", "/x", "ann", "web", "edge", ""},
		{"x", "/health", "ann", "health", "", "the gate answers by itself"},
		{"x", "/", "bob", "none", "edge", "no route matches: 404"},
		{"api.example.org", "/v1/..", "new", "none", "", "servers may read it as a request for several routes: 400"},
	} {
		e, err := console.WhyAskCall.Ask(context.Background(), s.control, console.Question{Method: "GET", Host: c.host,
			Path: c.path, Account: c.account})
		if err != nil || e.Route != c.route || e.By != c.by || e.Ends != c.ends {
			t.Errorf("%+v: %+v %v", c, e, err)
		}
	}
	report, err := console.CapacityCall.Ask(context.Background(), s.control, console.CapacityQuery{})
	if err != nil || len(report.Gates) != 1 || report.Gates[0].Gate != "127.0.0.1:0 api" {
		t.Errorf("%+v %v", report, err)
	}
	for path, want := range map[string]string{"/": "Routes of 127.0.0.1:0", "/capacity": "127.0.0.1:0 api"} {
		resp, err := http.Get("http://" + s.app.ConsoleAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		body := slurp(t, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %s\n%s", path, resp.Status, body)
		}
	}
	// A reload keeps the lanes of the route, with whoever waits there.
	release = s.holding()
	first = ask("api.example.org", "/v1/e", "", "more")
	s.arrives("/v1/b")
	s.arrives("/v1/c")
	s.arrives("/v1/d")
	s.arrives("/v1/e")
	second = ask("api.example.org", "/v1/f", "", "more")
	s.until("a request to wait", func() bool { return s.gate().Waiting == 1 })
	next := strings.NewReplacer("concurrent: 1", "concurrent: 2", "answer: {body: ok}", "answer: {status: 204}").Replace(routes)
	if err := s.app.Reload(s.routedConfig(other, next, throttles)); err != nil {
		t.Fatal(err)
	}
	s.arrives("/v1/f")
	release()
	first.want(200)
	second.want(200)
	ask("x", "/health", "ann", "").want(204)
	if err := s.app.Reload(s.routedConfig(other, strings.ReplaceAll(next, ", capacity: {concurrent: 2}", ""), throttles)); err != nil {
		t.Fatal(err)
	}
	ask("api.example.org", "/v1/g", "", "third").want(200)
	if g := s.gate(); g.Routes[0].Capacity != nil || g.Routes[0].Verdicts["admit"] != 7 {
		t.Errorf("%+v", g.Routes[0])
	}
}

// gate is the state of the one gate.
func (s *site) gate() console.GateStatus {
	s.t.Helper()
	st, err := console.StatusCall.Ask(context.Background(), s.control, console.None{})
	if err != nil {
		s.t.Fatal(err)
	}
	return st.Gates[0]
}

// TestStampsAtARoute: one route of a gate takes stamps, another does not. The files of the page come from the gate,
// whatever the route; places in line are those of a route; and what weir gave to a browser reaches no service.
func TestStampsAtARoute(t *testing.T) {
	t.Parallel()
	s, _ := routedSite(t, `
  upstream: OTHER
  routes:
  - {name: app, path: /app, upstream: SITE, capacity: {concurrent: 10}, throttles: [stamps]}
  - {name: two, path: /two, upstream: SITE, capacity: {concurrent: 10}, throttles: [stamps]}`, `
  stamps: {stamp: {`+always+`}}`)
	p := s.person("192.0.2.1")
	page := p.look("/app/x")
	if page.status != 503 || !strings.Contains(page.body, "/.weir/room.js") {
		t.Fatalf("%d %s", page.status, page.body)
	}
	if script := p.get("/.weir/room.js"); script.status != 200 || !strings.HasPrefix(script.header.Get("Content-Type"), "text/javascript") {
		t.Errorf("%d %v", script.status, script.header)
	}
	names := func(r *reply) (all []string) {
		for _, c := range r.header.Values("Set-Cookie") {
			name, _, _ := strings.Cut(c, "=")
			all = append(all, name)
		}
		return all
	}
	first, second := names(page), names(p.look("/two"))
	ticket := func(name string) bool { return strings.HasPrefix(name, "weir-ticket-") }
	i, j := slices.IndexFunc(first, ticket), slices.IndexFunc(second, ticket)
	if i < 0 || j < 0 || first[i] == second[j] {
		t.Fatalf("%v %v", first, second)
	}
	if got := p.get("/", "Cookie", "a=b"); got.status != 200 || got.body != `other / "a=b"` {
		t.Errorf("%d %s", got.status, got.body)
	}
	// A ticket of one route is unknown at the other.
	q := s.program("192.0.2.2")
	asked := q.get("/app").want(503, "unpaid")
	mine := asked.header.Get("Stamp-Ticket")
	q.get("/two", "Stamp-Ticket", mine).want(503, "unpaid")
	q.get("/app", "Stamp-Ticket", mine).want(200, "") // there is room
	s.arrives("/app")
	q.pays("/app/y")
	s.arrives("/app/y")
	q.pays("/two/y")
	s.arrives("/two/y")
	s.program("192.0.2.3").get("/free").want(200, "")
	e, err := console.WhyAskCall.Ask(context.Background(), s.control, console.Question{Method: "GET", Path: "/app", Source: "192.0.2.9"})
	if err != nil || e.Route != "app" || e.Verdict != weir.Challenge {
		t.Errorf("%+v %v", e, err)
	}
	if work := s.stamps().Stamp.Work; work["127.0.0.1:0 app"] == 0 || work["127.0.0.1:0 two"] == 0 || len(work) != 2 {
		t.Errorf("%v", work)
	}
}
