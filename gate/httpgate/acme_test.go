package httpgate

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate/gatetest"
	"weir/gate/httpgate/keys"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
)

// startWith is start with an environment of the test's own.
func startWith(t testing.TB, o Options, env Env) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(epoch), log: new(gatetest.Log), seen: new(observer)}
	env.Clock, env.Observer, env.Log = r.clock, r.seen,
		slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	g, err := New(o, nil, nil, env)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	r.Gate, r.addr = g, g.Addr().String()
	r.url = "http://" + r.addr
	t.Cleanup(func() { _ = g.Stop(t.Context()) })
	return r
}

func (s *acmeServer) options(t testing.TB, change func(*keys.ACME)) Options {
	a := &keys.ACME{Domains: []string{"www.example.com"}, Directory: s.at("/directory"), DirectoryCA: s.file,
		Email: "admin@example.com", Agree: true}
	if change != nil {
		change(a)
	}
	return Options{Listen: "127.0.0.1:0", Upstream: to(echo(t).URL), TLS: &keys.TLS{ACME: a}}
}

// served returns the name and the serial number of the certificate that a client gets.
func (s *acmeServer) served(r *rig, name string) (string, error) {
	c := tls.Client(r.dial(), &tls.Config{RootCAs: s.Pool, ServerName: name, NextProtos: []string{"h2"}})
	if err := c.Handshake(); err != nil {
		return "", err
	}
	defer c.Close()
	leaf := c.ConnectionState().PeerCertificates[0]
	return leaf.Subject.CommonName + leaf.DNSNames[0] + leaf.SerialNumber.String(), nil
}

