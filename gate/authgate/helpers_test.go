package authgate

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"weir"
	"weir/gate"
	"weir/gate/gatetest"
	"weir/gate/refusal"
	"weir/internal/clock"
	"weir/policy"
	"weir/throttle/quota"
)

// What the tests of all gates share.
var (
	noon      = gatetest.Noon
	chainOf   = gatetest.Plans
	perMinute = gatetest.PerMinute
	atOnce    = gatetest.AtOnce
	delayed   = gatetest.Delayed
)

const patience = gatetest.Patience

func receive[T any](t testing.TB, from <-chan T) T { t.Helper(); return gatetest.Receive(t, from) }

// end stops the gate.
func (r *rig) end() { r.t.Helper(); gatetest.Stop(r.t, r) }

// dial opens a connection of its own.
func (r *rig) dial() net.Conn { r.t.Helper(); return gatetest.Dial(r.t, r.Addr()) }

// An observer counts what it is told.
type observer struct {
	mu      sync.Mutex
	decided map[weir.Verdict]int
	held    time.Duration
	waiting int
	waits   chan int // how many wait, each time that it changes
	bounded map[string]int
}

func newObserver() *observer {
	return &observer{decided: map[weir.Verdict]int{}, bounded: map[string]int{}, waits: make(chan int, 1000)}
}

func (o *observer) Decided(v weir.Verdict, held time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decided[v]++
	o.held += held
}

func (o *observer) Waiting(delta int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting += delta
	o.waits <- o.waiting
}

func (o *observer) Bounded(bound string) { o.mu.Lock(); o.bounded[bound]++; o.mu.Unlock() }

func (o *observer) bounds(bound string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bounded[bound]
}

func (o *observer) decisions(v weir.Verdict) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.decided[v]
}

// A rig is a gate on a real socket, with its clock in the test's hand.
type rig struct {
	*Gate
	t      testing.TB
	clock  *clock.Fake
	seen   *observer
	log    *gatetest.Log
	banned chan string // what Env.Offend was told
	client *http.Client
	url    string
}

// start starts a gate. The clock is the one that the chain's throttles go by.
func start(t testing.TB, o Options, c *clock.Fake, chain *policy.Chain) *rig {
	t.Helper()
	r := &rig{t: t, clock: c, seen: newObserver(), log: new(gatetest.Log), banned: make(chan string, 100)}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	g, err := New(o, chain, Env{Env: gate.Env{Clock: c, Log: r.log.Text(slog.LevelInfo)},
		Observer: r.seen,
		Offend:   func(ev *weir.Event, _ *weir.Answer) { r.banned <- ev.Source.String() + " " + ev.ID }})
	if err != nil {
		t.Fatal(err)
	}
	gatetest.Run(t, g)
	r.Gate, r.url = g, "http://"+g.Addr().String()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, g.Addr().Network(), g.Addr().String())
	}
	if g.Addr().Network() == "unix" {
		r.url = "http://weir"
	}
	r.client = &http.Client{Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 100}, Timeout: patience}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		r.end()
		if n := r.Open.Load(); n != 0 {
			t.Errorf("%d connections are open after the stop", n)
		}
	})
	return r
}

// startQuota starts a gate with one quota.
func startQuota(t testing.TB, o Options, rules ...quota.Policy) (*rig, *quota.Quota) {
	t.Helper()
	c := clock.NewFake(noon)
	q := gatetest.Quota(t, c, quota.Options{Policies: rules})
	return start(t, o, c, chainOf(t, q)), q
}

// A probe is a throttle whose answers a test makes, and which remembers what it was asked.
type probe struct {
	judge func(*weir.Event, *weir.Answer)

	mu      sync.Mutex
	events  []weir.Event
	settled chan weir.Outcome
}

func newProbe(judge func(*weir.Event, *weir.Answer)) *probe {
	if judge == nil {
		judge = func(*weir.Event, *weir.Answer) {}
	}
	return &probe{judge: judge, settled: make(chan weir.Outcome, 1000)}
}

func (p *probe) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	p.mu.Lock()
	p.events = append(p.events, *ev)
	p.mu.Unlock()
	p.judge(ev, a)
	if a.Verdict <= weir.Wait {
		a.Hold = weir.Hold{Ref: p}
	}
	return nil
}

func (p *probe) Settle(_ weir.Hold, o weir.Outcome) { p.settled <- o }

func (p *probe) Peek(*weir.Event, *weir.Answer) {}

// asked are the events so far.
func (p *probe) asked() []weir.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]weir.Event(nil), p.events...)
}

// last is the event that was asked about last.
func (p *probe) last(t testing.TB) weir.Event {
	t.Helper()
	all := p.asked()
	if len(all) == 0 {
		t.Fatal("no throttle was asked")
	}
	return all[len(all)-1]
}

// refusing returns a probe that refuses.
func refusing(why weir.Reason) *probe {
	return newProbe(func(_ *weir.Event, a *weir.Answer) { a.Verdict, a.Reason, a.Rule = weir.Refuse, why, "rule" })
}

// lineOf returns a probe that makes everybody wait, and hands out the turns.
func lineOf(turns chan<- *weir.Turn, until time.Time) *probe {
	return newProbe(func(_ *weir.Event, a *weir.Answer) {
		a.Verdict, a.Reason, a.Turn, a.Until = weir.Wait, weir.OverLimit, weir.NewTurn(), until
		turns <- a.Turn
	})
}

// An answer is any answer of the gate.
type answer struct {
	status int
	header http.Header
	body   string
	refusal.Refusal
}

// headers are written as name, value, name, value.
func (r *rig) request(ctx context.Context, headers ...string) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/auth", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return req
}

// ask asks with these headers.
func (r *rig) ask(headers ...string) answer {
	r.t.Helper()
	return r.do(r.request(context.Background(), headers...))
}

func (r *rig) do(req *http.Request) answer {
	r.t.Helper()
	a, err := r.try(req)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// try is do for other goroutines than the test's own.
func (r *rig) try(req *http.Request) (a answer, err error) {
	res, err := r.client.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	a.status, a.header, a.body = res.StatusCode, res.Header, string(body)
	if strings.HasPrefix(a.body, "{") && err == nil {
		err = json.Unmarshal(body, &a.Refusal)
	}
	return a, err
}

// asking asks on a goroutine of its own.
func (r *rig) asking(ctx context.Context, headers ...string) <-chan answer {
	answers := make(chan answer, 1)
	req := r.request(ctx, headers...)
	go func() {
		a, err := r.try(req)
		if err != nil {
			a.body = err.Error()
		}
		answers <- a
	}()
	return answers
}

// byNginx are the headers of a question as nginx puts it, with more.
func byNginx(more ...string) []string {
	return append([]string{"X-Original-URI", "/v1/users?key=k1", "X-Original-Method", "POST", "X-Original-Host",
		"Example.com:80",
		"X-Real-IP", "192.0.2.1", "X-Forwarded-For", "192.0.2.1"}, more...)
}

// byTraefik are the headers of a question as Traefik and Caddy put it, with more.
func byTraefik(more ...string) []string {
	return append([]string{"X-Forwarded-Method", "POST", "X-Forwarded-Proto", "https", "X-Forwarded-Host",
		"Example.com:80",
		"X-Forwarded-Uri", "/v1/users?key=k1", "X-Forwarded-For", "192.0.2.1"}, more...)
}

// waiting waits until so many answers are held back.
func (r *rig) untilWaiting(n int) {
	r.t.Helper()
	for receive(r.t, r.seen.waits) != n {
	}
}
