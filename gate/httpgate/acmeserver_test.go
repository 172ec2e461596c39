package httpgate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/acme"
)

// An acmeServer is an authority that speaks as much of RFC 8555 as it takes to get a certificate, and really comes to
// see.
type acmeServer struct {
	*authority
	t    testing.TB
	http *httptest.Server
	file string // with the certificate of the directory

	mu         sync.Mutex
	secure     string // where port 443 of all domains is
	clear      string // and port 80
	challenges []string
	nonces     map[string]bool
	account    *ecdsa.PublicKey
	registered atomic.Int32 // how often
	thumbprint string
	orders     []*acmeOrder
	seen       []string // challenges that were met, or not
}

type acmeOrder struct {
	domain, token, status string
	cert                  []byte
}

func newACMEServer(t testing.TB, challenges ...string) *acmeServer {
	s := &acmeServer{authority: newAuthority(t, "acme"), t: t, challenges: challenges, nonces: map[string]bool{}}
	s.http = httptest.NewTLSServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.http.Close)
	s.file = filepath.Join(s.Dir, "directory.pem")
	s.Write(s.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw}))
	return s
}

func (s *acmeServer) at(path string, args ...any) string {
	return s.http.URL + fmt.Sprintf(path, args...)
}

func (s *acmeServer) count() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.orders) }

func (s *acmeServer) visits() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.seen, " ")
}

func (s *acmeServer) stands(secure, clear string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secure, s.clear = secure, clear
}

func (s *acmeServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	nonce := rand.Text()
	s.nonces[nonce] = true
	w.Header().Set("Replay-Nonce", nonce)
	if r.URL.Path == "/directory" {
		s.say(w, 200, map[string]any{"newNonce": s.at("/nonce"), "newAccount": s.at("/account"),
			"newOrder": s.at("/order"),
			"meta":     map[string]any{"termsOfService": s.at("/terms")}})
		return
	}
	if r.Method == http.MethodHead {
		return
	}
	payload, err := s.open(r)
	if err != nil {
		w.Header().Set("Content-Type", "application/problem+json")
		s.say(w, 400, map[string]any{"type": "urn:ietf:params:acme:error:malformed", "detail": err.Error()})
		return
	}
	s.answer(w, r.URL.Path, payload)
}

