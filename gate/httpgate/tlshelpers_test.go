package httpgate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"weir"
)

// An authority signs certificates for tests.
type authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string
}

var serials atomic.Int64

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
	a.key = newKey(t)
	template := a.template(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.cert, _ = x509.ParseCertificate(der)
	a.pool.AddCert(a.cert)
	a.file = filepath.Join(a.dir, "ca.pem")
	a.write(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serials.Add(1)), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// sign makes a certificate with its key, in PEM.
func (a *authority) sign(template *x509.Certificate) (cert, key []byte) {
	a.t.Helper()
	k := newKey(a.t)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &k.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func (a *authority) write(path string, text []byte) {
	a.t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// server makes files with a certificate for names.
func (a *authority) server(names ...string) Certificate {
	a.t.Helper()
	template := a.template(names[0])
	template.DNSNames = names
	cert, key := a.sign(template)
	files := Certificate{filepath.Join(a.dir, names[0]+".pem"), filepath.Join(a.dir, names[0]+".key")}
	a.write(files.Cert, cert)
	a.write(files.Key, key)
	// Two writes within one tick of the file system's clock would look the same.
	at := epoch.Add(time.Duration(serials.Add(1)) * time.Second)
	for _, path := range []string{files.Cert, files.Key} {
		if err := os.Chtimes(path, at, at); err != nil {
			a.t.Fatal(err)
		}
	}
	return files
}

// client makes a certificate for a client.
func (a *authority) client(change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	template := a.template("someone")
	change(template)
	cert, key := a.sign(template)
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pair
}

// startTLS is start for a gate that speaks HTTPS as www.example.com.
func startTLS(t testing.TB, a *authority, o Options, throttles ...weir.Throttle) *rig {
	t.Helper()
	if o.TLS == nil {
		o.TLS = &TLS{}
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
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.pool, ServerName: "www.example.com"},
		Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetHTTP2(h2)
	if change != nil {
		change(tr.TLSClientConfig)
	}
	a.t.Cleanup(tr.CloseIdleConnections)
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
	res, err := (&http.Client{Transport: tr, Timeout: 20 * time.Second}).Do(req)
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
	c := tls.Client(r.dial(), &tls.Config{RootCAs: a.pool, ServerName: "www.example.com", NextProtos: protocols})
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
