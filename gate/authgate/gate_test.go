package authgate

import (
	"context"
	"net/netip"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate"
	"weir/internal/clock"
	"weir/policy"
)

// What a throttle is asked, by each dialect.
func TestEvent(t *testing.T) {
	for name, c := range map[string]struct {
		dialect Dialect
		headers []string
	}{
		"nginx": {Nginx, byNginx()}, "nginx by itself": {Auto, byNginx()},
		"traefik": {Traefik, byTraefik()}, "caddy": {Caddy, byTraefik()}, "haproxy": {HAProxy, byTraefik()},
		"traefik by itself": {Auto, byTraefik()},
		// What a client wrote in the words of another proxy is nothing to one that is named.
		"nginx, forged": {Nginx, byNginx("X-Forwarded-Uri", "/free", "X-Forwarded-Method", "GET", "X-Forwarded-Host",
			"free.example", "Forwarded", "for=198.51.100.9")},
		"traefik, forged": {Traefik, byTraefik("X-Original-Uri", "/free", "X-Original-Method", "GET", "X-Real-Ip",
			"198.51.100.9", "Forwarded", "for=198.51.100.9")},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProbe(nil)
			r := start(t, Options{For: c.dialect, Account: []string{"query:key"}}, clock.NewFake(noon), chainOf(t, p))
			a := r.ask(append(c.headers, "User-Agent", "curl/8", "X-Request-Id", "q-1")...)
			if a.status != 200 || a.body != "" || a.header.Get("Content-Length") != "0" {
				t.Fatal(a.status, a.body, a.header)
			}
			want := weir.Event{Time: noon, Source: netip.MustParseAddr("192.0.2.1"), Account: "k1", Kind: "http",
				ID: "q-1", Agent: "curl/8",
				Route: weir.Route{Method: "POST", Host: "example.com", Path: "/v1/users"}}
			if got := p.last(t); !reflect.DeepEqual(got, want) {
				t.Errorf("asked %+v, want %+v", got, want)
			}
			// What becomes of it is not known: it is done at once.
			if o := receive(t, p.settled); !o.Done || r.seen.decisions(weir.Admit) != 1 {
				t.Error(o, r.seen.decided)
			}
		})
	}
}

// TestBrokenSource: Forwarded is never looked at, and where the addresses break off, it is not known who is behind the
// proxy.
func TestBrokenSource(t *testing.T) {
	p := newProbe(nil)
	r := start(t, Options{Account: []string{"source"}, TrustedProxies: trusted}, clock.NewFake(noon), chainOf(t, p))
	for _, c := range []struct {
		headers []string
		status  int
		want    string
		unknown bool
	}{
		{byTraefik("Forwarded", "for=198.51.100.9"), 200, "192.0.2.1", false},
		{byTraefik("Forwarded", `for="`, "X-Real-Ip", "198.51.100.9"), 200, "192.0.2.1", false},
		{byNginx("Forwarded", `for=198.51.100.9`), 200, "192.0.2.1", false},
		{but(byTraefik(), "X-Forwarded-For", "garbage, , 192.0.2.1"), 200, "192.0.2.1", false},
		{but(byTraefik(), "X-Forwarded-For", strings.Repeat("10.0.0.3, ", 33)+"192.0.2.1, 10.0.0.2"), 200, "192.0.2.1",
			false},
		{but(byTraefik(), "X-Forwarded-For", "192.0.2.1, unknown, 10.0.0.2"), 200, "10.0.0.2", true},
		{but(byTraefik(), "X-Forwarded-For", "garbage"), 200, "127.0.0.1", true},
		{but(byTraefik(), "X-Forwarded-For", strings.Repeat("10.0.0.3, ", 33)+"10.0.0.2"), 200, "10.0.0.3", true},
		// X-Real-IP differs
		{but(byNginx(), "X-Forwarded-For", "garbage"), 403, "", false},
		{but(but(byTraefik(), "X-Forwarded-For", ""), "Forwarded", "for=192.0.2.1"), 400, "", false}, // no source
	} {
		before := len(p.asked())
		if a := r.ask(c.headers...); a.status != c.status {
			t.Errorf("%q: %d", c.headers, a.status)
		}
		if c.status != 200 {
			if len(p.asked()) != before {
				t.Errorf("%q was judged", c.headers)
			}
			continue
		}
		if ev := p.last(t); ev.Source.String() != c.want || ev.SourceUnknown != c.unknown ||
			ev.Account != "source:"+c.want {
			t.Errorf("%q: %s, unknown is %v, charged to %s", c.headers, ev.Source, ev.SourceUnknown, ev.Account)
		}
	}
}

