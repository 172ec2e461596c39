package httpgate

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/gate/gatetest"
	"weir/gate/httpgate/keys"
	"weir/internal/clock"
	"weir/policy"
	behind "weir/upstream"
)

// startRouted starts a gate with routes and a chain for each of them; nil for that of the gate.
func startRouted(t testing.TB, o Options, chain *policy.Chain, routes ...*policy.Chain) *rig {
	t.Helper()
	return startRoutedIn(t, Env{}, o, chain, routes...)
}

func startRoutedIn(t testing.TB, env Env, o Options, chain *policy.Chain, routes ...*policy.Chain) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(epoch), log: new(gatetest.Log), seen: new(observer)}
	o.Listen = "127.0.0.1:0"
	env.Clock, env.Observer, env.Log = r.clock, r.seen, r.log.JSON(0)
	g, err := New(o, nil, chain, env, routes...)
	if err != nil {
		t.Fatal(err)
	}
	gatetest.Run(t, g)
	r.Gate, r.addr, r.url = g, g.Addr().String(), "http://"+g.Addr().String()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = g.Stop(ctx)
	})
	return r
}

// at asks for a path of a host.
func (r *rig) at(host, path string, header ...string) (*http.Response, string) {
	r.t.Helper()
	req := r.request("GET", path, nil, header...)
	req.Host = host
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(body)
}

// siteAt is an upstream that tells its name and what it got.
func siteAt(t testing.TB, name string) *behind.Options {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s %s", name, r.Host, r.RequestURI, r.Header.Get("X-Route"))
	})
	return new(to(up.URL))
}

func TestRoutes(t *testing.T) {
	mark := func(v string) Headers {
		return Headers{Request: HeaderRules{Set: map[string]string{"X-Route": v}},
			Response: HeaderRules{Set: map[string]string{"X-Site": v}}}
	}
	g := startRouted(t, Options{Routes: []Route{
		{Name: "v1", Host: Hosts{"api.example.org"}, Path: "/v1/", Upstream: siteAt(t, "api"), Headers: mark("v1")},
		{Name: "web", Host: Hosts{"*.example.org"}, Upstream: siteAt(t, "web")},
		{Path: "/health", Answer: &Answer{Body: "ok\n"}},
		{Path: "/gone", Answer: &Answer{Status: 410}},
		{Host: Hosts{"old.example.net", "*.old.example.net"}, Redirect: &Redirect{To: "https"}},
		{Host: Hosts{"other.example.net"}, Redirect: &Redirect{To: "https://new.example.net:8443", Status: 302}},
	}}, nil)
	for _, c := range []struct{ host, path, want string }{
		{"api.example.org", "/v1/users?a=b", "200 api api.example.org /v1/users?a=b v1"},
		{"API.example.org.:80", "/v1", "200 api API.example.org.:80 /v1 v1"},
		{"api.example.org", "/v2", "200 web api.example.org /v2 "},
		{"www.example.org", "/v1", "200 web www.example.org /v1 "},
		{"unknown", "/health", "200 ok\n"},
		{"unknown", "/gone", "410 "},
		{"unknown", "/", "404"},
		{"api.example.org", "/v1/..%2fv2", "400"},
	} {
		res, body := g.at(c.host, c.path)
		if got := fmt.Sprint(res.StatusCode, " ", body); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s%s: %s, want %s", c.host, c.path, got, c.want)
		}
	}
	for _, c := range []struct {
		host, path, want string
		status           int
	}{
		{"old.example.net", "/a/b?c=d&e", "https://old.example.net/a/b?c=d&e", 308},
		{"OLD.example.net.:8080", "/", "https://old.example.net/", 308},
		{"a.old.example.net", "//evil.example/%2f..?//", "https://a.old.example.net//evil.example/%2f..?//", 308},
		{"other.example.net", "/x", "https://new.example.net:8443/x", 302},
	} {
		res, _ := g.at(c.host, c.path)
		if at := res.Header.Get("Location"); res.StatusCode != c.status || at != c.want {
			t.Errorf("%s%s: %s %q", c.host, c.path, res.Status, at)
		}
	}
	res, body := g.at("unknown", "/")
	if doc := problemOf(t, body); doc["status"] != 404.0 || doc["detail"] != "There is nothing at this address." {
		t.Errorf("%v", doc)
	}
	if line := g.accessLine(res.Header.Get("X-Request-Id")); line["route"] != "none" || line["status"] != 404.0 {
		t.Errorf("%v", line)
	}
	if res, body := g.at("unknown", "/", "Accept", "text/html"); !strings.Contains(body, "There is nothing at this address.") ||
		res.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%s", body)
	}
	res, _ = g.at("api.example.org", "/v1")
	if line := g.accessLine(res.Header.Get("X-Request-Id")); line["route"] != "v1" || res.Header.Get("X-Site") != "v1" {
		t.Errorf("%v %v", line, res.Header)
	}
	if n, m := g.seen.bounds(BoundRoute), g.seen.bounds(BoundUnclear); n != 3 || m != 1 {
		t.Errorf("%d without a route, %d unclear", n, m)
	}
	counts := map[string]uint64{}
	for _, r := range g.Routes() {
		counts[r.Name] = r.Verdicts[weir.Admit]
	}
	if got := fmt.Sprint(counts); got !=
		"map[/gone:1 /health:1 none:4 old.example.net:3 other.example.net:1 v1:3 web:2]" {
		t.Error(got)
	}
}

