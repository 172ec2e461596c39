package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// A proxy asks about requests: what is admitted is answered 200, anything else never is, and the same throttles count
// as everywhere.
func TestForwardAuth(t *testing.T) {
	t.Parallel()
	p := newPost(t, lenient, "", `  plans: {quota: {policies: [{name: few, limit: 2, period: 1h}]}}
auth: [{listen: "127.0.0.1:0", account: ["header:X-Api-Key"], throttles: [plans]}]`)
	ask := func(key string) *http.Response {
		t.Helper()
		q, err := http.NewRequest(http.MethodGet, "http://"+p.app.Addr("auth", 0).String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"X-Api-Key": key, "X-Forwarded-Method": "GET",
			"X-Forwarded-Host": "shop.example",
			"X-Forwarded-Uri":  "/cart", "X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"} {
			q.Header.Set(name, value)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		slurp(t, r.Body)
		return r
	}
	for i, want := range []int{200, 200, 429} {
		if r := ask("acme"); r.StatusCode != want {
			t.Errorf("question %d: %s, want %d", i+1, r.Status, want)
		}
	}
	if r := ask("other"); r.StatusCode != 200 {
		t.Errorf("another account: %s", r.Status)
	}
	if s := p.throttle("plans"); s.Verdicts["refuse"] != 1 || s.Verdicts["admit"] != 3 {
		t.Errorf("%+v", s.Verdicts)
	}
	p.extra = strings.Replace(p.extra, "limit: 2", "limit: 5", 1)
	if err := p.app.Reload(p.config(lenient, "")); err != nil {
		t.Fatal(err)
	}
	if r := ask("acme"); r.StatusCode != 200 {
		t.Errorf("after a reload with a higher limit: %s", r.Status)
	}
}