// Each refusal, as the dialects tell it. None of them is ever 2xx.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		why    weir.Reason
		status int
	}{
		{weir.OverLimit, 429}, {weir.LineFull, 429}, {weir.WaitTooLong, 429}, {weir.NoAccount, 401},
		{weir.TooCostly, 429}, {weir.Overload, 503},
		{weir.Failure, 503}, {weir.NoSource, 429}, {weir.Banned, 403}, {weir.NotPaying, 429}, {weir.Forged, 403},
		{weir.Replayed, 403},
		{weir.TooMany, 429}, {weir.NoReason, 429},
	} {
		r := start(t, Options{Account: []string{"bearer"}}, clock.NewFake(noon), chainOf(t, refusing(c.why)))
		for dialect, headers := range map[Dialect][]string{Nginx: byNginx(), Traefik: byTraefik()} {
			a := r.ask(headers...)
			status := c.status
			if dialect == Nginx && status != 401 {
				status = 403
			}
			if a.status != status || a.header.Get("X-Weir-Status") != strconv.Itoa(c.status) || a.Status != c.status ||
				a.header.Get("X-Weir-Reason") != c.why.String() || a.Reason != c.why.String() ||
				a.header.Get("X-Weir-By") != "plans/rule" ||
				a.Throttle != "plans" || a.header.Get("Content-Type") != "application/problem+json" ||
				a.RequestID == "" || a.Detail == "" {
				t.Errorf("%s, %s: %d %v %s", c.why, dialect, a.status, a.header, a.body)
			}
			if challenge := a.header.Get("WWW-Authenticate"); (challenge == `Bearer realm="weir"`) != (c.status == 401) {
				t.Errorf("%s: %s", c.why, challenge)
			}
		}
		if r.seen.decisions(weir.Refuse) != 2 {
			t.Error(r.seen.decided)
		}
	}
}

// A limit, with the figures that clients may be told.
func TestLimit(t *testing.T) {
	r, _ := startQuota(t, Options{Account: []string{"header:X-Api-Key"}}, perMinute(2))
	for left := range 2 {
		a := r.ask(byNginx("X-Api-Key", "acme")...)
		if a.status != 200 || a.header.Get("RateLimit") != `"per-minute";r=`+string(rune('1'-left))+";t=60" ||
			a.header.Get("RateLimit-Policy") != `"per-minute";q=2;w=60` {
			t.Error(a.status, a.header)
		}
	}
	r.clock.Advance(18 * time.Second)
	for _, headers := range [][]string{byNginx("X-Api-Key", "acme"), byTraefik("X-Api-Key", "acme")} {
		a := r.ask(headers...)
		if a.Status != 429 || a.RetryAfter != 42 || a.header.Get("Retry-After") != "42" ||
			a.header.Get("RateLimit") != `"per-minute";r=0;t=42` ||
			*a.Limit != 2 || *a.Remaining != 0 || a.Policy != "per-minute" ||
			a.Detail != "The limit of 2 requests per minute is used up." {
			t.Error(a.status, a.header, a.body)
		}
	}
	if a := r.ask(byTraefik("X-Api-Key", "other")...); a.status != 200 {
		t.Error(a.status, a.body)
	}
}

// Places at once are taken and left in the same moment: they hold nothing back, and none is lost.
func TestLevels(t *testing.T) {
	r, _ := startQuota(t, Options{}, atOnce(1))
	for range 3 {
		if a := r.ask(byNginx()...); a.status != 200 {
			t.Error(a.status, a.body)
		}
	}
}

func TestOffend(t *testing.T) {
	ban := newProbe(func(_ *weir.Event, a *weir.Answer) { a.Verdict, a.Reason, a.Ban = weir.Refuse, weir.Forged, true })
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, ban))
	a := r.ask(byTraefik()...)
	if told := receive(t, r.banned); told != "192.0.2.1 "+a.RequestID || a.status != 403 {
		t.Error(told, a.status, a.body)
	}
}

