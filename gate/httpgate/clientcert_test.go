package httpgate

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate/httpgate/keys"
)

// accountant tells which account and plan it was asked about, and insists on an account.
func accountant() (*throttle, chan string) {
	asked := make(chan string, 100)
	return newThrottle(func(ev *weir.Event, a *weir.Answer) error {
		asked <- ev.Account + "/" + ev.Plan
		if ev.Account == "" {
			a.Verdict, a.Reason, a.Figure = weir.Refuse, weir.NoAccount, weir.Figure{Rule: "account"}
		}
		return nil
	}), asked
}

func named2(name string, dns ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.Subject.CommonName, c.DNSNames = name, dns }
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	a, clients, strangers := newAuthority(t, "ca"), newAuthority(t, "clients"), newAuthority(t, "strangers")
	with := func(cert *tls.Certificate) func(*tls.Config) {
		return func(c *tls.Config) {
			if cert != nil { // whichever authorities the server says that it trusts
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					return cert,
						nil
				}
			}
		}
	}
	shop, stranger := clients.client(named2("shop", "shop.example.org")),
		strangers.client(named2("shop", "shop.example.org"))
	old := clients.client(func(c *x509.Certificate) { c.NotAfter = epoch.Add(-time.Hour) })
	for _, ask := range []keys.ClientCerts{keys.RequestCerts, keys.RequireCerts} {
		for place, want := range map[string]string{"cert": "shop/", "cert:san": "shop.example.org/"} {
			judge, asked := accountant()
			g := startTLS(t, a, Options{Upstream: to(echo(t).URL), Account: []string{place},
				TLS: &keys.TLS{ClientCA: clients.File, ClientCerts: ask}}, judge)
			for _, h2 := range []bool{false, true} {
				res, _ := do(t, a.transport(h2, with(&shop)), g.request("GET", "/", nil))
				if got := receive(t, asked); res.StatusCode != 200 || got != want {
					t.Errorf("%s %s: %s for %q", ask, place, res.Status, got)
				}
			}
			res, _, err := try(a.transport(true, with(nil)), g.request("GET", "/", nil))
			switch {
			case ask == keys.RequireCerts && err == nil:
				t.Errorf("served without a certificate: %s", res.Status)
			case ask == keys.RequestCerts && (err != nil || res.StatusCode != 401 || receive(t, asked) != "/"):
				t.Errorf("without a certificate: %v, %v", res, err)
			}
			for name, bad := range map[string]*tls.Certificate{"stranger": &stranger, "expired": &old} {
				if res, _, err := try(a.transport(false, with(bad)), g.request("GET", "/", nil)); err == nil {
					t.Errorf("%s: %s", name, res.Status)
				}
			}
		}
	}
}

// Another client_ca in the same file takes effect, and sessions of clients by the old one cannot be resumed.
func TestClientCAChanges(t *testing.T) {
	a, clients, others := newAuthority(t, "ca"), newAuthority(t, "clients"), newAuthority(t, "others")
	g := startTLS(t, a, Options{Upstream: to(echo(t).URL),
		TLS: &keys.TLS{ClientCA: clients.File, ClientCerts: keys.RequireCerts}})
	cache := tls.NewLRUClientSessionCache(10)
	ask := func(cert tls.Certificate, sessions tls.ClientSessionCache) error {
		tr := a.transport(false, func(c *tls.Config) {
			c.ClientSessionCache = sessions
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
		})
		tr.DisableKeepAlives = true
		_, _, err := try(tr, g.request("GET", "/", nil))
		return err
	}
	one, other := clients.client(named2("one")), others.client(named2("other"))
	for range 2 {
		if err := ask(one, cache); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(other, nil); err == nil {
		t.Error("another authority's client was let in")
	}
	text, err := os.ReadFile(others.File)
	if err != nil {
		t.Fatal(err)
	}
	a.Write(clients.File, text)
	if err := os.Chtimes(clients.File, epoch, epoch); err != nil {
		t.Fatal(err)
	}
	g.clock.Advance(fileEvery)
	if err := ask(one, cache); err == nil {
		t.Error("a client of the old authority resumed its session")
	}
	if err := ask(other, nil); err != nil {
		t.Error(err)
	}
	a.Write(clients.File, []byte("nothing"))
	g.clock.Advance(fileEvery)
	if err := ask(other, nil); err != nil || g.seen.bounds(BoundCertificate) != 1 {
		t.Errorf("%v", err)
	}
}

func TestHeaderRules(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "secret/1.0")
		w.Header()["X-Twice"] = []string{"1", "2"}
		_,
			_ = w.Write([]byte(r.Header.Get("X-Added") + "," + r.Header.Get("X-Debug") + "," +
			strings.Join(r.Header["X-Over"], "+")))
	})
	rules := Headers{
		Request: HeaderRules{Set: map[string]string{"x-added": "yes", "X-Over": "gate"}, Remove: []string{"x-debug"}},
		Response: HeaderRules{Set: map[string]string{"Strict-Transport-Security": "max-age=1", "X-Twice": "once"},
			Remove: []string{"server"}},
	}
	g := start(t, Options{Upstream: to(up.URL), Headers: rules})
	for range 2 { // what is shared is not changed
		res, body := g.do(g.request("GET", "/", nil, "X-Debug", "1", "X-Over", "a", "X-Over", "b"))
		if body != "yes,,gate" || res.Header.Get("Server") != "" ||
			res.Header.Get("Strict-Transport-Security") != "max-age=1" ||
			strings.Join(res.Header["X-Twice"], "+") != "once" {
			t.Errorf("%q, %v", body, res.Header)
		}
	}
	refusing := start(t, Options{Upstream: to(up.URL), Headers: rules}, newThrottle(overLimit))
	if res, _ := refusing.do(refusing.request("GET", "/", nil)); res.StatusCode != 429 ||
		res.Header.Get("Strict-Transport-Security") == "" || res.Header.Get("Retry-After") == "" {
		t.Errorf("%s, %v", res.Status, res.Header)
	}
	many, most := map[string]string{}, HeaderRules{Set: map[string]string{}, Remove: []string{"x-debug"}}
	for i := range 101 {
		many["X-"+strings.Repeat("a", i+1)] = "x"
	}
	for i := range 99 {
		most.Set["X-"+strings.Repeat("a", i+1)] = "x"
	}
	if err := most.validate(); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]HeaderRules{
		"framing": {Set: map[string]string{"content-length": "1"}}, "no name": {Remove: []string{"a b"}},
		"host":      {Remove: []string{"Host"}},
		"two lines": {Set: map[string]string{"X": "a\r\nY: b"}}, "too many": {Set: many},
	} {
		if err := (Options{Listen: ":80", Upstream: to(up.URL),
			Headers: Headers{Request: bad}}).Validate(); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func FuzzHeaderRules(f *testing.F) {
	f.Add("X-A", "b", "Server")
	f.Add("content-Length", "1\r\n", "ho st")
	f.Fuzz(func(t *testing.T, name, value, gone string) {
		h := HeaderRules{Set: map[string]string{name: value}, Remove: []string{gone}}
		if h.validate() != nil {
			return
		}
		head := http.Header{"Content-Length": {"7"}, "Connection": {"close"}, "X-A": {"old"}}
		r := h.ready()
		r.apply(head)
		if head.Get("Content-Length") != "7" || head.Get("Connection") != "close" ||
			strings.ContainsAny(head.Get(name), "\r\n") {
			t.Fatalf("%v", head)
		}
	})
}
