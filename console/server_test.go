package console

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"weir/console/access"
	"weir/internal/clock"
)

// serve starts a console on a free port of this machine. Everybody may look at it.
func serve(t *testing.T, o Options, b Backend) (url string, m *Metrics) {
	t.Helper()
	o.WithoutLogin = access.View
	url, m, _ = start(t, o, b)
	return url, m
}

// newServer is New with Operators over a real store.
func newServer(t testing.TB, o Options, b Backend, m *Metrics) *Server {
	t.Helper()
	if b.Access() == nil {
		b.(interface{ admits(*access.Operators) }).admits(accessOperators(t, clock.System))
	}
	s, err := New(o, b, m, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts a console on a free port of this machine.
func start(t *testing.T, o Options, b Backend) (url string, m *Metrics, s *Server) {
	t.Helper()
	m = NewMetrics("test")
	m.Watch(b)
	o.Listen = "127.0.0.1:0"
	s = newServer(t, o, b, m)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	scheme := "http://"
	if o.TLS != nil {
		scheme = "https://"
	}
	return scheme + s.Addr().String(), m, s
}

// get asks once and leaves no connection behind.
func get(t *testing.T, method, url, host string) (code int, body string, h http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.Close = host, true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

func TestHealthAndReadiness(t *testing.T) {
	b := newBackend()
	url, _ := serve(t, Options{}, b)
	if code, body, _ := get(t, "GET", url+"/healthz", ""); code != 200 || body != "{\"alive\":true}\n" {
		t.Errorf("healthz: %d %s", code, body)
	}
	if code, body, _ := get(t, "GET", url+"/readyz", ""); code != 200 || body != "{\"ready\":true}\n" {
		t.Errorf("readyz: %d %s", code, body)
	}
	b.notReady = errors.New("stopping")
	if code, body, _ := get(t, "GET", url+"/readyz", ""); code != 503 ||
		body != "{\"ready\":false,\"reason\":\"stopping\"}\n" {
		t.Errorf("readyz while stopping: %d %s", code, body)
	}
	if code, _, _ := get(t, "GET", url+"/healthz", ""); code != 200 {
		t.Errorf("healthz while stopping: %d", code)
	}
}

// TestHealthHasConnections: whoever holds all connections of the console does not shut out checks of health, with TLS
// and without. Nothing else is answered over theirs.
func TestHealthHasConnections(t *testing.T) {
	t.Parallel()
	files, pool := certificate(t)
	for _, o := range []Options{{}, {TLS: files}} {
		url, m, s := start(t, o, newBackend())
		trusts := &tls.Config{RootCAs: pool}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: trusts, DisableKeepAlives: true}}
		ask := func(path string, want int) {
			t.Helper()
			req, err := http.NewRequest("GET", url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = "lb.example"
			if path == "/metrics" {
				req.Host = "localhost"
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want || want == http.StatusServiceUnavailable && !resp.Close {
				t.Errorf("%s, TLS: %t: %s, want %d", path, o.TLS != nil, resp.Status, want)
			}
		}
		ask("/metrics", 200)
		for range maxConnections { // they are used, and then idle
			var c net.Conn
			var err error
			if o.TLS == nil {
				c, err = net.Dial("tcp", s.Addr().String())
			} else {
				c, err = tls.Dial("tcp", s.Addr().String(), trusts)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: lb.example\r\n\r\n")
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.Close {
				t.Fatal(resp, err)
			}
		}
		for range 2 {
			ask("/healthz", 200)
			ask("/readyz", 200)
			ask("/metrics", 503)
			for range maxChecks {
				c, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			}
		}
		ask("/healthz", 200)
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if !regexp.MustCompile(`weir_bound_reached_total{bound="console_connections"} [1-9]`).MatchString(w.Body.String()) {
			t.Error("the bound is not counted")
		}
	}
}

func TestIndex(t *testing.T) {
	b := newBackend()
	b.throttles[0].Link.Name = "<plans>"
	url, _ := serve(t, Options{}, b)
	code, body, h := get(t, "GET", url+"/", "")
	if code != 200 || !strings.Contains(body, `href="metrics"`) || !strings.Contains(body, "&lt;plans&gt;") {
		t.Errorf("%d %s", code, body)
	}
	if strings.Contains(body, "//") {
		t.Error("the page names something outside")
	}
	if h.Get("Content-Security-Policy") == "" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers: %v", h)
	}
	if code, _, h := get(t, "GET", url+"/style.css", ""); code != 200 ||
		!strings.HasPrefix(h.Get("Content-Type"), "text/css") {
		t.Errorf("style: %d %v", code, h)
	}
	if code, _, _ := get(t, "GET", url+"/nothing", ""); code != 404 {
		t.Errorf("unknown page: %d", code)
	}
}
