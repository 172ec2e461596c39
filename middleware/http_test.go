package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"weir"
	"weir/gate/gatetest"
	"weir/gate/httpgate"
	"weir/identify"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/policy"
	"weir/throttle/quota"
	"weir/upstream"
)

// limiter returns one on a clock of its own.
func limiter(t testing.TB, o Options) (*Limiter, *clock.Fake) {
	t.Helper()
	c := clock.NewFake(gatetest.Noon)
	l, err := newLimiter(o, c)
	if err != nil {
		t.Fatal(err)
	}
	return l, c
}

func newQuota(t testing.TB, o quota.Options) *quota.Quota {
	t.Helper()
	q, err := quota.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// of is a request of an account.
func of(account string) *http.Request {
	r := httptest.NewRequest("GET", "http://example.com/v1/things", nil)
	if account != "" {
		r.Header.Set("X-Api-Key", account)
	}
	return r
}

func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var fine = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })

var byKey = []string{"header:X-Api-Key"}

// What clients are told is what an HTTP gate tells them, in every header and byte, but for the id of the request.
func TestSameAsTheGate(t *testing.T) {
	t.Parallel()
	behind := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer behind.Close()
	options := quota.Options{OnMissing: quota.MissingRefuse, Policies: []quota.Policy{gatetest.PerMinute(1)}}
	const id = "the-request"
	l, c := limiter(t, Options{Chain: gatetest.Plans(t, newQuota(t, options)), Account: byKey,
		Identify: func(_ context.Context, ev *weir.Event) error { ev.ID = id; return nil }})
	env := httpgate.Env{}
	env.Clock = c
	g, err := httpgate.New(httpgate.Options{Listen: "127.0.0.1:0", Upstream: upstream.To(behind.URL), Account: byKey}, nil,
		gatetest.Plans(t, newQuota(t, options)), env)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Stop(t.Context())
	for _, tt := range []struct {
		name    string
		account string
		header  http.Header
		status  int
	}{
		{"admitted", "acme", nil, 200},
		{"refused", "acme", nil, 429},
		{"refused, in a browser", "acme", http.Header{"Sec-Fetch-Mode": {"navigate"}}, 429},
		{"refused, in gRPC", "acme", http.Header{"Content-Type": {"application/grpc"}}, 200},
		{"without an account", "", nil, 401},
	} {
		var got [2]*httptest.ResponseRecorder
		for i, h := range []http.Handler{l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), g} {
			r := of(tt.account)
			for name, values := range tt.header {
				r.Header[name] = values
			}
			got[i] = ask(h, r)
		}
		theirs := got[1].Header().Get("X-Request-Id")
		if got[0].Code != tt.status || got[1].Code != tt.status {
			t.Errorf("%s: %d, and %d at the gate", tt.name, got[0].Code, got[1].Code)
		}
		body := strings.ReplaceAll(got[1].Body.String(), theirs, id)
		if ours := got[0].Body.String(); ours != body {
			t.Errorf("%s: %s\nat the gate: %s", tt.name, ours, body)
		}
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After", "Cache-Control", "Vary",
			"X-Content-Type-Options", "Content-Type", "Content-Security-Policy", "Www-Authenticate", "Grpc-Status",
			"Grpc-Message", "Grpc-Status-Details-Bin", "Grpc-Retry-Pushback-Ms"} {
			if ours, gates := fmt.Sprint(got[0].Header()[name]), fmt.Sprint(got[1].Header()[name]); ours != gates {
				t.Errorf("%s: %s is %s, and %s at the gate", tt.name, name, ours, gates)
			}
		}
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		serve  http.HandlerFunc
		status int
	}{
		{"nothing written", func(http.ResponseWriter, *http.Request) {}, 200},
		{"a body only", fine, 200},
		{"not found", http.NotFound, 404},
		{"a hint first", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNoContent)
		}, 204},
		{"copied", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("x")) }, 200},
		{"flushed", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, 200},
		{"hijacked", func(w http.ResponseWriter, _ *http.Request) {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		}, 0},
		{"a panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 500},
		{"a panic in the middle", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusAccepted)
			panic(http.ErrAbortHandler)
		}, 202},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			th := gatetest.NewThrottle(nil)
			l, c := limiter(t, Options{Throttles: []weir.Throttle{th}})
			server := httptest.NewServer(l.Handler(tt.serve))
			defer server.Close()
			if res, err := http.Get(server.URL); err == nil {
				_ = res.Body.Close()
			}
			if got := gatetest.Receive(t, th.Settled); got != (weir.Outcome{Time: c.Now(), Done: true,
				Status: tt.status}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	line := gatetest.NewLine()
	l, _ := limiter(t, Options{Throttles: []weir.Throttle{line}, MaxWaiting: 1})
	h := l.Handler(fine)
	answers := make(chan *httptest.ResponseRecorder, 1)
	go func() { answers <- ask(h, of("acme")) }()
	turn := gatetest.Receive(t, line.Turns)
	needs.Wait(t, "it waits", func() bool { return l.waiting.Load() == 1 })

	w := ask(h, of("acme")) // one too many
	if gatetest.Receive(t, line.Settled).Done || w.Code != 503 || !strings.Contains(w.Body.String(), "max_waiting") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	gatetest.Receive(t, line.Turns)
	turn.Grant()
	if w := gatetest.Receive(t, answers); w.Code != 200 || w.Body.String() != "fine" || line.GoneOn.Load() != 1 {
		t.Errorf("%d %s, %d on their way", w.Code, w.Body, line.GoneOn.Load())
	}
	if o := gatetest.Receive(t, line.Settled); !o.Done || line.Held.Load() != 0 || l.waiting.Load() != 0 {
		t.Errorf("%+v, %d held, %d wait", o, line.Held.Load(), l.waiting.Load())
	}
}

