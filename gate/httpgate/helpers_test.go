package httpgate

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/gate/gatetest"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	behind "weir/upstream"
)

// What the tests of all gates share.
type throttle = gatetest.Throttle

var (
	newThrottle = gatetest.NewThrottle
	newLine     = gatetest.NewLine
	chainOf     = gatetest.Chain
)

func receive[T any](t testing.TB, from <-chan T) T { t.Helper(); return gatetest.Receive(t, from) }

var epoch = time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)

// meter is a throttle that also counts bytes.
type meter struct {
	*throttle
	flow func(n int64, now time.Time) time.Time
}

func (m *meter) Flow(_ weir.Hold, n int64, now time.Time) time.Time { return m.flow(n, now) }

func overLimit(ev *weir.Event, a *weir.Answer) error {
	a.Verdict, a.Reason = weir.Refuse, weir.OverLimit
	a.Figure = weir.Figure{Rule: "per-second", Unit: "requests", Limit: 5, Window: weir.Window(time.Second),
		Reset: ev.Time.Add(300 * time.Millisecond)}
	a.Until = a.Reset
	a.Figures = append(a.Figures, a.Figure)
	return nil
}

// to is a service with one server.
func to(url string) behind.Options { return behind.To(url) }

// observer counts what it is told.
type observer struct {
	mu       sync.Mutex
	waiting  int
	served   map[int]int
	bounded  map[string]int
	inFlight int
	reading  int
}

func (o *observer) InFlight(d int) { o.mu.Lock(); o.inFlight += d; o.mu.Unlock() }
func (o *observer) Reading(d int)  { o.mu.Lock(); o.reading += d; o.mu.Unlock() }
func (o *observer) Waiting(d int)  { o.mu.Lock(); o.waiting += d; o.mu.Unlock() }
func (o *observer) Served(_ weir.Verdict, status int, _, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.served == nil {
		o.served = map[int]int{}
	}
	o.served[status]++
}
func (o *observer) Bounded(b string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bounded == nil {
		o.bounded = map[string]int{}
	}
	o.bounded[b]++
}
func (o *observer) bounds(b string) int { o.mu.Lock(); defer o.mu.Unlock(); return o.bounded[b] }

// rig is a gate on a real socket, with everything around it in the test's hand.
type rig struct {
	*Gate
	t     testing.TB
	url   string
	addr  string
	clock *clock.Fake
	log   *gatetest.Log
	seen  *observer
}

func start(t testing.TB, o Options, throttles ...weir.Throttle) *rig {
	t.Helper()
	return startIn(t, Env{}, o, throttles...)
}

// startIn is start in surroundings of which the rest is filled in.
func startIn(t testing.TB, env Env, o Options, throttles ...weir.Throttle) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewFake(epoch), log: new(gatetest.Log), seen: new(observer)}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	env.Clock, env.Observer = r.clock, r.seen
	env.Log = r.log.JSON(slog.LevelDebug)
	g, err := New(o, nil, chainOf(t, throttles...), env)
	if err != nil {
		t.Fatal(err)
	}
	gatetest.Run(t, g)
	r.Gate, r.addr, r.url = g, g.Addr().String(), "http://"+g.Addr().String()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = g.Stop(ctx)
		if n := g.UnderWay.Load(); n != 0 {
			t.Errorf("%d requests under way after the stop", n)
		}
	})
	return r
}

// echo is an upstream that answers with what it got.
func echo(t testing.TB) *httptest.Server {
	return upstream(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Upstream", "echo")
		_, _ = w.Write(body)
	})
}

func upstream(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// dial connects to the gate; the connection has a generous deadline so that a failing test ends.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	return gatetest.Dial(r.t, r.Addr())
}

func (r *rig) send(c net.Conn, text string) {
	r.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		r.t.Fatal(err)
	}
}

// answer reads one response with its body.
func (r *rig) answer(br *bufio.Reader) (*http.Response, string) {
	r.t.Helper()
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		r.t.Fatalf("no response: %v", err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("response broken: %v", err)
	}
	return res, string(body)
}

func client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
}

func (r *rig) do(req *http.Request) (*http.Response, string) {
	r.t.Helper()
	res, err := client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res, string(body)
}

func (r *rig) request(method, path string, body io.Reader, header ...string) *http.Request {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

func problemOf(t testing.TB, body string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	return doc
}

// accessLine returns the line of the access log with an id.
func (r *rig) accessLine(id string) map[string]any {
	r.t.Helper()
	var found map[string]any
	needs.Wait(r.t, "access log line "+id, func() bool {
		for line := range strings.Lines(r.log.String()) {
			var doc map[string]any
			if json.Unmarshal([]byte(line), &doc) == nil && doc["msg"] == "request" && doc["id"] == id {
				found = doc
				return true
			}
		}
		return false
	})
	return found
}

// contextWithCancel returns the request with a context of its own.
func contextWithCancel(r *http.Request) (*http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	return r.WithContext(ctx), cancel
}