// TestRouteRaw: bytes that a client library would not send.
func TestRouteRaw(t *testing.T) {
	g := startRouted(t, Options{Routes: []Route{
		{Host: Hosts{"a.example"}, Path: "/in", Upstream: siteAt(t, "in")},
		{Host: Hosts{"a.example"}, Upstream: siteAt(t, "a")},
		{Host: Hosts{"*.to.example"}, Redirect: &Redirect{To: "https"}},
		{Path: "/health", Answer: &Answer{Body: "ok"}}}}, nil)
	for request, want := range map[string]string{
		"GET http://a.example/in HTTP/1.1\r\nHost: b.example\r\n\r\n":                     "200 in a.example /in ",
		"GET http://A.EXAMPLE:80/x HTTP/1.1\r\nHost: b.example\r\n\r\n":                   "200 a A.EXAMPLE:80 /x ",
		"GET /in/../x HTTP/1.1\r\nHost: a.example\r\n\r\n":                                "400",
		"GET /x/%2e%2e/in HTTP/1.1\r\nHost: a.example\r\n\r\n":                            "400",
		"GET //in HTTP/1.1\r\nHost: a.example\r\n\r\n":                                    "400",
		"GET /x HTTP/1.1\r\nHost: a.example\r\nX-Original-URL: /in\r\n\r\n":               "200 a a.example /x ",
		"GET /x HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Host: b.example\r\n\r\n":       "200 a a.example /x ",
		"GET /health HTTP/1.0\r\n\r\n":                                                    "200 ok",
		"GET /health HTTP/1.1\r\nHost: a.example..\r\n\r\n":                               "400",
		"GET /health HTTP/1.1\r\nHost: a%2eexample\r\n\r\n":                               "400",
		"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n":                                        "200 ",
		"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":                "200 ok",
		"POST /y HTTP/1.1\r\nHost: x.to.example\r\nContent-Length: 3\r\n\r\nabc":          "308 ",
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                                           "405",
		"GET /health HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\n\r\n":       "200 ok",
		"POST /x HTTP/1.1\r\nHost: evil\r\nContent-Length: 0\r\n\r\n":                     "404",
		"GET /\" HTTP/1.1\r\nHost: x.to.example\r\n\r\n":                                  "308 ",
		"GET /health/%2e%2e HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n\r\n":      "400",
		"GET /health HTTP/1.1\r\nHost: x\r\nX-Forwarded-Prefix: /in\r\n\r\n":              "200 ok",
		"GET /health HTTP/1.1\r\nHost: [::1]\r\n\r\n":                                     "200 ok",
		"GET /health HTTP/1.1\r\nHost: x.a.example\r\nForwarded: host=to.example\r\n\r\n": "200 ok",
	} {
		c := g.dial()
		g.send(c, request)
		res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: strings.Fields(request)[0]})
		if err != nil {
			t.Fatal(request, err)
		}
		body, err := io.ReadAll(res.Body)
		if got := fmt.Sprint(res.StatusCode, " ", string(body)); !strings.HasPrefix(got, want) || err != nil {
			t.Errorf("%q: %s %v, want %s", request, got, err, want)
		}
		if at := res.Header.Get("Location"); strings.ContainsAny(at, "\"\r\n ") {
			t.Errorf("%q: %q", request, at)
		}
	}
}

