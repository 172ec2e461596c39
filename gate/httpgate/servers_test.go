package httpgate

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"weir"
	"weir/internal/testkit/needs"
	behind "weir/upstream"
)

// A server that dies under way costs no request that need not be lost.
func TestServerDies(t *testing.T) {
	var servers []*httptest.Server
	var urls []string
	for i := range 3 {
		s := upstream(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, i) })
		servers, urls = append(servers, s), append(urls, s.URL)
	}
	admit := newThrottle(nil)
	g := start(t, Options{Upstream: behind.To(urls...)}, admit)
	seen := map[string]int{}
	for i := range 60 {
		if i == 20 {
			servers[0].CloseClientConnections()
			servers[0].Close()
		}
		res, body := g.do(g.request("GET", "/", nil))
		if res.StatusCode != 200 {
			t.Errorf("request %d: %s %s", i, res.Status, body)
		}
		seen[body]++
	}
	if len(seen) != 3 || seen["0"] > 20 {
		t.Errorf("%v", seen)
	}
	stats := g.Setup.Load().servers.Stats()
	if stats[0].Well || !stats[1].Well || !stats[2].Well {
		t.Errorf("%+v", stats)
	}
}

// A reload that changes the servers keeps the connections to those that stay.
func TestReloadKeepsServers(t *testing.T) {
	a, b := named(t, "a"), named(t, "b")
	g := start(t, Options{Upstream: to(a)})
	if _, body := g.do(g.request("GET", "/", nil)); body != "a" {
		t.Fatal(body)
	}
	g.reload(Options{Upstream: behind.To(b, a)})
	if stats := g.Setup.Load().servers.Stats(); len(stats) != 2 || stats[1].Requests != 1 || stats[1].Idle != 1 {
		t.Errorf("%+v", stats)
	}
	kept := g.Setup.Load().servers
	g.reload(Options{Upstream: behind.To(b, a), Bounds: Bounds{Waiting: 5}})
	if g.Setup.Load().servers != kept {
		t.Error("nothing changed for the servers, and they did")
	}
}

// What the upstream is told of the client before HTTP.
func TestTellsTheClient(t *testing.T) {
	rec := record(t)
	g := start(t, Options{Upstream: behind.Options{Servers: []string{"http://" + rec.Addr().String()},
		ProxyProtocol: behind.ProxyV1},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	// The recorder takes no PROXY header and hangs up; what came is what counts.
	for header, want := range map[string]string{"": "PROXY TCP4 127.0.0.1 127.0.0.1 ",
		"192.0.2.7": "PROXY TCP4 192.0.2.7 127.0.0.1 0 "} {
		req := g.request("POST", "/", nil)
		if header != "" {
			req.Header.Set("X-Forwarded-For", header)
		}
		_, _ = g.do(req)
		if got := rec.got(); !strings.Contains(got, want) {
			t.Errorf("%q in %q", want, got)
		}
	}
}

// A client that leaves while the upstream thinks is noticed, with a body and without.
func TestLeavingWhileTheUpstreamThinks(t *testing.T) {
	gone := make(chan bool, 1)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		gone <- true
	})
	admit := newThrottle(nil)
	g := start(t, Options{Upstream: to(up.URL)}, admit)
	for _, say := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"} {
		c := g.dial()
		g.send(c, say)
		needs.Wait(t, "under way", func() bool { return admit.Held.Load() == 1 })
		_ = c.Close()
		receive(t, gone)
		if o := receive(t, admit.Settled); !o.Done {
			t.Error("given back, and it had arrived")
		}
	}
	needs.Wait(t, "closed", func() bool { return g.Open.Load() == 0 })
}

// An informational answer of the upstream is passed on before the final one, without the gate's own headers.
func TestEarlyHints(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		_, _ = io.WriteString(w, "ok")
	})
	g := start(t, Options{Upstream: to(up.URL)}, newThrottle(func(_ *weir.Event, a *weir.Answer) error { return nil }))
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	br := bufio.NewReader(c)
	res, err := http.ReadResponse(br, nil)
	if err != nil || res.StatusCode != 103 || res.Header.Get("Link") == "" || res.Header.Get("X-Request-Id") != "" {
		t.Fatalf("%v %v", res, err)
	}
	if res, body := g.answer(br); res.StatusCode != 200 || body != "ok" || res.Header.Get("Link") != "" ||
		res.Header.Get("X-Request-Id") == "" {
		t.Errorf("%v %q", res, body)
	}
}
