package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"weir/app"
	"weir/config"
)

// The front door in full: TLS with HTTP/2, two servers behind it, and accounts and plans from signed tokens.
func TestFrontDoor(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	roots := certificate(t, folder)
	secret := []byte("a secret that is shared by those who sign")
	if err := os.WriteFile(filepath.Join(folder, "token.key"), secret, 0o600); err != nil {
		t.Fatal(err)
	}
	served := map[string]int{}
	var servers []string
	for _, name := range []string{"one", "two"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, name) }))
		t.Cleanup(s.Close)
		servers = append(servers, s.URL)
	}
	cfg, err := config.Parse("weir.yaml", []byte(fmt.Sprintf(`
data: %[1]s/data
http:
- listen: 127.0.0.1:0
  upstream: [%[2]s, %[3]s]
  tls: {cert: %[1]s/cert.pem, key: %[1]s/key.pem}
  jwt: {key: %[1]s/token.key, algorithms: [HS256], plan: plan}
  account: ["jwt:sub"]
  throttles: [plans]
throttles:
  plans:
    quota:
      policies: [{name: few, limit: 2, period: 1h}]
      on_missing: refuse
      plans: {gold: {few: {limit: 10}}}
console: {listen: "off"}
`, folder, servers[0], servers[1])))
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(cfg, app.Options{HashMemory: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "shop.example"},
		ForceAttemptHTTP2: true}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	client := &http.Client{Transport: transport}
	get := func(claims jwt.MapClaims, key []byte) int {
		t.Helper()
		q, err := http.NewRequest(http.MethodGet, "https://"+a.Addr("http", 0).String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if claims != nil {
			signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString(key)
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+signed)
		}
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body := slurp(t, r.Body)
		if r.ProtoMajor != 2 {
			t.Errorf("answered by %s", r.Proto)
		}
		if r.StatusCode == 200 {
			served[body]++
		}
		return r.StatusCode
	}
	soon := time.Now().Add(time.Hour).Unix()
	for i, want := range []int{200, 200, 429} {
		if got := get(jwt.MapClaims{"sub": "ann", "exp": soon}, secret); got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
	for i := range 6 {
		if got := get(jwt.MapClaims{"sub": "bob", "plan": "gold", "exp": soon}, secret); got != 200 {
			t.Errorf("request %d of the gold plan: %d", i+1, got)
		}
	}
	for what, got := range map[string]int{
		"no token": get(nil, nil),
		"another's token": get(jwt.MapClaims{"sub": "bob", "exp": soon},
			[]byte("what somebody made up who has no key")),
		"an old token": get(jwt.MapClaims{"sub": "bob", "exp": soon - 7200}, secret),
	} {
		if got != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401", what, got)
		}
	}
	if served["one"] == 0 || served["two"] == 0 {
		t.Errorf("not all servers were asked: %v", served)
	}
}

// certificate puts a certificate and its key into a folder, and returns who vouches for it: itself.
func certificate(t *testing.T, folder string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shop.example"},
		DNSNames:    []string{"shop.example"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der},
		"key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		text := pem.EncodeToMemory(block)
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "cert.pem" {
			pool.AppendCertsFromPEM(text)
		}
	}
	return pool
}
