package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"weir"
	"weir/console"
)

// TestAccountsThatAreNeverAsked: an account as the gate finds it, and a plan as a good token names it, are let off;
// whoever only says so is not.
func TestAccountsThatAreNeverAsked(t *testing.T) {
	t.Parallel()
	secret := []byte(strings.Repeat("s", 32))
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	s := stamped(t, "capacity: {concurrent: 10}, throttles: [stamps], jwt: {key: "+file+
		", algorithms: [HS256], plan: plan}",
		always+", never_ask: {accounts: [acme], plans: [gold]}")
	bearer := func(plan string, key []byte) string {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256,
			jwt.MapClaims{"sub": "ann", "plan": plan, "exp": noon.Add(time.Hour).Unix()})
		text, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + text
	}
	p := s.program("192.0.2.1")
	p.get("/v1", "X-Api-Key", "acme").want(200, "")
	p.get("/v1", "Authorization", bearer("gold", secret)).want(200, "")
	p.get("/v1", "Authorization", bearer("gold", secret), "X-Api-Key", "other").want(200, "")
	for name, header := range map[string][]string{
		"nobody":              nil,
		"another account":     {"X-Api-Key", "acme2"},
		"in another case":     {"X-Api-Key", "ACME"},
		"a plan in a header":  {"Plan", "gold", "X-Plan", "gold"},
		"as a bearer":         {"Authorization", "Bearer acme"},
		"another plan":        {"Authorization", bearer("free", secret)},
		"a token of his own":  {"Authorization", bearer("gold", []byte(strings.Repeat("x", 32)))},
		"an account and plan": {"X-Api-Key", "gold"},
	} {
		if r := p.get("/v1", header...); r.status != 503 {
			t.Errorf("%s: %d", name, r.status)
		}
	}
	for _, c := range []struct {
		account, plan string
		want          weir.Verdict
	}{{"acme", "", weir.Admit}, {"", "gold", weir.Admit}, {"other", "free", weir.Challenge}} {
		e, err := console.WhyAskCall.Ask(t.Context(), s.control, console.Question{Source: "192.0.2.1",
			Account: c.account, Plan: c.plan, Method: "GET", Path: "/v1"})
		if err != nil || e.Verdict != c.want {
			t.Errorf("weir why --account %q --plan %q: %v, %v", c.account, c.plan, e.Verdict, err)
		}
	}
	if free := s.stamps().Stamp.Free; free != 3 {
		t.Errorf("%d were let off", free)
	}
}

// TestStampsWithoutLoad: with from_load 0% the first request is asked, with or without a capacity.
func TestStampsWithoutLoad(t *testing.T) {
	t.Parallel()
	for _, gate := range []string{"capacity: {concurrent: 10}, throttles: [stamps]", "throttles: [stamps]"} {
		s := stamped(t, gate, "from_load: 0, first: 64")
		s.program("192.0.2.1").get("/a").want(503, "unpaid")
		s.quiet()
		s.program("192.0.2.1").pays("/a")
		s.arrives("/a")
	}
}
