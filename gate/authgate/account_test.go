package authgate

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/identify"
	"weir/internal/clock"
	"weir/internal/testkit/readers"
)

// TestNobodyReadsAnotherAccount: a proxy passes on what its client sent, byte by byte, when the gate says yes. So
// whatever a server behind it can read as the account is what was charged, or the gate said no.
func TestNobodyReadsAnotherAccount(t *testing.T) {
	for _, place := range []string{"header:X-Api-Key", "bearer", "query:key", "cookie:session"} {
		p := newProbe(nil)
		r := start(t, Options{Account: []string{place}}, clock.NewFake(noon), chainOf(t, quiet{p}))
		for name, head := range map[string]string{
			"nginx": "GET / HTTP/1.1\r\nHost: weir\r\nX-Original-Method: GET\r\nX-Real-IP: " +
				"192.0.2.1\r\nX-Original-URI: /v1?",
			"traefik": "GET / HTTP/1.1\r\nHost: weir\r\nX-Forwarded-Method: GET\r\nX-Forwarded-For: " +
				"192.0.2.1\r\nX-Forwarded-Uri: /v1?",
		} {
			t.Run(place+" "+name, rapid.MakeCheck(func(t *rapid.T) {
				query, lines := readers.Any(t, place)
				text := head + query + "\r\n"
				for _, l := range lines {
					text += l.Name + ": " + l.Value + "\r\n"
				}
				status := say(r.t, r.Addr().String(), text+"\r\n")
				if status == 400 || status == 403 {
					return
				}
				account := p.last(r.t).Account
				if server, read := readers.Misread(place, query, lines, account); status != 200 || server != "" {
					t.Fatalf("%d: charged %q, read by %q: %q in\n%s", status, account, server, read, text)
				}
			}))
		}
	}
}

// quiet keeps outcomes from a probe that nobody asks about them.
type quiet struct{ *probe }

func (quiet) Settle(weir.Hold, weir.Outcome) {}

func say(t testing.TB, addr, text string) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestPlacesThatDisagree: they are refused, unless the first is to count.
func TestPlacesThatDisagree(t *testing.T) {
	for conflict, want := range map[identify.Conflict]int{"": 400, identify.ConflictFirst: 200} {
		p := newProbe(nil)
		r := start(t, Options{Account: []string{"header:X-Api-Key", "bearer"}, AccountConflict: conflict},
			clock.NewFake(noon), chainOf(t, p))
		if a := r.ask(byTraefik("X-Api-Key", "a", "Authorization", "Bearer b")...); a.status != want || want == 200 &&
			p.last(t).Account != "a" {
			t.Errorf("%q: %d %s", conflict, a.status, a.body)
		}
	}
	for _, places := range [][]string{{"jwt:sub"}, {"cert"}} { // nobody checks them here
		if err := (Options{Listen: "127.0.0.1:0", Account: places}).Validate(); err == nil ||
			!strings.Contains(err.Error(), "account") {
			t.Errorf("%q: %v", places, err)
		}
	}
}

// TestNamedTwice: a proxy cannot be told to leave anything out, so that each doubt is a refusal, with the reason.
func TestNamedTwice(t *testing.T) {
	for _, c := range []struct {
		name, place, query string
		headers            []string
		detail             string // empty where it is admitted
	}{
		{"two lines", "header:X-Api-Key", "", []string{"X-Api-Key", "a", "X-Api-Key", "b"}, "twice"},
		{"equal lines", "header:X-Api-Key", "", []string{"X-Api-Key", "a", "X-Api-Key", "a"}, ""},
		{"comma", "header:X-Api-Key", "", []string{"X-Api-Key", "a, b"}, "comma"},
		{"underscores", "header:X-Api-Key", "", []string{"X-Api-Key", "a", "X_Api_Key", "b"}, "spelled"},
		{"two tokens", "bearer", "", []string{"Authorization", "Bearer a", "Authorization", "Bearer b"}, "twice"},
		{"query", "query:key", "?key=a&key=b", nil, "twice"},
		{"escaped name", "query:key", "?key=a&%6bey=b", nil, "twice"},
		{"brackets", "query:key", "?key=a&key[]=b", nil, "twice"},
		{"cookie", "cookie:session", "", []string{"Cookie", "session=a; session=b"}, "twice"},
		{"cookie in two lines", "cookie:session", "", []string{"Cookie", "session=a", "Cookie", "session=b"}, "twice"},
		{"one cookie", "cookie:session", "", []string{"Cookie", "x=1; session=a"}, ""},
	} {
		r := start(t, Options{Account: []string{c.place}}, clock.NewFake(noon), chainOf(t, newProbe(nil)))
		a := r.ask(append([]string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/" + c.query, "X-Forwarded-For",
			"192.0.2.1"}, c.headers...)...)
		want := 200
		if c.detail != "" {
			want = 400
		}
		if a.status != want || !strings.Contains(a.Refusal.Detail, c.detail) ||
			r.seen.bounds(BoundAccount) != want/400 {
			t.Errorf("%s: %d %s, %d counted", c.name, a.status, a.body, r.seen.bounds(BoundAccount))
		}
	}
}
