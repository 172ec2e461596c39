package token

import (
	"slices"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

// FuzzVerify: no text but one that was signed gets through, and none breaks anything.
func FuzzVerify(f *testing.F) {
	k := keys()
	v, err := New(Options{JWKS: "s"}, nil, set(f), []string{"sub"})
	if err != nil {
		f.Fatal(err)
	}
	genuine := map[string]bool{}
	for _, text := range []string{
		signed(f, jwt.SigningMethodHS256, k.secret, "h", good()), signed(f, jwt.SigningMethodEdDSA, k.ed, "d", good()),
		signed(f, jwt.SigningMethodES256, k.ec, "", good()), signed(f, jwt.SigningMethodRS256, k.rsa, "r", good()),
	} {
		genuine[text] = true
		f.Add(text)
	}
	f.Add(signed(f, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "", good()))
	f.Add("eyJhbGciOiJIUzI1NiIsImNyaXQiOlsieCJdfQ.e30.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		claims, err := v.Verify(text, noon)
		if (err == nil) != (claims != nil) {
			t.Fatal("neither or both")
		}
		if err == nil && !genuine[text] {
			t.Fatalf("%q got through", text)
		}
	})
}

// FuzzKeys: whatever stands in the files, keys come out that fit an algorithm, or an error; and no secret unless the
// options say that it is one.
func FuzzKeys(f *testing.F) {
	f.Add(set(f), publicPEM(f, keys().rsa))
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AQAB","y":"AQAB"}]}`),
		[]byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"))
	f.Fuzz(func(t *testing.T, setText, keyText []byte) {
		if v, err := New(Options{Key: "k"}, keyText, nil, nil); err == nil && slices.ContainsFunc(v.keys, key.secret) {
			t.Fatalf("%q is a secret, and nobody said so", keyText)
		}
		v, err := New(Options{Key: "k", JWKS: "s"}, keyText, setText, nil)
		if err != nil {
			return
		}
		_, _ = v.Verify("eyJhbGciOiJIUzI1NiJ9.e30.AAAA", noon)
		for i := range v.keys {
			fits := false
			for _, a := range algorithms {
				fits = fits || v.keys[i].fits(a)
			}
			if !fits && v.keys[i].alg == "" {
				t.Fatalf("a key for nothing: %T", v.keys[i].public)
			}
		}
	})
}
