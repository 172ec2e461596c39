package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/console/access"
)

// certificate writes a certificate for this machine, and returns the pool that trusts it.
func certificate(t *testing.T) (*TLS, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weir"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	files := &TLS{Cert: filepath.Join(folder, "cert.pem"), Key: filepath.Join(folder, "key.pem")}
	for path, block := range map[string]*pem.Block{files.Cert: {Type: "CERTIFICATE", Bytes: cert},
		files.Key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	return files, pool
}

// TestTLS: over TLS cookies are bound to it and to the host, and a client that has the authority gets in.
func TestTLS(t *testing.T) {
	files, pool := certificate(t)
	h := newHall(t, Options{TLS: files})
	h.url = strings.Replace(h.url, "http:", "https:", 1)
	v := h.visitor()
	v.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
	r := v.logIn("ann", testPassword)
	if r.code != http.StatusSeeOther {
		t.Fatal(r.code, r.body)
	}
	set := 0
	for _, line := range r.header.Values("Set-Cookie") {
		if !strings.HasPrefix(line, hostOnly) || !strings.Contains(line, "; Secure") || !strings.Contains(line, "Path=/;") {
			t.Errorf("a cookie: %s", line)
		}
		if strings.Contains(line, sessionCookie+"=") {
			set++
		}
	}
	if set != 1 {
		t.Errorf("%d cookies of a session", set)
	}
	if r := v.get("/"); r.code != 200 || !strings.Contains(r.body, "ann</a> <small>act</small>") {
		t.Errorf("%d %s", r.code, r.body)
	}
	// A cookie that somebody set without TLS does not count.
	plain := h.visitor()
	plain.Transport = v.Transport
	in, err := h.operators.LogIn(t.Context(), access.Attempt{Name: "root", Password: testPassword,
		Source: netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	if r := plain.get("/", "Cookie", sessionCookie+"="+in.Secret); r.code != http.StatusSeeOther {
		t.Errorf("a cookie without TLS: %d", r.code)
	}
	token := strings.TrimPrefix(h.bearer(access.View)[1], "Bearer ")
	remote, err := NewRemote(Remote{URL: h.url + "/", Token: token, Roots: pool})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := StatusCall.Ask(t.Context(), remote, None{}); err != nil || s.Version != "test" {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := OperatorListCall.Ask(t.Context(), remote, None{}); code(err) != http.StatusForbidden {
		t.Errorf("%v", err)
	}
	wrong, err := NewRemote(Remote{URL: h.url, Token: "weir_x", Roots: pool})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := StatusCall.Ask(t.Context(), wrong, None{}); code(err) != http.StatusUnauthorized ||
		strings.Contains(err.Error(), "weir_x") {
		t.Errorf("%v", err)
	}
	if _, err := New(Options{TLS: &TLS{Cert: "/nowhere", Key: "/nowhere"}}, h, NewMetrics("test"), quiet); err == nil {
		t.Error("a certificate that is not there")
	}
}

// TestTLSOnAReload: TLS comes, and goes, on the same address; a certificate that cannot be read changes nothing.
func TestTLSOnAReload(t *testing.T) {
	files, pool := certificate(t)
	url, _, s := start(t, Options{WithoutLogin: access.View}, newBackend())
	secure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool},
		DisableKeepAlives: true}}
	asks := func(url string) error {
		resp, err := secure.Get(url + "/healthz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("%s: %d", url, resp.StatusCode)
			}
		}
		return err
	}
	over := strings.Replace(url, "http:", "https:", 1)
	if asks(url) != nil || asks(over) == nil {
		t.Error("without TLS")
	}
	if err := s.Configure(Options{TLS: &TLS{Cert: "/nowhere", Key: "/nowhere"}}); err == nil || asks(url) != nil {
		t.Errorf("a bad certificate: %v", err)
	}
	if err := s.Configure(Options{TLS: files}); err != nil || asks(over) != nil {
		t.Errorf("with TLS: %v", err)
	}
	if err := s.Configure(Options{}); err != nil || asks(url) != nil {
		t.Errorf("without again: %v", err)
	}
}

// TestSecureBehindAProxy: the proxy says that the client speaks TLS; nobody else can.
func TestSecureBehindAProxy(t *testing.T) {
	for from, want := range map[string]bool{"127.0.0.1/32": true, "192.0.2.0/24": false} {
		h := newHall(t, Options{Proxy: Proxy{From: []netip.Prefix{netip.MustParsePrefix(from)}}})
		v := h.visitor()
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		v.Jar = jar
		r := v.get("/login", "X-Forwarded-Proto", "https")
		if got := strings.Contains(r.header.Get("Set-Cookie"), "; Secure"); got != want {
			t.Errorf("%s: %v", from, r.header)
		}
	}
}

func TestConsoleOptions(t *testing.T) {
	self := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
	for want, o := range map[string]Options{
		"": {Proxy: Proxy{From: self, Header: "X-User", Role: access.Act},
			WithoutLogin: access.View},
		"tls: TLS needs":                        {TLS: &TLS{Cert: "x"}},
		"without_login: \"act\" is not allowed": {WithoutLogin: access.Act},
		"proxy.from: the address":               {Proxy: Proxy{Header: "X-User"}},
		"proxy.from[0]: 192.0.2.1/24 has bits":  {Proxy: Proxy{From: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}},
		"proxy.header: \"a b\" is not":          {Proxy: Proxy{From: self, Header: "a b"}},
		"proxy.header: cookie means":            {Proxy: Proxy{From: self, Header: "cookie"}},
		"proxy.role: \"god\" is not":            {Proxy: Proxy{From: self, Header: "X-User", Role: "god"}},
		"proxy.role: a role without a header":   {Proxy: Proxy{From: self, Role: access.View}},
	} {
		err := o.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if o := (Options{Proxy: Proxy{From: self, Header: "X-User"}}).WithDefaults(); o.Proxy.Role != access.View {
		t.Errorf("%+v", o.Proxy)
	}
}
