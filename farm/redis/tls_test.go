package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"testing"
	"time"
)

// TestTLS: with rediss the engine must show a certificate that is trusted.
func TestTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	for name, text := range map[string][]byte{
		"cert": public, "key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	} {
		if err := os.WriteFile(folder+"/"+name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, redisServer(t), "--tls-cert-file", folder+"/cert", "--tls-key-file", folder+"/key",
		"--tls-ca-cert-file", folder+"/cert", "--tls-auth-clients", "no", "--tls-replication", "no", "--tls-port", "0")
	_, port, _ := net.SplitHostPort(s.address)
	s.do("CONFIG SET port 0 tls-port " + port)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(public)
	for name, o := range map[string]Options{"trusted": {TLS: &tls.Config{RootCAs: roots}}, "a stranger": {}} {
		p, err := Open("rediss://"+s.address, o)
		if err != nil {
			t.Fatal(err)
		}
		err = p.Check(t.Context())
		if name == "trusted" && err != nil || name != "trusted" && !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
		p.Close()
	}
}
