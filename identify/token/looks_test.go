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
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// A form is a public key as it is written somewhere.
type form struct {
	name  string
	text  []byte
	taken bool // the key can be told without doubt, so that it is used
	by    crypto.Signer
}

// sshWire writes fields as OpenSSH does.
func sshWire(fields ...[]byte) (all []byte) {
	for _, f := range fields {
		all = append(binary.BigEndian.AppendUint32(all, uint32(len(f))), f...)
	}
	return all
}

// forms are all public keys of the tests, in every form that programs write.
var forms = sync.OnceValue(func() (all []form) {
	k := keys()
	for name, private := range map[string]crypto.Signer{"RSA": k.rsa, "EC": k.ec, "EC384": k.ec384, "Ed25519": k.ed} {
		add := func(form_ string, text []byte, taken bool) {
			all = append(all, form{name + " " + form_, text, taken, private})
		}
		pkix_ := must(x509.MarshalPKIXPublicKey(private.Public()))
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "login"},
			NotBefore: noon, NotAfter: noon.Add(time.Hour)}
		cert := must(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))
		add("PKIX", pkix_, true)
		add("certificate", cert, true)
		add("PEM", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: pkix_}), true)
		add("PEM of the certificate", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), true)
		add("PEM without an end", []byte("-----BEGIN PUBLIC KEY-----\n"+base64.StdEncoding.EncodeToString(pkix_)),
			false)
		switch p := private.Public().(type) {
		case *rsa.PublicKey:
			pkcs1 := x509.MarshalPKCS1PublicKey(p)
			add("PKCS #1", pkcs1, true)
			add("PEM of PKCS #1", pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: pkcs1}), true)
			add("XML", []byte("<RSAKeyValue><Modulus>"+base64.StdEncoding.EncodeToString(p.N.Bytes())+
				"</Modulus><Exponent>AQAB</Exponent></RSAKeyValue>"), false)
			wire := sshWire([]byte("ssh-rsa"), []byte{1, 0, 1}, append([]byte{0}, p.N.Bytes()...))
			add("SSH", []byte("ssh-rsa "+base64.StdEncoding.EncodeToString(wire)+" ann@example.org\n"), false)
			add("SSH without its name", wire, false)
			add("JWK", must(json.Marshal(map[string]string{"kty": "RSA", "n": b64(p.N.Bytes()), "e": "AQAB"})), false)
		case *ecdsa.PublicKey:
			point := must(p.Bytes())
			wire := sshWire([]byte("ecdsa-sha2-nistp256"), []byte("nistp256"), point)
			add("SSH", []byte("ecdsa-sha2-nistp256 "+base64.StdEncoding.EncodeToString(wire)), false)
			half := len(point) / 2
			set := map[string]any{"keys": []any{map[string]string{"kty": "EC", "crv": p.Params().Name,
				"x": b64(point[1 : 1+half]), "y": b64(point[1+half:])}}}
			add("JWKS", must(json.MarshalIndent(set, "", "  ")), false)
		default:
			wire := sshWire([]byte("ssh-ed25519"), []byte(k.ed.Public().(ed25519.PublicKey)))
			add("SSH", []byte("ssh-ed25519 "+base64.StdEncoding.EncodeToString(wire)), false)
		}
	}
	slices.SortFunc(all, func(a, b form) int { return strings.Compare(a.name, b.name) })
	return all
})

// An encoding is a way in which a text gets from one place to another.
type encoding struct {
	name   string
	encode func([]byte) []byte
	taken  bool // the key can still be told without doubt
}

func broken(s string, width int, by string) string {
	var b strings.Builder
	for ; len(s) > width; s = s[width:] {
		b.WriteString(s[:width] + by)
	}
	return b.String() + s + by
}

func wide(order binary.AppendByteOrder, mark bool) func([]byte) []byte {
	return func(b []byte) (all []byte) {
		units := utf16.Encode([]rune(string(b)))
		if mark {
			units = append([]uint16{0xfeff}, units...)
		}
		for _, u := range units {
			all = order.AppendUint16(all, u)
		}
		return all
	}
}

