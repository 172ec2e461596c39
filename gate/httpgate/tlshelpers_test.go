package httpgate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"weir"
	"weir/gate/gatetest"
	"weir/gate/httpgate/keys"
)

// Figures of package keys that the documentation names.
const (
	fileEvery       = 5 * time.Second
	fetchEvery      = 10 * time.Minute
	fetchSoonest    = 30 * time.Second
	maxSet          = 1 << 20
	maxRedirects    = 3
	maxDomains      = 100
	maxPlan         = 64
	maxCertificates = 1000
)

// An authority signs certificates for tests.
type authority struct {
	*gatetest.Authority
	signed int
}

var newKey = gatetest.NewKey

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	return &authority{Authority: gatetest.NewAuthority(t, name)}
}

// server makes files with a certificate for names.
func (a *authority) server(names ...string) (files keys.Certificate) {
	a.T.Helper()
	files.Cert, files.Key = a.Server(names...)
	// Two writes within one tick of the file system's clock would look the same.
	a.signed++
	at := epoch.Add(time.Duration(a.signed) * time.Second)
	for _, path := range []string{files.Cert, files.Key} {
		if err := os.Chtimes(path, at, at); err != nil {
			a.T.Fatal(err)
		}
	}
	return files
}

// client makes a certificate for a client.
func (a *authority) client(change func(*x509.Certificate)) tls.Certificate {
	a.T.Helper()
	template := a.Template("someone")
	change(template)
	cert, key := a.Sign(template)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		a.T.Fatal(err)
	}
	return pair
}

// startTLS is start for a gate that speaks HTTPS as www.example.com.
func startTLS(t testing.TB, a *authority, o Options, throttles ...weir.Throttle) *rig {
	t.Helper()
	if o.TLS == nil {
		o.TLS = &keys.TLS{}
	}
	if o.TLS.Cert == "" && o.TLS.ACME == nil {
		files := a.server("www.example.com")
		o.TLS.Cert, o.TLS.Key = files.Cert, files.Key
	}
	g := start(t, o, throttles...)
	g.url = "https://" + g.addr
	return g
}

// transport speaks to a gate by HTTPS. What it keeps open is closed with the test.
func (a *authority) transport(h2 bool, change func(*tls.Config)) *http.Transport {
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.Pool, ServerName: "www.example.com"},
		Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetHTTP2(h2)
	if change != nil {
		change(tr.TLSClientConfig)
	}
	a.T.Cleanup(tr.CloseIdleConnections)
	return tr
}

func do(t testing.TB, tr http.RoundTripper, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, body, err := try(tr, req)
	if err != nil {
		t.Fatal(err)
	}
	return res, body
}

func try(tr http.RoundTripper, req *http.Request) (*http.Response, string, error) {
	res, err := (&http.Client{Transport: tr, Timeout: time.Minute}).Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// dialTLS connects to the gate by hand.
func (r *rig) dialTLS(a *authority, protocols ...string) *tls.Conn {
	r.t.Helper()
	c := tls.Client(r.dial(), &tls.Config{RootCAs: a.Pool, ServerName: "www.example.com", NextProtos: protocols})
	if err := c.Handshake(); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// teller is an upstream that tells which headers it got.
func teller(t testing.TB) string {
	return upstream(t, func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_ = r.Header.Write(&b)
		_, _ = w.Write(b.Bytes())
	}).URL
}
