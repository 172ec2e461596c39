package httpgate

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/gate/httpgate/keys"
	"weir/internal/testkit/needs"
)

// Both protocols go over TLS, and the upstream is told.
func TestTLS(t *testing.T) {
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(teller(t))})
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2.0": true} {
		res, body := do(t, a.transport(h2, nil), g.request("GET", "/", nil))
		if res.StatusCode != 200 || res.Proto != name {
			t.Errorf("%s: %s by %s", name, res.Status, res.Proto)
		}
		if !strings.Contains(body, "X-Forwarded-Proto: https\r\n") || !strings.Contains(body, ";proto=https\r\n") {
			t.Errorf("%s: %s", name, body)
		}
	}
}

func TestTLSVersions(t *testing.T) {
	a := newAuthority(t, "ca")
	for _, c := range []struct {
		least  string
		client uint16
		ok     bool
	}{
		{"", tls.VersionTLS11, false}, {"", tls.VersionTLS12, true}, {"1.2", tls.VersionTLS12, true},
		{"1.3", tls.VersionTLS12, false}, {"1.3", tls.VersionTLS13, true},
	} {
		g := startTLS(t, a, Options{Upstream: to(echo(t).URL), TLS: &keys.TLS{MinVersion: c.least}})
		tr := a.transport(true, func(config *tls.Config) {
			config.MinVersion, config.MaxVersion = tls.VersionTLS10,
				c.client
		})
		res, _, err := try(tr, g.request("GET", "/", nil))
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil && res.TLS.Version != c.client {
			t.Errorf("%+v: %x", c, res.TLS.Version)
		}
	}
}

// Strict framing holds inside TLS, and what ALPN settled is what is spoken.
func TestTLSFraming(t *testing.T) {
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL)})
	for name, c := range map[string]struct {
		protocols  []string
		text, want string
	}{
		"good": {[]string{"http/1.1"}, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
			"HTTP/1.1 200 "},
		"bare LF": {[]string{"http/1.1"}, "GET / HTTP/1.1\nHost: a\n\n", "HTTP/1.1 400 "},
		"two lengths": {nil, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
			"HTTP/1.1 400 "},
		"HTTP/2 as HTTP/1":   {[]string{"http/1.1"}, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400 "},
		"HTTP/2 without ask": {nil, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400 "},
		"HTTP/1 as HTTP/2": {[]string{"h2"}, "GET / HTTP/1.1\r\nHost: a\r\nX-Long: enough to be no preface\r\n\r\n",
			""},
		// what is no HTTP/2 is not answered in HTTP/1
		"too much as HTTP/2": {[]string{"h2"}, strings.Repeat("x", 64<<10), ""},
	} {
		t.Run(name, func(t *testing.T) {
			conn := g.dialTLS(a, c.protocols...)
			_, _ = io.WriteString(conn, c.text)
			got, _ := io.ReadAll(conn)
			if !strings.HasPrefix(string(got), c.want) || c.want == "" && len(got) > 0 {
				t.Errorf("%q", got)
			}
		})
	}
	if n := g.seen.bounds(BoundMalformed); n != 6 {
		t.Errorf("%d malformed", n)
	}
}

func TestSNI(t *testing.T) {
	a := newAuthority(t, "ca")
	first, second, wild := a.server("one.example.com"), a.server("two.example.com", "zwei.example.com"),
		a.server("*.example.org")
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL),
		TLS: &keys.TLS{Cert: first.Cert, Key: first.Key, Certificates: []keys.Certificate{second, wild}}})
	for asked, want := range map[string]string{
		"one.example.com": "one.example.com", "TWO.example.com": "two.example.com",
		"zwei.example.com": "two.example.com",
		"any.example.org":  "*.example.org", "a.b.example.org": "one.example.com", "example.net": "one.example.com",
		"": "one.example.com",
	} {
		c := tls.Client(g.dial(), &tls.Config{ServerName: asked, InsecureSkipVerify: true})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("%q got %q", asked, got)
		}
	}
}

// A changed file is noticed by a handshake five seconds later; one that is of no use leaves the old certificate in
// place.
func TestCertificateChanges(t *testing.T) {
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL)})
	serial := func() string {
		t.Helper()
		return g.dialTLS(a).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	files := a.server("www.example.com")
	if serial() != before {
		t.Error("looked at too early")
	}
	g.clock.Advance(fileEvery)
	after := serial()
	if after == before {
		t.Error("the new certificate was not taken")
	}
	a.Write(files.Cert, []byte("half a"))
	for range 2 {
		g.clock.Advance(fileEvery)
		if serial() != after {
			t.Error("the old certificate was dropped")
		}
	}
	if n := g.seen.bounds(BoundCertificate); n != 1 ||
		strings.Count(g.log.String(), "the new certificate cannot be used; the old one stays") != 1 {
		t.Errorf("told %d times: %s", n, g.log)
	}
	// A reload says so.
	o := g.Setup.Load().opts
	if _, _, err := g.Prepare(o, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "tls: cannot use the certificate") {
		t.Error(err)
	}
	a.server("www.example.com")
	g.clock.Advance(fileEvery)
	if last := serial(); last == after {
		t.Error("the repaired certificate was not taken")
	}
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o, nil, nil, Env{}); err == nil {
		t.Error("a gate without its key")
	}
}