var encodings = []encoding{
	{"as it is", func(b []byte) []byte { return b }, true},
	{"base64", func(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b)) }, true},
	{"base64, not padded", func(b []byte) []byte { return []byte(base64.RawStdEncoding.EncodeToString(b)) }, true},
	{"base64 for addresses", func(b []byte) []byte { return []byte(base64.URLEncoding.EncodeToString(b)) }, true},
	{"base64 for addresses, not padded",
		func(b []byte) []byte { return []byte(base64.RawURLEncoding.EncodeToString(b)) }, true},
	{"base64 in lines", func(b []byte) []byte { return []byte(broken(base64.StdEncoding.EncodeToString(b), 64, "\n")) },
		true},
	{"base64 in lines of Windows",
		func(b []byte) []byte { return []byte(broken(base64.StdEncoding.EncodeToString(b), 76, "\r\n")) }, true},
	{"hex", func(b []byte) []byte { return []byte(hex.EncodeToString(b)) }, false},
	{"a line end", func(b []byte) []byte { return append(bytes.Clone(b), '\n') }, false},
}

// textEncodings take text only.
var textEncodings = []encoding{
	{"JSON", func(b []byte) []byte { return must(json.Marshal(string(b))) }, false},
	{"a mark of UTF-8", func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) }, false},
	{"UTF-16", wide(binary.LittleEndian, true), false},
	{"UTF-16 from the big end, no mark", wide(binary.BigEndian, false), false},
}

func encodingsOf(text []byte) []encoding {
	if utf8.Valid(text) {
		return slices.Concat(encodings, textEncodings)
	}
	return encodings
}

// checkForm holds a text that was made of a public key against New: it is no secret, and where it is taken, it is for
// the key's own tokens.
func checkForm(t *testing.T, name string, text []byte, by crypto.Signer) (taken bool) {
	t.Helper()
	if v, err := New(Options{Key: "k", Algorithms: []string{"HS256", "HS512"}}, text, nil, nil); err == nil {
		t.Fatalf("%s: a secret of %d bytes: %.80q", name, len(v.keys[0].public.([]byte)), text)
	} else if !errors.Is(err, ErrNoSecret) && !errors.Is(err, ErrNoKey) && !errors.Is(err, ErrLongSecret) {
		t.Errorf("%s: %v", name, err)
	}
	v, err := New(Options{Key: "k"}, text, nil, []string{"sub"})
	if err != nil {
		if !errors.Is(err, ErrNoSecret) && !errors.Is(err, ErrNoKey) && !errors.Is(err, ErrLongSecret) {
			t.Errorf("%s: %v", name, err)
		}
		return false
	}
	method := map[string]jwt.SigningMethod{
		"*rsa.PrivateKey": jwt.SigningMethodRS256, "*ecdsa.PrivateKey": jwt.SigningMethodES256,
		"ed25519.PrivateKey": jwt.SigningMethodEdDSA,
	}[fmt.Sprintf("%T", by)]
	if k, ok := by.(*ecdsa.PrivateKey); ok && k.Curve == elliptic.P384() {
		method = jwt.SigningMethodES384
	}
	if _, err := v.Verify(signed(t, method, by, "", good()), noon); err != nil {
		t.Errorf("%s: its own token: %v", name, err)
	}
	if _, err := v.Verify(signed(t, jwt.SigningMethodHS256, text, "", good()), noon); !errors.Is(err, ErrSignature) {
		t.Errorf("%s: a token that everybody can sign: %v", name, err)
	}
	return true
}

// A public key is never a shared secret, in whatever form it was copied; where it can be told without doubt, it is
// used as what it is.
func TestPublicKeyIsNeverASecret(t *testing.T) {
	for _, f := range forms() {
		for _, e := range encodingsOf(f.text) {
			name := f.name + ", " + e.name
			if taken := checkForm(t, name, e.encode(f.text), f.by); f.taken && e.taken && !taken {
				t.Errorf("%s: is not taken", name)
			}
		}
	}
	// No program writes base64 of base64.
	twice := base64.StdEncoding.EncodeToString(must(x509.MarshalPKIXPublicKey(keys().ed.Public())))
	twice = base64.StdEncoding.EncodeToString([]byte(twice))
	if _, err := New(Options{Key: "k"}, []byte(twice), nil, []string{"sub"}); !errors.Is(err, ErrNoSecret) {
		t.Errorf("base64 of base64: %v", err)
	}
}

