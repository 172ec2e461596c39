package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"weir/config"
)

// TestLoopThroughAnother: a proxy behind the gate leads back to it. The request comes around a few times and is
// answered with 508, whatever number its client wrote, and over HTTP/2; one that a client says to have come far is
// refused alone.
func TestLoopThroughAnother(t *testing.T) {
	t.Parallel()
	var back atomic.Pointer[url.URL]
	var rounds atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		rounds.Add(1)
		r.SetURL(back.Load())
	}})
	t.Cleanup(proxy.Close)
	a := weirOf(t, fmt.Sprintf(`
data: %s
http: [{listen: "127.0.0.1:0", upstream: %q}]
console: {listen: "127.0.0.1:0"}
`, t.TempDir(), proxy.URL))
	gate := a.Addr("http", 0).String()
	back.Store(&url.URL{Scheme: "http", Host: gate})
	for _, c := range []struct {
		hops   string
		rounds int64
	}{{"", 8}, {"Weir-Hops: -5\r\n", 8}, {"Weir-Hops: x, 3\r\nWeir-Hops: 1\r\n", 5}, {"Weir-Hops: 99999999999999999999\r\n", 0},
		{"Connection: Weir-Hops\r\nWeir-Hops: 0\r\n", 8}} {
		rounds.Store(0)
		if got := raw(t, "127.0.0.1", gate, "GET / HTTP/1.1\r\nHost: a\r\n"+c.hops+"\r\n"); got != http.StatusLoopDetected {
			t.Errorf("%q: %d", c.hops, got)
		}
		if n := rounds.Load(); n != c.rounds {
			t.Errorf("%q: %d rounds, want %d", c.hops, n, c.rounds)
		}
	}
	by := &http.Transport{Protocols: new(http.Protocols)}
	by.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(by.CloseIdleConnections)
	r, err := http.NewRequest("GET", "http://"+gate, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := by.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusLoopDetected || res.Header.Get("X-Request-Id") == "" {
		t.Error(res.Status, res.Header)
	}
	if page := scraped(t, a); !strings.Contains(page, `weir_bound_reached_total{bound="http_loop"} 6`) {
		t.Error(matching(page, "http_loop"))
	}
	_, err = config.Parse("weir.yaml", fmt.Appendf(nil, "data: x\nhttp: [{listen: %q, upstream: %q}]\n", gate, "http://"+gate))
	if err == nil || !strings.Contains(err.Error(), "leads back") {
		t.Errorf("a gate before itself: %v", err)
	}
}
