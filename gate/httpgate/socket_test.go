package httpgate

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir"
	"weir/internal/testkit/needs"
)

func onSocket(path string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}}
}

func TestSocket(t *testing.T) {
	sources := make(chan string, 10)
	tell := newThrottle(func(ev *weir.Event, _ *weir.Answer) error {
		if ev.Source.IsValid() {
			sources <- ev.Source.String()
		} else {
			sources <- "none"
		}
		return nil
	})
	for _, trusted := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "http")
		g := start(t, Options{Listen: "unix:" + path, Socket: Socket{Mode: "0600", Trusted: trusted},
			Upstream: to(teller(t))}, tell)
		g.url = "http://weir"
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
		res, body := do(t, onSocket(path), g.request("GET", "/", nil))
		if got := receive(t, sources); res.StatusCode != 200 || got != "none" ||
			strings.Contains(body, "X-Forwarded-For") || !strings.Contains(body, "Forwarded: for=unknown;") {
			t.Errorf("%s, from %s: %s", res.Status, got, body)
		}
		_, body = do(t, onSocket(path), g.request("GET", "/", nil, "X-Forwarded-For", "198.51.100.7"))
		want, told := "none", false
		if trusted {
			want, told = "198.51.100.7", true
		}
		if got := receive(t, sources); got != want ||
			strings.Contains(body, "X-Forwarded-For: 198.51.100.7\r\n") != told {
			t.Errorf("trusted %v: from %s: %s", trusted, got, body)
		}
		if err := g.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the socket stays behind")
		}
	}
}

// A client on a socket that leaves while it waits is noticed; a PROXY header on a socket names the source.
func TestSocketLeavesAndProxyProtocol(t *testing.T) {
	path := filepath.Join(t.TempDir(), "http")
	l := newLine()
	g := start(t, Options{Listen: "unix:" + path, ProxyProtocol: ProxyProtocol{Socket: true}, Upstream: to(teller(t))},
		l)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, header(t, 1, "198.51.100.7:1")+"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
	receive(t, l.Turns)
	_ = c.Close()
	if o := receive(t, l.Settled); o.Done {
		t.Error("charged")
	}
	if c, err = net.Dial("unix", path); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, header(t, 2, "198.51.100.8:1")+plainGet)
	receive(t, l.Turns).Grant()
	if got, _ := io.ReadAll(c); !strings.Contains(string(got), "X-Forwarded-For: 198.51.100.8\r\n") {
		t.Errorf("%s", got)
	}
	needs.Wait(t, "all closed", func() bool { return g.Open.Load() == 0 })
}