// No request is lost while certificates change, for those who connect anew each time and for those who stay.
func TestCertificateChangesUnderLoad(t *testing.T) {
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL)})
	stop, changes := make(chan bool), make(chan bool)
	var load sync.WaitGroup
	var served atomic.Int64
	for i := range 4 {
		load.Go(func() {
			tr := a.transport(i%2 == 0, nil)
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, body, err := try(tr, g.request("POST", "/", strings.NewReader("hello")))
				if err != nil || res.StatusCode != 200 || body != "hello" {
					t.Errorf("lost: %v", err)
					return
				}
				served.Add(1)
				if i < 2 {
					tr.CloseIdleConnections()
				}
			}
		})
	}
	go func() {
		defer close(changes)
		for n := range 10 {
			a.server("www.example.com")
			g.clock.Advance(fileEvery)
			needs.Wait(t, "more requests", func() bool { return served.Load() > int64(10*n) })
		}
	}()
	<-changes
	close(stop)
	load.Wait()
	needs.Wait(t, "a change in the log", func() bool {
		return strings.Contains(g.log.String(), "the certificate has changed")
	})
}

// Handshakes that fail are counted, and the place is given back. Who forgot the s of https is told.
func TestBadHandshakes(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL)})
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if got, _ := io.ReadAll(c); !strings.HasPrefix(string(got), "HTTP/1.0 400 ") ||
		!strings.Contains(string(got), "HTTPS") {
		t.Errorf("%q", got)
	}
	c = g.dial()
	g.send(c, "\x16\x03\x01\x00\x05hello")
	_, _ = io.ReadAll(c)
	needs.Wait(t, "both counted", func() bool { return g.seen.bounds(BoundHandshake) == 2 })
	hasty := startTLS(t, a, Options{Upstream: to(echo(t).URL),
		Timeouts: Timeouts{Handshake: weir.Duration(50 * time.Millisecond)}})
	_, _ = io.ReadAll(hasty.dial()) // says nothing
	needs.Wait(t, "counted", func() bool { return hasty.seen.bounds(BoundHandshake) == 1 })
	needs.Wait(t, "all closed", func() bool {
		return g.Open.Load() == 0 && g.arriving.Load() == 0 &&
			hasty.Open.Load() == 0
	})
	if strings.Contains(g.log.String(), `"level":"ERROR"`) || strings.Contains(g.log.String(), `"level":"WARN"`) {
		t.Error(g.log)
	}
}

func TestHandshakesBound(t *testing.T) {
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL), Bounds: Bounds{Handshakes: 2}})
	one, two := g.dial(), g.dial()
	needs.Wait(t, "two under way", func() bool { return g.arriving.Load() == 2 })
	if _, err := g.dial().Read(make([]byte, 1)); err == nil {
		t.Error("the one too many was served")
	}
	needs.Wait(t, "one turned away", func() bool { return g.seen.bounds(BoundHandshakes) == 1 })
	_ = one.Close()
	_ = two.Close()
	needs.Wait(t, "places free", func() bool { return g.arriving.Load() == 0 && g.Open.Load() == 0 })
	if res, _ := do(t, a.transport(true, nil), g.request("GET", "/", nil)); res.StatusCode != 200 {
		t.Error(res.Status)
	}
}

// A stop does not wait for those who are only about to arrive.
func TestStopTurnsArrivalsAway(t *testing.T) {
	a := newAuthority(t, "ca")
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL)})
	c := g.dial()
	needs.Wait(t, "arriving", func() bool { return g.arriving.Load() == 1 })
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("served")
	}
	if n := g.seen.bounds(BoundHandshake); n != 0 {
		t.Errorf("%d counted", n)
	}
}

// A client that leaves while its request waits, body unread, is noticed below TLS.
func TestHangupBelowTLS(t *testing.T) {
	a, l := newAuthority(t, "ca"), newLine()
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL)}, l)
	c := g.dialTLS(a)
	_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
	receive(t, l.Turns)
	_ = c.Close()
	if o := receive(t, l.Settled); o.Done {
		t.Error("charged")
	}
	needs.Wait(t, "gone", func() bool { return g.UnderWay.Load() == 0 })
}

// A client that takes nothing is cut off.
func TestNoReadersBelowTLS(t *testing.T) {
	a := newAuthority(t, "ca")
	asked := make(chan bool, 1)
	flood := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		asked <- true
		for buf := make([]byte, 1<<20); ; {
			if _, err := w.Write(buf); err != nil {
				return
			}
		}
	})
	g := startTLS(t, a, Options{Upstream: to(flood.URL), Timeouts: Timeouts{Progress: weir.Duration(time.Second / 10)}})
	_, _ = io.WriteString(g.dialTLS(a), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	receive(t, asked)
	needs.Wait(t, "cut off", func() bool { return g.UnderWay.Load() == 0 })
}

func TestTLSByReload(t *testing.T) {
	a := newAuthority(t, "ca")
	up := echo(t).URL
	g := start(t, Options{Upstream: to(up)})
	if res, _ := g.do(g.request("GET", "/", nil)); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	files := a.server("www.example.com")
	g.reload(Options{Upstream: to(up), TLS: &keys.TLS{Cert: files.Cert, Key: files.Key}})
	front := g.Setup.Load().keys.Config(g.clock.Now())
	g.url = "https://" + g.addr
	tr := a.transport(true, nil)
	if res, _ := do(t, tr, g.request("GET", "/", nil)); res.StatusCode != 200 {
		t.Error(res.Status)
	}
	g.reload(Options{Upstream: to(up), TLS: &keys.TLS{Cert: files.Cert, Key: files.Key}, Bounds: Bounds{Waiting: 7}})
	if g.Setup.Load().keys.Config(g.clock.Now()) != front {
		t.Error("sessions are forgotten without need")
	}
}
