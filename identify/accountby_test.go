package identify

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

type said map[string]string

func (s said) Claim(name string) string { return s[name] }

func TestAccountOfCertAndToken(t *testing.T) {
	uri, _ := url.Parse("spiffe://example.org/shop")
	cert := func(change func(*x509.Certificate)) *tls.ConnectionState {
		c := &x509.Certificate{Subject: pkix.Name{CommonName: "shop"}}
		change(c)
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c},
			VerifiedChains: [][]*x509.Certificate{{c}}}
	}
	plain := cert(func(*x509.Certificate) {})
	unverified := cert(func(*x509.Certificate) {})
	unverified.VerifiedChains = nil
	for name, c := range map[string]struct {
		places string
		state  *tls.ConnectionState
		said   Claims
		want   string
		bad    bool
	}{
		"common name": {"cert", plain, nil, "shop", false},
		"no TLS":      {"cert", nil, nil, "", false},
		"unverified":  {"cert source", unverified, nil, "source:192.0.2.1", false},
		"no SAN":      {"cert:san", plain, nil, "", false},
		"DNS": {"cert:san",
			cert(func(c *x509.Certificate) { c.DNSNames, c.URIs = []string{"shop.example.org", "x"}, []*url.URL{uri} }),
			nil, "shop.example.org", false},
		"URI": {"cert:san", cert(func(c *x509.Certificate) {
			c.URIs, c.EmailAddresses = []*url.URL{uri},
				[]string{"a@b"}
		}), nil, "spiffe://example.org/shop", false},
		"mail": {"cert:san",
			cert(func(c *x509.Certificate) { c.EmailAddresses = []string{"shop@example.org"} }), nil,
			"shop@example.org", false},
		"reserved": {"cert", cert(func(c *x509.Certificate) { c.Subject.CommonName = "source:192.0.2.9" }), nil,
			"source:192.0.2.9", true},
		"too long": {"cert",
			cert(func(c *x509.Certificate) { c.Subject.CommonName = strings.Repeat("x", MaxAccount+1) }), nil, "",
			true},
		"claim":          {"jwt:sub", nil, said{"sub": "ann"}, "ann", false},
		"other claim":    {"jwt:https://example.org/id", nil, said{"https://example.org/id": "7"}, "7", false},
		"no token":       {"jwt:sub source", nil, nil, "source:192.0.2.1", false},
		"empty claim":    {"jwt:sub header:X-Key", nil, said{}, "k", false},
		"claim, control": {"jwt:sub", nil, said{"sub": "a\nb"}, "", true},
		"they disagree":  {"jwt:sub cert", plain, said{"sub": "ann"}, "", true},
		"one certificate": {"cert cert:san",
			cert(func(c *x509.Certificate) { c.DNSNames = []string{"shop.example.org"} }), nil, "shop", false},
		"they agree": {"jwt:sub cert", plain, said{"sub": "shop"}, "shop", false},
	} {
		a, err := ParseAccounts(strings.Fields(c.places))
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{URL: &url.URL{Path: "/"}, Header: http.Header{"X-Key": {"k"}}, TLS: c.state}
		got, _, err := a.AccountBy(r, r.Header, netip.MustParseAddr("192.0.2.1"), c.said)
		if (err != nil) != c.bad || !c.bad && got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	a, _ := ParseAccounts([]string{"jwt:sub", "bearer", "cert", "jwt:id"})
	if !a.Certs() || !slices.Equal(a.Claims(), []string{"sub", "id"}) ||
		!slices.Equal(a.Challenges(), []string{`Bearer realm="weir"`}) {
		t.Errorf("%v, %v, %q", a.Certs(), a.Claims(), a.Challenges())
	}
	for _, bad := range []string{"cert:cn", "jwt", "jwt:"} {
		if _, err := ParseAccounts([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
