package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Two gates take tokens of one identity provider, which one of them cannot reach at first. Reloads keep what was
// fetched, and fail with a provider that has no keys.
func TestKeysOfAnIdentityProvider(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	set := fmt.Sprintf(`{"keys":[{"kty":"EC","kid":"1","crv":"P-256","x":%q,"y":%q}]}`, encode(point[1:33]),
		encode(point[33:]))
	var asked atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/keys" {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		asked.Add(1)
		fmt.Fprint(w, set)
	}))
	t.Cleanup(provider.Close)
	text := strings.ReplaceAll(`
data: DATA
http:
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["jwt:sub"], jwt: {jwks: "PROVIDER/keys"}, throttles: [plans]}
- {listen: "127.0.0.1:0", upstream: UPSTREAM, account: ["jwt:sub"], jwt: {jwks: "PROVIDER/down"}, throttles: [plans]}
throttles:
  plans: {quota: {policies: [{name: per-hour, limit: 100, period: 1h}], on_missing: refuse}}
console: {listen: "off"}
`, "PROVIDER", provider.URL)
	b := start(t, text)
	token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": "ann", "exp": noon.Add(time.Hour).Unix()})
	token.Header["kid"] = "1"
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	get := func(i int) int {
		t.Helper()
		req, err := http.NewRequest("GET", "http://"+b.Addr("http", i).String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+signed)
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	b.wants("by the keys of the provider", get(0), 200)
	b.wants("by none", get(1), 401)
	if err := b.Reload(b.config(strings.Replace(text, "limit: 100", "limit: 50", 1))); err != nil {
		t.Fatal(err)
	}
	b.wants("after a reload", get(0), 200)
	b.wants("fetches", asked.Load(), 1)
	for what, change := range map[string][2]string{
		"another provider": {"/keys", "/elsewhere"},
		"an algorithm": {`jwks: "` + provider.URL + `/keys"`,
			`algorithms: [RS256], jwks: "` + provider.URL + `/keys"`},
	} {
		if err := b.Reload(b.config(strings.Replace(text, change[0], change[1], 1))); err == nil ||
			!strings.Contains(err.Error(), "http[0]") {
			t.Errorf("a reload with %s: %v", what, err)
		}
	}
	b.wants("after reloads that failed", get(0), 200)
	if err := b.Reload(b.config(strings.Replace(text, "/down", "/keys", 1))); err != nil {
		t.Fatal(err)
	}
	b.wants("the second gate, whose provider is another now", get(1), 200)
}