// A key whose last byte is that of a line end is whole with it, and with a line end behind it.
func TestKeysThatEndLikeALine(t *testing.T) {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "login"}, NotBefore: noon,
		NotAfter: noon.Add(time.Hour)}
	found := map[byte]bool{}
	for i := 0; !found['\n'] || !found['\r']; i++ {
		private := ed25519.NewKeyFromSeed(binary.BigEndian.AppendUint64(make([]byte, ed25519.SeedSize-8), uint64(i)))
		cert := must(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))
		last := cert[len(cert)-1]
		if last != '\n' && last != '\r' {
			continue
		}
		found[last] = true
		for _, e := range encodings {
			checkForm(t, fmt.Sprintf("ends with %q, %s", last, e.name), e.encode(cert), private)
		}
	}
}

// FuzzEncodedKeys: nor after several encodings, one around the other.
func FuzzEncodedKeys(f *testing.F) {
	for i := range 64 {
		f.Add(uint16(i*7), uint16(i*13), uint16(i*29))
	}
	f.Fuzz(func(t *testing.T, a, b, c uint16) {
		all := forms()
		one := all[int(a)%len(all)]
		text, name := one.text, one.name
		for _, n := range []uint16{b, c} {
			ways := encodingsOf(text)
			e := ways[int(n)%len(ways)]
			text, name = e.encode(text), name+", "+e.name
		}
		checkForm(t, name, text, one.by)
	})
}

// A private key has no place here in any form either.
func TestPrivateKeysAreRefused(t *testing.T) {
	k := keys()
	for name, text := range map[string][]byte{
		"PKCS #8":     must(x509.MarshalPKCS8PrivateKey(k.rsa)),
		"PKCS #8, EC": must(x509.MarshalPKCS8PrivateKey(k.ec)),
		"PKCS #1":     x509.MarshalPKCS1PrivateKey(k.rsa),
		"SEC 1":       must(x509.MarshalECPrivateKey(k.ec)),
		"PEM of PKCS#1": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY",
			Bytes: x509.MarshalPKCS1PrivateKey(k.rsa)}),
	} {
		for _, e := range encodingsOf(text) {
			for _, algorithms := range [][]string{nil, {"HS256"}} {
				_, err := New(Options{Key: "k", Algorithms: algorithms}, e.encode(text), nil, nil)
				if !errors.Is(err, ErrPrivateKey) && !errors.Is(err, ErrNoSecret) || e.taken &&
					!errors.Is(err, ErrPrivateKey) {
					t.Errorf("%s, %s: %v", name, e.name, err)
				}
			}
		}
	}
	for _, set := range []string{`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB","d":"AQAB"}]}`,
		`{"kty":"OKP","crv":"Ed25519","x":"AQAB","d":"AQAB"}`} {
		if _, err := New(Options{JWKS: "s"}, nil, []byte(set), nil); !errors.Is(err, ErrPrivateKey) {
			t.Errorf("%s: %v", set, err)
		}
	}
}