// TestRouteBehindProxy: what a proxy says about the host cannot lead past the limits of that host.
func TestRouteBehindProxy(t *testing.T) {
	shared := siteAt(t, "shared")
	a := newThrottle(overLimit)
	g := startRouted(t, Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Routes: []Route{
			{Host: Hosts{"a.example"}, Upstream: shared, Throttles: []string{"strict"}},
			{Host: Hosts{"b.example", "c.example"}, Upstream: shared},
			{Host: Hosts{"old.example"}, Upstream: shared, Redirect: &Redirect{To: "https"}},
			{Host: Hosts{"older.example"}, Redirect: &Redirect{To: "https"}},
		}}, nil, chainOf(t, a))
	for _, c := range []struct {
		host, header, value string
		status              int
	}{
		{"a.example", "", "", 429},
		{"b.example", "", "", 200},
		{"b.example", "X-Forwarded-Host", "b.example", 200},
		{"b.example", "X-Forwarded-Host", "c.example", 200}, // the same route
		{"b.example", "X-Forwarded-Host", "a.example", 400},
		{"b.example", "X-Forwarded-Host", "b.example, A.example:80", 400},
		{"b.example", "Forwarded", `for=192.0.2.1;Host="a.example"`, 400},
		{"old.example", "X-Forwarded-Proto", "http", 308},
		{"old.example", "X-Forwarded-Proto", "https", 200},
		{"older.example", "X-Forwarded-Proto", "https", 404}, // it would come back again and again
	} {
		if res, body := g.at(c.host, "/", cmp.Or(c.header, "X-Nothing"), c.value); res.StatusCode != c.status {
			t.Errorf("%+v: %s %s", c, res.Status, body)
		}
	}
}

// TestRoutesOverTLS: two sites with a certificate each, over HTTP/1.1 and HTTP/2.
func TestRoutesOverTLS(t *testing.T) {
	a := newAuthority(t, "routes")
	one, two := a.server("one.example"), a.server("two.example", "*.two.example")
	g := startRouted(t, Options{TLS: &keys.TLS{Cert: one.Cert, Key: one.Key, Certificates: []keys.Certificate{two}},
		Routes: []Route{{Host: Hosts{"one.example"}, Upstream: siteAt(t, "one")},
			{Host: Hosts{"two.example", "*.two.example"}, Upstream: siteAt(t, "two")},
			{Host: Hosts{"*.two.example"}, Path: "/deep", Answer: &Answer{Body: "deep"}}}}, nil)
	for _, h2 := range []bool{false, true} {
		for _, c := range []struct{ name, host, path, want string }{
			{"one.example", "one.example", "/", "200 one one.example / "},
			{"two.example", "two.example", "/", "200 two two.example / "},
			{"a.two.example", "a.two.example", "/deep/er", "200 deep"},
			// A browser uses one connection for all names of a certificate.
			{"a.two.example", "two.example", "/", "200 two two.example / "},
			{"one.example", "three.example", "/", "404"},
		} {
			tr := a.transport(h2, func(o *tls.Config) { o.ServerName = c.name })
			req, err := http.NewRequest("GET", "https://"+g.addr+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = c.host
			res, body := do(t, tr, req)
			got := fmt.Sprint(res.StatusCode, " ", body)
			if !strings.HasPrefix(got, c.want) || (res.ProtoMajor == 2) != h2 {
				t.Errorf("h2 %v %s as %s: %s, want %s", h2, c.host, c.name, got, c.want)
			}
			if leaf := res.TLS.PeerCertificates[0]; leaf.VerifyHostname(c.name) != nil {
				t.Errorf("%s got the certificate of %v", c.name, leaf.DNSNames)
			}
			tr.CloseIdleConnections()
		}
	}
}

// TestRouteChains: throttles, accounts, bounds and timeouts are those of the route.
func TestRouteChains(t *testing.T) {
	silent := make(chan struct{})
	slow := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-silent:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(silent) })
	own := newThrottle(func(ev *weir.Event, a *weir.Answer) error {
		if ev.Account != "ann" {
			return overLimit(ev, a)
		}
		return nil
	})
	edge := newThrottle(nil)
	g := startRouted(t, Options{Throttles: []string{"edge"}, Account: []string{"header:X-Key"}, Bounds: Bounds{Body: 2},
		Routes: []Route{
			{Path: "/own", Upstream: siteAt(t, "own"), Throttles: []string{"own"}, Account: []string{"header:X-Other"}, Body: 5},
			{Path: "/slow", Upstream: new(to(slow.URL)), Timeouts: RouteTimeouts{Response: weir.Duration(time.Millisecond)}},
			{Path: "/free", Answer: &Answer{Body: "free"}, Throttles: []string{}},
			{Path: "/fixed", Answer: &Answer{Body: "fixed"}},
		}}, chainOf(t, edge), chainOf(t, own), nil, chainOf(t))
	for _, c := range []struct {
		path, body, key, other string
		status                 int
	}{
		{"/own", "", "ann", "", 429},
		{"/own", "", "bob", "ann", 200},
		{"/own", "12345", "", "ann", 200},
		{"/own", "123456", "", "ann", 413},
		{"/fixed", "123", "", "", 413},
		{"/fixed", "12", "", "", 200},
		{"/slow", "", "", "", 504},
		{"/free", "", "", "", 200},
		{"/nothing", "", "", "", 404},
	} {
		req := g.request("POST", c.path, strings.NewReader(c.body), "X-Key", c.key, "X-Other", c.other)
		if res, body := g.do(req); res.StatusCode != c.status {
			t.Errorf("%+v: %s %s", c, res.Status, body)
		}
	}
	// What a route answers by itself, or not at all, counts against limits, too. A request is settled after its answer,
	// so the next one may be ahead of it.
	settled := map[int]bool{}
	for range 3 {
		o := receive(t, edge.Settled)
		if settled[o.Status] = true; !o.Done {
			t.Errorf("%+v", o)
		}
	}
	if len(settled) != 3 || !settled[200] || !settled[404] {
		t.Errorf("settled with %v", settled)
	}
}

