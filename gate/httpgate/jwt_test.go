package httpgate

import (
	"crypto/ecdsa"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"weir/identify/token"
	"weir/internal/testkit/readers"
)

func keySet(t testing.TB, path string, at time.Time, keys map[string]*ecdsa.PrivateKey) {
	t.Helper()
	err := os.WriteFile(path, setOf(t, keys), 0o600)
	if err == nil {
		err = os.Chtimes(path, at, at)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func tokenBy(t testing.TB, kid string, k *ecdsa.PrivateKey, claims jwt.MapClaims) string {
	t.Helper()
	tok := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	tok.Header["kid"] = kid
	text, err := tok.SignedString(k)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A good token names account and plan; any other is none, and 401 where there must be one.
func TestJWT(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	one, two := newKey(t), newKey(t)
	keySet(t, path, epoch, map[string]*ecdsa.PrivateKey{"1": one})
	judge, asked := accountant()
	g := start(t, Options{Upstream: to(echo(t).URL), Account: []string{"jwt:sub"},
		JWT: &token.Options{JWKS: path, Plan: "plan"}}, judge)
	until := epoch.Add(time.Hour).Unix()
	ask := func(token string) (int, string, string) {
		t.Helper()
		res, _ := g.do(g.request("GET", "/", nil, "Authorization", "Bearer "+token))
		return res.StatusCode, receive(t, asked), res.Header.Get("WWW-Authenticate")
	}
	whyNot := map[string]string{ // what is said of it besides
		"expired":   "The token has expired, or never does.",
		"wrong key": "The token is not signed by a known key, or not in an accepted way.",
		"wrong kid": "The token is not signed by a known key, or not in an accepted way: it may be signed by a newer one.",
		"garbage":   "The token is malformed.",
	}
	for name, c := range map[string]struct {
		token  string
		status int
		want   string
	}{
		"good": {tokenBy(t, "1", one, jwt.MapClaims{"sub": "acme", "plan": "gold", "exp": until}), 200,
			"acme/gold"},
		"no plan": {tokenBy(t, "1", one, jwt.MapClaims{"sub": "acme", "exp": until}), 200, "acme/"},
		"long plan": {tokenBy(t, "1", one,
			jwt.MapClaims{"sub": "acme", "plan": strings.Repeat("x", maxPlan+1), "exp": until}), 200, "acme/"},
		"expired": {tokenBy(t, "1", one,
			jwt.MapClaims{"sub": "acme", "plan": "gold", "exp": epoch.Add(-time.Hour).Unix()}), 401, "/"},
		"wrong key": {tokenBy(t, "1", two, jwt.MapClaims{"sub": "acme", "plan": "gold", "exp": until}), 401, "/"},
		"wrong kid": {tokenBy(t, "2", two, jwt.MapClaims{"sub": "acme", "plan": "gold", "exp": until}), 401, "/"},
		"garbage":   {"garbage", 401, "/"},
		"none":      {"", 401, "/"},
	} {
		status, got, challenge := ask(c.token)
		want := ""
		if status == 401 {
			want = `Bearer realm="weir"`
		}
		if why := whyNot[name]; why != "" {
			want += `, error="invalid_token", error_description="` + why + `"`
		}
		if status != c.status || got != c.want || challenge != want {
			t.Errorf("%s: %d, %q, %q", name, status, got, challenge)
		}
	}
	if n := g.seen.bounds(BoundToken); n != 4 {
		t.Errorf("%d counted", n)
	}

	// Keys change: what the old one signed is not good any more, although it is remembered.
	old := tokenBy(t, "1", one, jwt.MapClaims{"sub": "old", "exp": until})
	if status, got, _ := ask(old); status != 200 || got != "old/" {
		t.Errorf("%d, %q", status, got)
	}
	keySet(t, path, epoch.Add(time.Minute), map[string]*ecdsa.PrivateKey{"2": two})
	g.clock.Advance(fileEvery)
	if status, _, _ := ask(old); status != 401 {
		t.Errorf("%d by a key that is gone", status)
	}
	next := tokenBy(t, "2", two, jwt.MapClaims{"sub": "new", "exp": until})
	if status, got, _ := ask(next); status != 200 || got != "new/" {
		t.Errorf("%d, %q", status, got)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.clock.Advance(fileEvery)
	if status, _, _ := ask(next); status != 200 || g.seen.bounds(BoundCertificate) != 1 {
		t.Errorf("%d after the file broke", status)
	}
	if _, _, err := g.Prepare(g.Setup.Load().opts, nil, nil); err == nil {
		t.Error("a reload without keys")
	}
}

// TestTokenBySpelling: a token counts however servers let it be written, so that no spelling hides who is charged
// from the gate alone.
func TestTokenBySpelling(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	key := newKey(t)
	keySet(t, path, epoch, map[string]*ecdsa.PrivateKey{"1": key})
	paid := newCharged()
	g := start(t, Options{Upstream: to(echo(t).URL), Account: []string{"jwt:sub", "source"},
		JWT: &token.Options{JWKS: path}}, paid)
	mine := tokenBy(t, "1", key, jwt.MapClaims{"sub": "mine", "exp": epoch.Add(time.Hour).Unix()})
	other := tokenBy(t, "1", key, jwt.MapClaims{"sub": "other", "exp": epoch.Add(time.Hour).Unix()})
	for _, c := range []struct {
		lines   []string
		status  int
		account string
	}{
		{[]string{"Bearer " + mine}, 200, "mine"}, {[]string{"bearer\t" + mine}, 200, "mine"},
		{[]string{"BEARER \t " + mine + " \t"}, 200, "mine"},
		{[]string{"Bearer " + mine, "Bearer " + mine}, 200, "mine"},
		{[]string{"Bearer " + mine, "Bearer " + other}, 400, ""},
		{[]string{"Bearer " + mine + ", Bearer " + other}, 400, ""},
		{[]string{"Basic x, Bearer " + mine}, 400, ""}, {[]string{"Bearer " + mine + " " + other}, 400, ""},
		{[]string{"Basic x"}, 200, "source:127.0.0.1"},
	} {
		var lines []readers.Line
		for _, line := range c.lines {
			lines = append(lines, readers.Line{Name: "Authorization", Value: line})
		}
		if status := overHTTP1(g)("/", lines); status != c.status || status == 200 && paid.account() != c.account {
			t.Errorf("%.40q: %d, charged %q", c.lines, status, paid.account())
		}
	}
}