// There is no page to pay at: a challenge is a refusal.
func TestChallenge(t *testing.T) {
	unpaid := newProbe(func(_ *weir.Event, a *weir.Answer) {
		a.Verdict, a.Reason, a.Figure = weir.Challenge, weir.Unpaid,
			weir.Figure{Rule: "per-day", Unit: "requests", Limit: 5, Window: weir.Window(24 * time.Hour)}
	})
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, unpaid))
	a := r.ask(byTraefik()...)
	if a.status != 429 || a.Reason != "unpaid" || a.Detail != "The limit of 5 requests per day is used up." ||
		r.seen.decisions(weir.Challenge) != 1 {
		t.Error(a.status, a.body, r.seen.decided)
	}
	dear := &taker{newProbe(func(_ *weir.Event, a *weir.Answer) {
		a.Verdict, a.Reason, a.Figure = weir.Challenge, weir.Unpaid,
			weir.Figure{Rule: "stamp", Unit: "operations", Limit: 65536}
	})}
	r = start(t, Options{}, clock.NewFake(noon), chainOf(t, dear))
	if a := r.ask(byTraefik()...); a.status != 503 || a.Reason != "unpaid" ||
		a.Detail != "The server has no room for the request right now." {
		t.Error(a.status, a.body)
	}
	if a := r.ask(byNginx()...); a.status != 403 || a.header.Get("X-Weir-Status") != "503" {
		t.Error(a.status, a.header)
	}
}

// A stamp taker is a throttle that takes stamps.
type taker struct{ *probe }

func (taker) Receive(context.Context, *weir.Event, string, string) (weir.Paid, func()) {
	return weir.Paid{}, nil
}
func (taker) Ask(*weir.Event, string, string) (weir.Puzzle, error) { return weir.Puzzle{}, nil }
func (taker) Terms() weir.Terms                                    { return weir.Terms{} }

var _ policy.StampTaker = taker{}

// Whatever method and path the question has.
func TestAnyMethodAndPath(t *testing.T) {
	p := newProbe(nil)
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, p))
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "DELETE", "PURGE"} {
		req := r.request(t.Context(), byTraefik()...)
		req.Method, req.URL.Path = method, "/anything/"+method
		if a := r.do(req); a.status != 200 || p.last(t).Route.Path != "/v1/users" {
			t.Error(method, a.status, a.body)
		}
	}
	p.judge = refusing(weir.OverLimit).judge
	req := r.request(t.Context(), byTraefik()...)
	req.Method = "HEAD"
	if a := r.do(req); a.status != 429 || a.body != "" || a.header.Get("Content-Length") == "" {
		t.Error(a.status, a.body, a.header)
	}
	c := r.dial()
	_, _ = c.Write([]byte("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
	if answer := readAll(c); !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
		t.Error("net/http answers by itself:", answer)
	}
}

// A throttle that panics admits nobody, and the gate goes on.
func TestPanic(t *testing.T) {
	first := newProbe(nil)
	p := newProbe(func(ev *weir.Event, _ *weir.Answer) {
		if ev.Route.Method == "POST" {
			panic("broken")
		}
	})
	r := start(t, Options{}, clock.NewFake(noon), chainOf(t, first, p))
	if a := r.ask(byTraefik()...); a.status != 503 || a.Reason != "failure" ||
		!strings.Contains(r.log.String(), "broken") {
		t.Error(a.status, a.body, r.log)
	}
	if a := r.ask(byNginx()...); a.status != 403 || a.header.Get("X-Weir-Status") != "503" {
		t.Error(a.status, a.header)
	}
	for range 2 {
		if o := receive(t, first.settled); o.Done {
			t.Error("charged")
		}
	}
	good := byTraefik()
	good[1] = "GET"
	if a := r.ask(good...); a.status != 200 {
		t.Error(a.status, a.body)
	}
}

// Without throttles everything is admitted; without figures no header says so.
func TestNoThrottles(t *testing.T) {
	r := start(t, Options{}, clock.NewFake(noon), nil)
	if a := r.ask(byNginx()...); a.status != 200 || len(a.header["Ratelimit"]) > 0 {
		t.Error(a.status, a.header)
	}
}

func TestSocket(t *testing.T) {
	p := newProbe(nil)
	path := filepath.Join(t.TempDir(), "auth")
	r := start(t, Options{Listen: "unix:" + path, Socket: gate.Socket{Mode: "0600"}}, clock.NewFake(noon),
		chainOf(t, p))
	if a := r.ask(byNginx()...); a.status != 200 || p.last(t).Source.String() != "192.0.2.1" {
		t.Error(a.status, a.body)
	}
	other, err := New(Options{Listen: "unix:" + path}, nil, Env{})
	if err != nil {
		t.Fatal(err)
	}
	if other.Listen() == nil {
		t.Error("two gates on one socket")
	}
}