// The gate gets its certificate by itself, keeps it over a restart, and needs no other for another name by reload.
func TestACME(t *testing.T) {
	t.Parallel()
	s := newACMEServer(t, "http-01", "tls-alpn-01")
	env := Env{Data: t.TempDir()}
	o := s.options(t, nil)
	g := startWith(t, o, env)
	s.stands(g.addr, "127.0.0.1:1")
	g.Start()
	first, err := s.served(g, "www.example.com") // waits for it
	if err != nil {
		t.Fatalf("%v: %s", err, g.log)
	}
	if s.visits() != "tls-alpn-01:<nil>" || s.count() != 1 {
		t.Errorf("%d orders, %s", s.count(), s.visits())
	}
	kept, err := os.ReadFile(o.TLS.Files(env.Data)[0])
	if err != nil || !strings.Contains(string(kept), "BEGIN CERTIFICATE") {
		t.Errorf("the certificate is not where Files says: %v", err)
	}
	if res, body := do(t, s.transport(true, nil), httpsRequest(g)); res.StatusCode != 200 || res.Proto != "HTTP/2.0" {
		t.Errorf("%s %s", res.Status, body)
	}
	if _, err := s.served(g, "other.example.com"); err == nil {
		t.Error("a certificate for a name that is not the gate's")
	}

	next := s.options(t, func(a *keys.ACME) { a.Domains = append(a.Domains, "shop.example.com") })
	commit, _, err := g.Prepare(next, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	commit()
	if _, err := s.served(g, "shop.example.com"); err != nil || s.registered.Load() != 1 {
		t.Errorf("%v, registered %d times", err, s.registered.Load())
	}
	if again, err := s.served(g, "www.example.com"); again != first || err != nil {
		t.Errorf("%s, %v", again, err)
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}

	s.http.Close()
	later := startWith(t, o, env)
	later.Start()
	if again, err := s.served(later, "www.example.com"); again != first || err != nil {
		t.Errorf("after a restart: %s, %v", again, err)
	}
}

func httpsRequest(r *rig) *http.Request {
	r.url = "https://" + r.addr
	return r.request("GET", "/", nil)
}

// Where port 443 does not do, the gates of the same weir without TLS answer the authority.
func TestACMEByHTTP(t *testing.T) {
	s := newACMEServer(t, "http-01")
	env := Env{Data: t.TempDir(), Proofs: &keys.Proofs{}}
	plain := startWith(t, Options{Listen: "127.0.0.1:0", Upstream: to(named(t, "upstream"))}, env)
	plain.Start()
	g := startWith(t, s.options(t, func(a *keys.ACME) { a.HTTP01 = true }), env)
	s.stands("127.0.0.1:1", plain.addr)
	g.Start()
	if _, err := s.served(g, "www.example.com"); err != nil {
		t.Fatalf("%v: %s", err, g.log)
	}
	if s.visits() != "http-01:<nil>" {
		t.Error(s.visits())
	}
	// What nobody expects here is the upstream's business.
	for _, path := range []string{"abc", strings.Repeat("x", 22), strings.Repeat("x", 257),
		strings.Repeat("x", 22) + "/y", ""} {
		if _, body := plain.do(plain.request("GET", "/.well-known/acme-challenge/"+path, nil)); body != "upstream" {
			t.Errorf("%q: %q", path, body)
		}
	}
}

// An order that fails is counted, and not made again at once: authorities count, too. Certificates from files are not
// touched.
func TestACMEFails(t *testing.T) {
	s := newACMEServer(t, "tls-alpn-01")
	o := s.options(t, nil)
	files := s.server("file.example.com")
	o.TLS.Cert, o.TLS.Key = files.Cert, files.Key
	g := startWith(t, o, Env{Data: t.TempDir()})
	s.stands("127.0.0.1:1", "127.0.0.1:1")
	g.Start()
	needs.Wait(t, "the order failed", func() bool { return g.seen.bounds(BoundCertificate) == 1 })
	needs.Wait(t, "told why", func() bool {
		return strings.Contains(g.log.String(),
			"the authority says: tls-alpn-01: connection: www.example.com refused the connection")
	})
	orders := s.count()
	for range 3 {
		if _, err := s.served(g, "www.example.com"); err == nil {
			t.Error("a certificate out of nowhere")
		}
	}
	if s.count() != orders || g.clock.Pending() != 1 {
		t.Errorf("%d orders, %d are to follow", s.count(), g.clock.Pending())
	}
	if got, err := s.served(g, "file.example.com"); err != nil || !strings.HasPrefix(got, "file.example.com") {
		t.Errorf("%s, %v", got, err)
	}
	if n := g.seen.bounds(BoundCertificate); n != 1 {
		t.Errorf("%d counted", n)
	}
}

// While a certificate is on order, a handshake waits no longer than it may, and a stop waits for nobody.
func TestACMEIsSlow(t *testing.T) {
	s := newACMEServer(t, "tls-alpn-01")
	o := s.options(t, nil)
	o.Timeouts.Handshake = weir.Duration(50 * time.Millisecond)
	g := startWith(t, o, Env{Data: t.TempDir()})
	s.mu.Lock() // it does not answer
	defer s.mu.Unlock()
	g.Start()
	if _, err := s.served(g, "www.example.com"); err == nil {
		t.Error("a certificate out of nowhere")
	}
	needs.Wait(t, "counted", func() bool { return g.seen.bounds(BoundHandshake) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := g.Stop(ctx); err != nil {
		t.Errorf("%v", err)
	}
}

func TestACMEOptions(t *testing.T) {
	good := keys.ACME{Domains: []string{"www.example.com", "bücher.example"}, Agree: true}
	if err := (&keys.TLS{ACME: &good}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
	many := make([]string, maxDomains+1)
	for i := range many {
		many[i] = strings.Repeat("a", i%60+1) + strings.Repeat("b", i/60) + ".example.com"
	}
	for name, bad := range map[string]keys.ACME{
		"no domains": {Agree: true}, "no dot": {Domains: []string{"localhost"}, Agree: true},
		"an address": {Domains: []string{"192.0.2.1"}, Agree: true},
		"star":       {Domains: []string{"*.example.com"}, Agree: true},
		"twice":      {Domains: []string{"a.example", "A.example."}, Agree: true},
		"many":       {Domains: many, Agree: true}, "disagrees": {Domains: good.Domains},
		"in clear": {Domains: good.Domains, Agree: true, Directory: "http://x/"},
		"email":    {Domains: good.Domains, Agree: true, Email: "x"},
	} {
		if (&keys.TLS{ACME: &bad}).Validate() == nil {
			t.Errorf("%s was taken", name)
		}
	}
	o := Options{Listen: ":0", Upstream: to("http://127.0.0.1:1"), TLS: &keys.TLS{ACME: &good}}
	if _, err := New(o, nil, nil, Env{}); err == nil || !strings.Contains(err.Error(), "tls.acme.cache") {
		t.Errorf("without a folder: %v", err)
	}
}

// A gate that sends everybody to HTTPS answers the authority all the same.
func TestACMEAtARedirect(t *testing.T) {
	s := newACMEServer(t, "http-01")
	env := Env{Data: t.TempDir(), Proofs: &keys.Proofs{}}
	plain := startWith(t, Options{Listen: "127.0.0.1:0", Routes: []Route{
		{Host: Hosts{"www.example.com"}, Redirect: &Redirect{To: "https"}}}}, env)
	plain.Start()
	g := startWith(t, s.options(t, func(a *keys.ACME) { a.HTTP01 = true }), env)
	s.stands("127.0.0.1:1", plain.addr)
	g.Start()
	if _, err := s.served(g, "www.example.com"); err != nil {
		t.Fatalf("%v: %s", err, g.log)
	}
	if s.visits() != "http-01:<nil>" {
		t.Error(s.visits())
	}
	res, _ := plain.at("www.example.com", "/.well-known/acme-challenge/"+strings.Repeat("x", 22))
	if at := res.Header.Get("Location"); res.StatusCode != 308 ||
		at != "https://www.example.com/.well-known/acme-challenge/"+strings.Repeat("x", 22) {
		t.Errorf("%s %s", res.Status, at)
	}
}
