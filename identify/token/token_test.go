package token

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"weir"
)

var noon = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// keys are made once: those of RSA take their time.
var keys = sync.OnceValue(func() (k struct {
	rsa, other *rsa.PrivateKey
	ec         *ecdsa.PrivateKey
	ec384      *ecdsa.PrivateKey
	ed         ed25519.PrivateKey
	secret     []byte
}) {
	k.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	k.other, _ = rsa.GenerateKey(rand.Reader, 2048)
	k.ec, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	k.ec384, _ = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, k.ed, _ = ed25519.GenerateKey(rand.Reader)
	k.secret = []byte(strings.Repeat("secret", 10))
	return k
})

func publicPEM(t testing.TB, private crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func signed(t testing.TB, method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims) string {
	t.Helper()
	tok := jwt.NewWithClaims(method, claims)
	if kid != "" {
		tok.Header["kid"] = kid
	}
	text, err := tok.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func good() jwt.MapClaims {
	return jwt.MapClaims{"sub": "acme", "plan": "gold", "number": 12345678901234567, "exp": noon.Add(time.Hour).Unix()}
}

func verifier(t testing.TB, o Options, key, set []byte) *Verifier {
	t.Helper()
	if key != nil {
		o.Key = "key.pem"
	}
	if bytes.HasPrefix(key, keys().secret) { // what is a secret must be called one
		o.Algorithms = []string{"HS256", "HS384", "HS512"}
	}
	if set != nil {
		o.JWKS = "keys.json"
	}
	v, err := New(o, key, set, []string{"sub", "plan", "number", "list"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func set(t testing.TB) []byte {
	t.Helper()
	k := keys()
	point, err := k.ec.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"keys": []map[string]string{
		{"kty": "RSA", "kid": "r", "use": "sig", "n": b64(k.rsa.N.Bytes()), "e": "AQAB"},
		{"kty": "RSA", "kid": "e", "use": "enc", "n": b64(k.other.N.Bytes()), "e": "AQAB"},
		{"kty": "EC", "kid": "c", "crv": "P-256", "alg": "ES256", "x": b64(point[1:33]), "y": b64(point[33:])},
		{"kty": "OKP", "kid": "d", "crv": "Ed25519", "x": b64(k.ed.Public().(ed25519.PublicKey))},
		{"kty": "EC", "kid": "k", "crv": "secp256k1", "x": b64(point[1:33]), "y": b64(point[33:])},
		{"kty": "OKP", "kid": "x", "crv": "X25519", "x": "AAAA"},
		{"kty": "oct", "kid": "h", "k": b64(k.secret)},
		{"kty": "new", "kid": "n"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestKinds(t *testing.T) {
	k := keys()
	for name, c := range map[string]struct {
		key    []byte
		method jwt.SigningMethod
		with   any
		kid    string
	}{
		"HS256": {append(k.secret, '\n'), jwt.SigningMethodHS256, k.secret, "h"},
		"RS256": {publicPEM(t, k.rsa), jwt.SigningMethodRS256, k.rsa, "r"},
		"PS512": {publicPEM(t, k.rsa), jwt.SigningMethodPS512, k.rsa, "r"},
		"ES256": {publicPEM(t, k.ec), jwt.SigningMethodES256, k.ec, "c"},
		"EdDSA": {publicPEM(t, k.ed), jwt.SigningMethodEdDSA, k.ed, "d"},
	} {
		t.Run(name, func(t *testing.T) {
			one := verifier(t, Options{}, c.key, nil)
			all := verifier(t, Options{}, nil, set(t))
			for what, v := range map[string]*Verifier{"key": one, "set": all} {
				for _, kid := range []string{"", c.kid} {
					text := signed(t, c.method, c.with, kid, good())
					for range 2 { // the second time from memory
						got, err := v.Verify(text, noon)
						if err != nil || got.Claim("sub") != "acme" || got.Claim("plan") != "gold" ||
							got.Claim("number") != "12345678901234567" || got.Claim("none") != "" {
							t.Errorf("%s, kid %q: %v, %v", what, kid, got, err)
						}
					}
				}
			}
			if _, err := all.Verify(signed(t, c.method, c.with, "unknown", good()), noon); !errors.Is(err,
				ErrSignature) {
				t.Errorf("wrong kid: %v", err)
			}
			// One changed letter, in each part.
			text := signed(t, c.method, c.with, "", good())
			for at := 0; at < len(text); at += 7 {
				bent := []byte(text)
				if bent[at] = 'A'; text[at] == 'A' {
					bent[at] = 'B'
				}
				if _, err := one.Verify(string(bent), noon); err == nil {
					t.Errorf("changed at %d", at)
				}
			}
		})
	}
}

// A public key is known to everybody: it must not do as a shared secret. And a token that says that it needs no
// signature gets nowhere.
func TestConfusion(t *testing.T) {
	k := keys()
	public := publicPEM(t, k.rsa)
	point, _ := k.ec.PublicKey.Bytes()
	for name, v := range map[string]*Verifier{
		"key": verifier(t, Options{}, public, nil), "set": verifier(t, Options{}, nil, set(t)),
		"RS256": verifier(t, Options{Algorithms: []string{"RS256"}}, public, nil),
	} {
		for what, text := range map[string]string{
			"none":           signed(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", good()),
			"PEM as secret":  signed(t, jwt.SigningMethodHS256, public, "", good()),
			"PEM, trimmed":   signed(t, jwt.SigningMethodHS256, bytes.TrimSpace(public), "r", good()),
			"N as secret":    signed(t, jwt.SigningMethodHS256, k.rsa.N.Bytes(), "r", good()),
			"Ed as secret":   signed(t, jwt.SigningMethodHS256, []byte(k.ed.Public().(ed25519.PublicKey)), "d", good()),
			"EC as secret":   signed(t, jwt.SigningMethodHS256, point, "c", good()),
			"other RSA key":  signed(t, jwt.SigningMethodRS256, k.other, "", good()),
			"encryption key": signed(t, jwt.SigningMethodRS256, k.other, "e", good()),
			"other curve":    signed(t, jwt.SigningMethodES384, k.ec384, "c", good()),
		} {
			if _, err := v.Verify(text, noon); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
	// Somebody who keeps the header and drops the signature.
	text := signed(t, jwt.SigningMethodRS256, k.rsa, "", good())
	if _, err := verifier(t, Options{}, public, nil).Verify(text[:strings.LastIndexByte(text, '.')+1],
		noon); err == nil {
		t.Error("without a signature")
	}
	if _, err := verifier(t, Options{Algorithms: []string{"PS256"}}, public, nil).Verify(text, noon); !errors.Is(err,
		ErrSignature) {
		t.Errorf("an algorithm that is not allowed: %v", err)
	}
	tok := jwt.NewWithClaims(jwt.SigningMethodRS256, good())
	tok.Header["crit"] = []string{"b64"}
	text, _ = tok.SignedString(k.rsa)
	if _, err := verifier(t, Options{}, public, nil).Verify(text, noon); !errors.Is(err, ErrSignature) {
		t.Errorf("something critical: %v", err)
	}
}

func TestClaims(t *testing.T) {
	k := keys()
	at := func(d time.Duration) int64 { return noon.Add(d).Unix() }
	for name, c := range map[string]struct {
		opts   Options
		change func(jwt.MapClaims)
		want   error
	}{
		"good":          {Options{}, func(jwt.MapClaims) {}, nil},
		"expired":       {Options{}, func(m jwt.MapClaims) { m["exp"] = at(-30 * time.Second) }, ErrExpired},
		"within leeway": {Options{}, func(m jwt.MapClaims) { m["exp"] = at(-29 * time.Second) }, nil},
		"no end":        {Options{}, func(m jwt.MapClaims) { delete(m, "exp") }, ErrExpired},
		"end as text":   {Options{}, func(m jwt.MapClaims) { m["exp"] = "2099" }, ErrExpired},
		"end beyond":    {Options{}, func(m jwt.MapClaims) { m["exp"] = 1e300 }, ErrExpired},
		"early":         {Options{}, func(m jwt.MapClaims) { m["nbf"] = at(31 * time.Second) }, ErrEarly},
		"early, leeway": {Options{}, func(m jwt.MapClaims) { m["nbf"] = at(30 * time.Second) }, nil},
		"begins oddly":  {Options{}, func(m jwt.MapClaims) { m["nbf"] = "soon" }, ErrMalformed},
		"issuer":        {Options{Issuer: "me"}, func(m jwt.MapClaims) { m["iss"] = "me" }, nil},
		"wrong issuer":  {Options{Issuer: "me"}, func(m jwt.MapClaims) { m["iss"] = "you" }, ErrIssuer},
		"no issuer":     {Options{Issuer: "me"}, func(jwt.MapClaims) {}, ErrIssuer},
		"audience": {Options{Audience: []string{"a", "b"}},
			func(m jwt.MapClaims) { m["aud"] = []string{"x", "b"} }, nil},
		"one audience": {Options{Audience: []string{"a"}}, func(m jwt.MapClaims) { m["aud"] = "a" }, nil},
		"wrong audience": {Options{Audience: []string{"a"}}, func(m jwt.MapClaims) { m["aud"] = []string{"b"} },
			ErrAudience},
		"no audience":      {Options{Audience: []string{"a"}}, func(jwt.MapClaims) {}, ErrAudience},
		"odd audience":     {Options{Audience: []string{"a"}}, func(m jwt.MapClaims) { m["aud"] = 7 }, ErrAudience},
		"too long a token": {Options{}, func(m jwt.MapClaims) { m["x"] = strings.Repeat("x", MaxToken) }, ErrTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			claims := good()
			c.change(claims)
			v := verifier(t, c.opts, k.secret, nil)
			if _, err := v.Verify(signed(t, jwt.SigningMethodHS256, k.secret, "", claims), noon); !errors.Is(err,
				c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	claims := good()
	claims["sub"], claims["list"], claims["plan"] = strings.Repeat("x", MaxClaim+1), []string{"a"},
		strings.Repeat("p", MaxClaim)
	got, err := verifier(t, Options{}, k.secret, nil).Verify(signed(t, jwt.SigningMethodHS256, k.secret, "", claims),
		noon)
	if err != nil || got.Claim("sub") != "" || got.Claim("list") != "" || len(got.Claim("plan")) != MaxClaim {
		t.Errorf("%v, %v", got, err)
	}
	var nobody *Claims
	if nobody.Claim("sub") != "" {
		t.Error("nil says something")
	}
}

// What is remembered ends when the token does, and there is never more of it than there may be.
func TestMemory(t *testing.T) {
	k := keys()
	v := verifier(t, Options{Remember: 10}, k.secret, nil)
	text := signed(t, jwt.SigningMethodHS256, k.secret, "", good())
	if _, err := v.Verify(text, noon); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(text, noon.Add(2*time.Hour)); !errors.Is(err, ErrExpired) {
		t.Errorf("%v", err)
	}
	for i := range 40 {
		claims := good()
		claims["sub"] = fmt.Sprint(i)
		if _, err := v.Verify(signed(t, jwt.SigningMethodHS256, k.secret, "", claims), noon); err != nil {
			t.Fatal(err)
		}
		// Whoever is seen now and then is not forgotten.
		if i%5 == 4 && v.known.find(hashOf(text)) == nil {
			t.Errorf("forgotten after %d others", i+1)
		}
		if n := v.known.len(); n > 10 {
			t.Errorf("%d remembered", n)
		}
	}
	_, _ = v.Verify(text+"x", noon)
	if v.known.find(hashOf(text+"x")) != nil {
		t.Error("a bad token is remembered")
	}
	two := verifier(t, Options{Remember: 2}, k.secret, nil)
	for i := range 5 {
		claims := good()
		claims["sub"] = fmt.Sprint(i)
		if _, err := two.Verify(signed(t, jwt.SigningMethodHS256, k.secret, "", claims), noon); err != nil ||
			two.known.len() > 2 {
			t.Errorf("%d of 2 remembered, %v", two.known.len(), err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = v.Verify(text, noon) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestKeyFiles(t *testing.T) {
	k := keys()
	private, _ := x509.MarshalPKCS8PrivateKey(k.ec)
	weak, _ := rsa.GenerateKey(rand.Reader, 1024)
	many := `{"keys":[` + strings.Repeat(`{"kty":"new"},`, MaxKeys) + `{"kty":"new"}]}`
	for name, c := range map[string]struct {
		key, set []byte
		want     error
	}{
		"private":      {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil, ErrPrivateKey},
		"short secret": {bytes.Repeat([]byte("x"), minSecret-1), nil, ErrShortSecret},
		"weak":         {publicPEM(t, weak), nil, ErrWeakKey},
		"empty PEM":    {[]byte("-----BEGIN nothing"), nil, ErrNoKey},
		"no set":       {nil, []byte("no"), ErrBadKeys},
		"empty set":    {nil, []byte(`{"keys":[]}`), ErrNoKey},
		"unknown keys": {nil, []byte(`{"keys":[{"kty":"new"}]}`), ErrNoKey},
		"too many":     {nil, []byte(many), ErrManyKeys},
		"weak in set":  {nil, []byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`), ErrWeakKey},
		"huge exponent": {nil, []byte(`{"keys":[{"kty":"RSA","n":"` + b64(k.rsa.N.Bytes()) + `","e":"` +
			b64([]byte{1, 0, 0, 0, 1}) + `"}]}`), ErrWeakKey},
		"short in set":  {nil, []byte(`{"keys":[{"kty":"oct","k":"AQAB"}]}`), ErrShortSecret},
		"short point":   {nil, []byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AQAB","y":"AQAB"}]}`), ErrNoKey},
		"short Ed25519": {nil, []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AQAB"}]}`), ErrNoKey},
		"no point of it": {nil, []byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"` + b64(make([]byte, 32)) + `","y":"` +
			b64(bytes.Repeat([]byte{7}, 32)) + `"}]}`), nil},
	} {
		_, err := New(Options{Key: "k", JWKS: "s"}, c.key, c.set, nil)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for bits, want := range map[int]error{maxRSA: nil, maxRSA + 1: ErrWeakKey, maxRSA + 8: ErrWeakKey} {
		n := new(big.Int).SetBit(big.NewInt(1), bits-1, 1)
		one := fmt.Appendf(nil, `{"keys":[{"kty":"RSA","n":"%s","e":"AQAB"}]}`, b64(n.Bytes()))
		if _, err := New(Options{JWKS: "s"}, nil, one, nil); !errors.Is(err, want) {
			t.Errorf("%d bits: %v, want %v", bits, err, want)
		}
	}
	if _, err := New(Options{Key: "k", Algorithms: []string{"ES256"}}, publicPEM(t, k.rsa), nil, nil); !errors.Is(err,
		ErrNoKey) {
		t.Errorf("a key for no algorithm: %v", err)
	}
}

func TestValidate(t *testing.T) {
	bad := Options{Algorithms: []string{"RS256", "none", "HS256"}, Key: "k", Leeway: -1, Header: "a b", Remember: -1,
		Audience: make([]string, maxAudience+1)}
	var paths []string
	for _, fe := range weir.FieldErrors(bad.Validate()) {
		paths = append(paths, fe.Path)
		if fe.Msg == "" || fe.Hint == "" {
			t.Errorf("%v has no hint", fe)
		}
	}
	if got, want := strings.Join(paths, " "), "algorithms[1] algorithms audience leeway header remember"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if err := (Options{}).Validate(); err == nil {
		t.Error("no key")
	}
	if err := (Options{Key: "k"}).WithDefaults().Validate(); err != nil {
		t.Error(err)
	}
}

func (m *memory) len() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.a) + len(m.b)
}