// TestRouteReload: connections and counts of routes that stay are kept, under load.
func TestRouteReload(t *testing.T) {
	var mu sync.Mutex
	opened := map[string]bool{}
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		opened[r.RemoteAddr] = true
		mu.Unlock()
		_, _ = io.WriteString(w, "kept")
	})
	kept := Route{Name: "kept", Path: "/kept", Upstream: new(to(up.URL))}
	o := Options{Listen: "127.0.0.1:0", Routes: []Route{kept, {Name: "x", Path: "/x", Upstream: siteAt(t, "old")}}}
	g := startRouted(t, o, nil)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	get := func(path string) (int, string) {
		t.Helper()
		res, body := do(t, tr, g.request("GET", path, nil))
		return res.StatusCode, body
	}
	stop := make(chan bool)
	var load sync.WaitGroup
	load.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				res, body, err := try(tr, g.request("GET", "/kept", nil))
				if err != nil || res.StatusCode != 200 || body != "kept" {
					t.Errorf("%v %s", err, body)
					return
				}
			}
		}
	})
	for i := range 20 {
		next := o
		next.Routes = []Route{{Name: "x", Path: "/x", Upstream: siteAt(t, fmt.Sprint("new", i))}, kept}
		commit, _, err := g.Prepare(next, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		commit()
		if _, body := get("/x"); !strings.HasPrefix(body, fmt.Sprint("new", i)) {
			t.Errorf("%s", body)
		}
	}
	close(stop)
	load.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(opened) != 1 {
		t.Errorf("%d connections to the upstream that stayed", len(opened))
	}
	for _, r := range g.Routes() {
		if r.Name == "x" && r.Verdicts[weir.Admit] != 20 {
			t.Errorf("%+v", r)
		}
	}
	// A reload that fails leaves everything as it was.
	bad := o
	bad.Routes = append([]Route{kept}, Route{Path: "/y"})
	if _, _, err := g.Prepare(bad, nil, nil); err == nil {
		t.Error("taken")
	}
	next := o
	next.Routes = []Route{kept}
	_, abort, err := g.Prepare(next, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	abort()
	if status, _ := get("/x"); status != 200 {
		t.Errorf("%d", status)
	}
}

// TestRoutesSharePools: routes to the same service, with the same timeouts, share connections.
func TestRoutesSharePools(t *testing.T) {
	up := to("http://127.0.0.1:1")
	s, err := newSetup(Options{Listen: ":0", Upstream: up, Routes: []Route{{Path: "/a"}, {Path: "/b", Upstream: &up},
		{Path: "/c", Timeouts: RouteTimeouts{Connect: weir.Duration(time.Second)}}, {Path: "/d", Answer: &Answer{}}}},
		nil, nil, nil, Env{}.withDefaults(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.end(nil)
	r := s.router.routes
	if r[0].servers != s.servers || r[1].servers != s.servers || r[2].servers == s.servers || r[3].servers != nil ||
		len(s.pools) != 2 {
		t.Errorf("%d pools", len(s.pools))
	}
}