func TestContextEndsWait(t *testing.T) {
	t.Parallel()
	line := gatetest.NewLine()
	l, _ := limiter(t, Options{Throttles: []weir.Throttle{line}})
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan *httptest.ResponseRecorder, 1)
	h := l.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it went on") }))
	go func() { answers <- ask(h, of("acme").WithContext(ctx)) }()
	gatetest.Receive(t, line.Turns)
	cancel()
	if w := gatetest.Receive(t, answers); w.Code != 429 || !strings.Contains(w.Body.String(), "wait-too-long") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if o := gatetest.Receive(t, line.Settled); o.Done || line.Held.Load() != 0 {
		t.Errorf("%+v", o)
	}
}

// Nobody but the Limiter calls those who wait in a quota.
func TestMovesThrottles(t *testing.T) {
	t.Parallel()
	q := newQuota(t, quota.Options{Policies: []quota.Policy{gatetest.Delayed(gatetest.PerMinute(1))}})
	l, c := limiter(t, Options{Throttles: []weir.Throttle{q}, Account: byKey})
	h := l.Handler(fine)
	if w := ask(h, of("acme")); w.Code != 200 {
		t.Fatal(w.Code)
	}
	answers := make(chan *httptest.ResponseRecorder, 1)
	go func() { answers <- ask(h, of("acme")) }()
	needs.Wait(t, "it waits", func() bool { return l.waiting.Load() == 1 && c.Pending() > 0 })
	c.Advance(time.Minute)
	if w := gatetest.Receive(t, answers); w.Code != 200 {
		t.Error(w.Code)
	}
}

func TestPlaceIsFreed(t *testing.T) {
	t.Parallel()
	q := newQuota(t, quota.Options{Policies: []quota.Policy{gatetest.AtOnce(1)}})
	l, _ := limiter(t, Options{Throttles: []weir.Throttle{q}, Account: byKey})
	inside := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w := ask(l.Handler(fine), of("acme")); w.Code != 429 {
			t.Errorf("the second at once: %d", w.Code)
		}
		panic("the handler fails")
	})
	for range 2 {
		func() {
			defer func() {
				if got := recover(); got != "the handler fails" {
					t.Errorf("%v", got)
				}
			}()
			ask(l.Handler(inside), of("acme"))
		}()
	}
}