func (s *acmeServer) say(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

// open checks the signature around a request.
func (s *acmeServer) open(r *http.Request) ([]byte, error) {
	var jws struct{ Protected, Payload, Signature string }
	if err := json.NewDecoder(r.Body).Decode(&jws); err != nil {
		return nil, err
	}
	raw, _ := base64.RawURLEncoding.DecodeString(jws.Protected)
	var head struct {
		Alg, Nonce, URL, Kid string
		JWK                  *struct{ Crv, X, Y string }
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	if !s.nonces[head.Nonce] || head.URL != s.http.URL+r.URL.Path || head.Alg != "ES256" {
		return nil, fmt.Errorf("wrong nonce, address or algorithm: %s", raw)
	}
	delete(s.nonces, head.Nonce)
	if k := head.JWK; k != nil {
		x, _ := base64.RawURLEncoding.DecodeString(k.X)
		y, _ := base64.RawURLEncoding.DecodeString(k.Y)
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}`, k.X, k.Y))
		s.account, s.thumbprint = key, base64.RawURLEncoding.EncodeToString(sum[:])
	}
	sig, _ := base64.RawURLEncoding.DecodeString(jws.Signature)
	sum := sha256.Sum256([]byte(jws.Protected + "." + jws.Payload))
	if s.account == nil || len(sig) != 64 ||
		!ecdsa.Verify(s.account, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return nil, fmt.Errorf("wrong signature")
	}
	return base64.RawURLEncoding.DecodeString(jws.Payload)
}

func (s *acmeServer) answer(w http.ResponseWriter, path string, payload []byte) {
	var n int
	var challenge string
	switch {
	case path == "/account":
		s.registered.Add(1)
		w.Header().Set("Location", s.at("/account/1"))
		s.say(w, 201, map[string]any{"status": "valid"})
	case path == "/order":
		var in struct{ Identifiers []struct{ Value string } }
		_ = json.Unmarshal(payload, &in)
		s.orders = append(s.orders, &acmeOrder{domain: in.Identifiers[0].Value, token: rand.Text(), status: "pending"})
		w.Header().Set("Location", s.at("/order/%d", len(s.orders)-1))
		s.order(w, 201, len(s.orders)-1)
	case scan(path, "/order/%d", &n):
		s.order(w, 200, n)
	case scan(path, "/authz/%d", &n):
		o := s.orders[n]
		status := o.status
		if status == "ready" {
			status = "valid"
		}
		var all []any
		for _, c := range s.challenges {
			one := map[string]any{"type": c, "url": s.at("/challenge/%d/%s", n, c), "token": o.token,
				"status": "pending"}
			if status == "invalid" {
				one["error"] = map[string]any{"type": "urn:ietf:params:acme:error:connection",
					"detail": o.domain + " refused the connection", "status": 400}
			}
			all = append(all, one)
		}
		s.say(w, 200, map[string]any{"status": status,
			"identifier": map[string]string{"type": "dns", "value": o.domain}, "challenges": all})
	case scan(path, "/challenge/%d/%s", &n, &challenge):
		o := s.orders[n]
		if string(payload) == "{}" {
			o.status = "invalid"
			err := s.visit(challenge, o.domain, o.token)
			if err == nil {
				o.status = "ready"
			}
			s.seen = append(s.seen, fmt.Sprintf("%s:%v", challenge, err))
		}
		s.say(w, 200, map[string]any{"type": challenge, "url": s.at("%s", path), "token": o.token,
			"status": "processing"})
	case scan(path, "/finalize/%d", &n):
		s.finalize(w, n, payload)
	case scan(path, "/cert/%d", &n):
		_, _ = w.Write(s.orders[n].cert)
	default:
		w.WriteHeader(404)
	}
}

func scan(path, format string, args ...any) bool {
	n, err := fmt.Sscanf(path, format, args...)
	return err == nil && n == len(args) && strings.Count(path, "/") == strings.Count(format, "/")
}

func (s *acmeServer) order(w http.ResponseWriter, status, n int) {
	o := s.orders[n]
	doc := map[string]any{"status": o.status, "identifiers": []any{map[string]string{"type": "dns", "value": o.domain}},
		"authorizations": []string{s.at("/authz/%d", n)}, "finalize": s.at("/finalize/%d", n)}
	if o.cert != nil {
		doc["certificate"] = s.at("/cert/%d", n)
	}
	s.say(w, status, doc)
}

func (s *acmeServer) finalize(w http.ResponseWriter, n int, payload []byte) {
	var in struct{ CSR string }
	_ = json.Unmarshal(payload, &in)
	raw, _ := base64.RawURLEncoding.DecodeString(in.CSR)
	csr, err := x509.ParseCertificateRequest(raw)
	o := s.orders[n]
	if err != nil || o.status != "ready" || len(csr.DNSNames) != 1 || csr.DNSNames[0] != o.domain {
		w.WriteHeader(403)
		return
	}
	template := s.Template(o.domain)
	template.DNSNames, template.ExtKeyUsage = csr.DNSNames, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, s.Cert, csr.PublicKey, s.Key)
	if err != nil {
		s.T.Error(err)
	}
	o.status, o.cert = "valid", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	w.Header().Set("Location", s.at("/order/%d", n))
	s.order(w, 200, n)
}

// visit sees whether a domain is where its owner says (RFC 8737, RFC 8555 8.3).
func (s *acmeServer) visit(challenge, domain, token string) error {
	proof := token + "." + s.thumbprint
	switch challenge {
	case "tls-alpn-01":
		c, err := tls.Dial("tcp", s.secure,
			&tls.Config{ServerName: domain, NextProtos: []string{acme.ALPNProto}, InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer c.Close()
		state := c.ConnectionState()
		sum := sha256.Sum256([]byte(proof))
		want, _ := asn1.Marshal(sum[:])
		for _, e := range state.PeerCertificates[0].Extensions {
			if e.Id.Equal(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}) && e.Critical &&
				bytes.Equal(e.Value, want) && state.NegotiatedProtocol == acme.ALPNProto {
				return nil
			}
		}
		return fmt.Errorf("no proof in the certificate")
	case "http-01":
		req, _ := http.NewRequest("GET", "http://"+s.clear+"/.well-known/acme-challenge/"+token, nil)
		req.Host = domain
		res, err := client().Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if got, _ := io.ReadAll(res.Body); string(got) != proof {
			return fmt.Errorf("%s: %q is no proof", res.Status, got)
		}
		return nil
	}
	return fmt.Errorf("unknown challenge")
}
