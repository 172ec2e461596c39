package gatetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An Authority signs certificates. Its files are removed with the test.
type Authority struct {
	T    testing.TB
	Dir  string
	Cert *x509.Certificate
	Pool *x509.CertPool // knows the authority, and no other
	File string         // its certificate, in PEM
	Key  *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{T: t, Dir: t.TempDir(), Pool: x509.NewCertPool(), Key: NewKey(t)}
	template := a.Template(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.Key.PublicKey, a.Key)
	if err != nil {
		t.Fatal(err)
	}
	a.Cert, _ = x509.ParseCertificate(der)
	a.Pool.AddCert(a.Cert)
	a.File = filepath.Join(a.Dir, "ca.pem")
	a.Write(a.File, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return a
}

// NewKey makes a key.
func NewKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Template is what a certificate begins with. It holds for decades.
func (a *Authority) Template(name string) *x509.Certificate {
	a.T.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.T.Fatal(err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2060, 1, 1, 0, 0, 0, 0, time.UTC),
	}
}

// Sign makes a certificate with its key, in PEM.
func (a *Authority) Sign(template *x509.Certificate) (cert, key []byte) {
	a.T.Helper()
	k := NewKey(a.T)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, &k.PublicKey, a.Key)
	if err != nil {
		a.T.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.T.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// Write writes a file.
func (a *Authority) Write(path string, text []byte) {
	a.T.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.T.Fatal(err)
	}
}

// Server makes files with a certificate for names, and its key.
func (a *Authority) Server(names ...string) (certFile, keyFile string) {
	a.T.Helper()
	template := a.Template(names[0])
	template.DNSNames = names
	cert, key := a.Sign(template)
	certFile, keyFile = filepath.Join(a.Dir, names[0]+".pem"), filepath.Join(a.Dir, names[0]+".key")
	a.Write(certFile, cert)
	a.Write(keyFile, key)
	return certFile, keyFile
}