// A throttle that panics leaves nothing behind in those before it.
func TestThrottlePanics(t *testing.T) {
	t.Parallel()
	first := gatetest.NewThrottle(nil)
	second := gatetest.NewThrottle(func(*weir.Event, *weir.Answer) error { panic("the throttle fails") })
	l, _ := limiter(t, Options{Throttles: []weir.Throttle{first, second}})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		ask(l.Handler(fine), of("acme"))
	}()
	if first.Held.Load() != 0 || first.Undone.Load() != 1 {
		t.Errorf("%d held, %d given back", first.Held.Load(), first.Undone.Load())
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	var offender string
	say := func(verdict weir.Verdict, reason weir.Reason, f weir.Figure) weir.Throttle {
		return gatetest.NewThrottle(func(_ *weir.Event, a *weir.Answer) error {
			a.Verdict, a.Reason, a.Figure, a.Ban = verdict, reason, f, reason == weir.Forged
			return nil
		})
	}
	for _, tt := range []struct {
		name     string
		throttle weir.Throttle
		status   int
		contains string
	}{
		{"a limit that a stamp would pay for", say(weir.Challenge, weir.Unpaid, weir.Figure{Unit: "requests", Limit: 5}),
			429, "The limit of 5 requests is used up."},
		{"a server that asks for stamps", say(weir.Challenge, weir.Unpaid, weir.Figure{Unit: "operations", Limit: 5}),
			503, "The server has no room"},
		{"banned", say(weir.Refuse, weir.Banned, weir.Figure{}), 403, `"reason":"banned"`},
		{"an offence", say(weir.Refuse, weir.Forged, weir.Figure{}), 403, `"reason":"forged"`},
		{"a failure", gatetest.NewThrottle(func(*weir.Event, *weir.Answer) error { return errors.New("it fails") }), 503,
			`"throttle":"throttle-1"`},
	} {
		l, _ := limiter(t, Options{Throttles: []weir.Throttle{tt.throttle}, Account: byKey,
			Offend: func(ev *weir.Event, _ *weir.Answer) { offender += ev.Account }})
		if w := ask(l.Handler(fine), of("acme")); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.contains) {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
	}
	if offender != "acme" {
		t.Errorf("offences of %q", offender)
	}
}

func TestMisfits(t *testing.T) {
	t.Parallel()
	l, _ := limiter(t, Options{Account: byKey, Identify: func(_ context.Context, ev *weir.Event) error {
		if ev.Account == "unknown" {
			return errors.New("the account does not exist")
		}
		return nil
	}})
	twice := of("acme")
	twice.Header.Add("X-Api-Key", "other")
	for _, r := range []*http.Request{twice, of("unknown"), of(strings.Repeat("x", identify.MaxAccount+1))} {
		if w := ask(l.Handler(fine), r); w.Code != 400 || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %d %s", r.Header, w.Code, w.Body)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	volume := newQuota(t, quota.Options{Policies: []quota.Policy{{Name: "bytes", Kind: quota.Volume,
		Limit: quota.Bytes(1000), Period: weir.Period{Length: time.Minute}}}})
	many := make([]weir.Throttle, policy.MaxLinks+1)
	for i := range many {
		many[i] = gatetest.NewThrottle(nil)
	}
	for _, tt := range []struct {
		o    Options
		want error
	}{
		{Options{}, nil},
		{Options{Throttles: many[1:]}, nil},
		{Options{Throttles: many}, policy.ErrTooManyLinks},
		{Options{Throttles: []weir.Throttle{volume}}, ErrVolume},
		{Options{Throttles: many[:1], Chain: gatetest.Chain(t, many[0])}, ErrBoth},
		{Options{Account: []string{"jwt:sub"}}, ErrPlaces},
	} {
		if _, err := New(tt.o); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, not %v", tt.o, err, tt.want)
		}
	}
	for _, o := range []Options{{Account: []string{"headr:X-Api-Key"}}, {AccountConflict: "both"},
		{ForwardedHeader: "x-real-ip"}} {
		if _, err := New(o); len(weir.FieldErrors(err)) != 1 {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A decision allocates nothing. An answer costs the text of its RateLimit headers, the slice that holds both and the
// note of its status. The visit is the test's own: under the race detector, pools lose things.
func TestAllocations(t *testing.T) {
	q := newQuota(t, quota.Options{Policies: []quota.Policy{gatetest.PerMinute(1 << 40)}})
	l, c := limiter(t, Options{Throttles: []weir.Throttle{q}, Account: byKey})
	r, ctx, v, peer := of("acme"), t.Context(), new(visit), netip.MustParseAddr("192.0.2.1")
	if n := testing.AllocsPerRun(1000, func() {
		if err := errors.Join(l.identify(ctx, r, peer, v), l.judge(ctx, v)); err != nil {
			t.Error(err)
		}
		v.pass.Settle(weir.Outcome{Time: c.Now(), Done: true, Status: 200})
	}); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
	w, h := httptest.NewRecorder(), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	if n := testing.AllocsPerRun(1000, func() {
		clear(w.Header())
		l.serve(w, r, v, h)
	}); n > 3 {
		t.Errorf("an answer allocates %v times", n)
	}
}