// What is none of these is a secret, if the options say so, and only then.
func TestSecrets(t *testing.T) {
	random := make([]byte, 48)
	rand.Read(random)
	random[0], random[47] = 'x', 'x' // no line end is cut off
	for name, text := range map[string][]byte{
		"random": random, "base64": []byte(base64.StdEncoding.EncodeToString(random) + "\n"),
		"hex":                  []byte(hex.EncodeToString(random)),
		"base64 for addresses": []byte(b64(random)), "words": []byte("correct horse battery staple, and another horse"),
		"zeroes": bytes.Repeat([]byte("0"), 64), "shortest": bytes.Repeat([]byte("x"), minSecret),
		"longest":           bytes.Repeat([]byte("x"), maxSecret),
		"begins like a key": append([]byte{0x30, 46}, bytes.Repeat([]byte{0xff}, 46)...),
	} {
		v, err := New(Options{Key: "k", Algorithms: []string{"HS256"}}, text, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := v.Verify(signed(t, jwt.SigningMethodHS256, bytes.TrimRight(text, "\n"), "", good()),
			noon); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := New(Options{Key: "k"}, text, nil, nil); !errors.Is(err, ErrUndeclared) {
			t.Errorf("%s, with nobody to call it a secret: %v", name, err)
		}
		if _, err := New(Options{Key: "k", Algorithms: []string{"RS256"}}, text, nil, nil); !errors.Is(err,
			ErrUndeclared) {
			t.Errorf("%s, for RS256: %v", name, err)
		}
	}
	if _, err := New(Options{Key: "k", Algorithms: []string{"HS256"}}, bytes.Repeat([]byte("x"), maxSecret+1), nil,
		nil); !errors.Is(err, ErrLongSecret) {
		t.Errorf("too long: %v", err)
	}
}

// A set says of each key what it is, and is not believed where that is a secret which everybody knows.
func TestSecretsOfSets(t *testing.T) {
	k := keys()
	for name, public := range map[string][]byte{
		"PEM": publicPEM(t, k.rsa), "DER": must(x509.MarshalPKIXPublicKey(k.ec.Public())),
		"base64": []byte(base64.StdEncoding.EncodeToString(must(x509.MarshalPKIXPublicKey(k.ed.Public())))),
	} {
		if _, err := New(Options{JWKS: "s"}, nil, []byte(`{"keys":[{"kty":"oct","k":"`+b64(public)+`"}]}`),
			nil); !errors.Is(err, ErrNoSecret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	own := []byte(`{"kty":"oct","kid":"h","k":"` + b64(k.secret) + `"}`)
	one := verifier(t, Options{}, nil, own)
	if _, err := one.Verify(signed(t, jwt.SigningMethodHS256, k.secret, "h", good()), noon); err != nil {
		t.Errorf("a single key: %v", err)
	}
	// What is fetched can be read by others. Keys of no use beside good ones do not matter there.
	const remote = "https://login.example.org/keys"
	if _, err := New(Options{JWKS: remote}, nil, own, nil); !errors.Is(err, ErrNoKey) {
		t.Errorf("a secret that is fetched: %v", err)
	}
	var all struct{ Keys []json.RawMessage }
	if err := json.Unmarshal(set(t), &all); err != nil {
		t.Fatal(err)
	}
	all.Keys = append(all.Keys, json.RawMessage(`{"kty":"RSA","kid":"weak","n":"AQAB","e":"AQAB"}`))
	text := must(json.Marshal(map[string]any{"keys": all.Keys}))
	if _, err := New(Options{JWKS: "s"}, nil, text, nil); !errors.Is(err, ErrWeakKey) {
		t.Errorf("a weak key in a file: %v", err)
	}
	v, err := New(Options{JWKS: remote}, nil, text, []string{"sub"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(signed(t, jwt.SigningMethodRS256, k.rsa, "r", good()), noon); err != nil {
		t.Errorf("a good key beside a weak one: %v", err)
	}
	if _, err := v.Verify(signed(t, jwt.SigningMethodHS256, k.secret, "h", good()), noon); !errors.Is(err,
		ErrUnknownKey) {
		t.Errorf("a secret that is fetched beside a key: %v", err)
	}
}

// Another set of keys may help a token whose key is not here, and no other.
func TestUnknownKey(t *testing.T) {
	k := keys()
	v := verifier(t, Options{}, nil, set(t))
	for name, c := range map[string]struct {
		kid     string
		unknown bool
	}{"another": {"2024", true}, "none": {"", true}, "one that is here": {"r", false}} {
		_, err := v.Verify(signed(t, jwt.SigningMethodRS256, k.other, c.kid, good()), noon)
		if !errors.Is(err, ErrSignature) || errors.Is(err, ErrUnknownKey) != c.unknown {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for address, good := range map[string]bool{
		"https://login.example.org/keys": true, "https://login.example.org:8443/a/b?p=c": true,
		"HTTPS://login.example.org/": true, "https://[2001:db8::1]/": true,
		"http://127.0.0.1:8080/keys": true, "http://127.9.9.9/": true, "http://[::1]:80/": true,
		"http://localhost/keys":         true,
		"http://login.example.org/keys": false, "http://localhost.example.org/": false,
		"http://127.0.0.1.example.org/": false, "http://192.0.2.1/": false, "http://0.0.0.0/": false,
		"ftp://login.example.org/keys": false, "file:///etc/keys.json": false, "https://": false,
		"https:///keys": false, "https://ann:secret@login.example.org/": false,
		"https://login.example.org/#keys": false, "https://login.example.org/%zz": false,
		"https://login.example.org/" + strings.Repeat("x", maxAddress): false,
		"/etc/weir/keys.json": true, "keys.json": true,
	} {
		o := Options{JWKS: address}
		if err := o.Validate(); (err == nil) != good {
			t.Errorf("%.60s: %v", address, err)
		}
		if err := o.Validate(); err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("a password is told: %v", err)
		}
	}
}
