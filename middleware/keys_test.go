package middleware

import (
	"errors"
	"net/http"
	"testing"

	"weir"
	"weir/gate/gatetest"
	"weir/throttle/quota"
)

// A key of several parts is found in the request, as strictly as an account.
func TestKeyOfSeveralParts(t *testing.T) {
	t.Parallel()
	byParts := func(parts ...string) []weir.Throttle {
		return []weir.Throttle{newQuota(t, quota.Options{Policies: []quota.Policy{gatetest.PerMinute(1)}, Key: parts})}
	}
	l, _ := limiter(t, Options{Throttles: byParts("account", "method", "header:X-Tenant"), Account: byKey})
	h := l.Handler(fine)
	get := func(headers ...string) int {
		r := of("acme")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		return ask(h, r).Code
	}
	for i, c := range []struct {
		headers []string
		want    int
	}{
		{[]string{"X-Tenant", "one"}, 200},
		{[]string{"X-Tenant", "one"}, 429},
		{[]string{"X-Tenant", "other"}, 200},
		{nil, 200},
		{nil, 429},
		{[]string{"X-Tenant", "one", "X-Tenant", "two"}, 400},
		{[]string{"X-Tenant", "three", "X_Tenant", "four"}, 400},
	} {
		if got := get(c.headers...); got != c.want {
			t.Errorf("request %d: %d, want %d", i, got, c.want)
		}
	}
	if _, err := New(Options{Throttles: byParts("jwt:org")}); !errors.Is(err, ErrPlaces) {
		t.Errorf("a claim: %v", err)
	}
}

// A handler says in a header what the request has cost.
func TestCostByTheHandler(t *testing.T) {
	t.Parallel()
	q := newQuota(t, quota.Options{Policies: []quota.Policy{gatetest.PerMinute(10)},
		Cost: quota.Cost{Header: "X-Cost", Unanswered: 4}})
	l, c := limiter(t, Options{Throttles: []weir.Throttle{q}, Account: byKey})
	for name, one := range map[string]struct {
		handler http.HandlerFunc
		left    int64
	}{
		"says-five":      {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Cost", "5"); w.WriteHeader(204) }, 5},
		"writes-nothing": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Cost", "3") }, 7},
		"says-nothing":   {fine, 9},
		"says-rubbish":   {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Cost", "1e3") }, 9},
		"panics":         {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 6},
	} {
		func() {
			defer func() { _ = recover() }()
			ask(l.Handler(one.handler), of(name))
		}()
		if s, known := q.Account(name, c.Now()); !known || s.Rules[0].Remaining != one.left {
			t.Errorf("%s: %+v, want %d left", name, s, one.left)
		}
	}
}
