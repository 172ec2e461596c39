package apigate

import (
	"bytes"
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
	"weir/internal/clock"
	"weir/policy"
	"weir/throttle/quota"
)

// noon is where the clock of these tests stands: on the border of a period.
var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// patience bounds how long a test waits for something that must happen. It is never waited out by a test that passes.
const patience = 20 * time.Second

const token = "0123456789abcdef"

// A fakeClock is one in the test's hand that also tells which timers are set and stopped, so that nobody needs to sleep
// until one is.
type fakeClock struct {
	*clock.Fake
	set, stopped chan time.Duration
}

type fakeTimer struct {
	clock.Timer
	clock  *fakeClock
	length time.Duration
}

func newClock() *fakeClock {
	return &fakeClock{clock.NewFake(noon), make(chan time.Duration, 10000), make(chan time.Duration, 10000)}
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &fakeTimer{c.Fake.AfterFunc(d, f), c, d}
	note(c.set, d)
	return t
}

func (t *fakeTimer) Stop() bool {
	defer note(t.clock.stopped, t.length)
	return t.Timer.Stop()
}

// note tells something if somebody may want to hear it.
func note(to chan time.Duration, d time.Duration) {
	select {
	case to <- d:
	default:
	}
}

// until waits until a timer of this length has been set, or stopped.
func until(t testing.TB, timers <-chan time.Duration, d time.Duration) {
	t.Helper()
	for receive(t, timers) != d {
	}
}

// An observer counts what it is told.
type observer struct {
	mu      sync.Mutex
	decided map[string]int
	holds   int
	most    int
	expired int
	bounded map[string]int
}

func newObserver() *observer { return &observer{decided: map[string]int{}, bounded: map[string]int{}} }

func (o *observer) Decided(policy string, v weir.Verdict) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decided[policy+" "+v.String()]++
}

func (o *observer) Holds(delta int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holds += delta
	o.most = max(o.most, o.holds)
}

func (o *observer) Expired() { o.mu.Lock(); o.expired++; o.mu.Unlock() }

func (o *observer) Bounded(bound string) { o.mu.Lock(); o.bounded[bound]++; o.mu.Unlock() }

func (o *observer) count(of func(*observer) int) int { o.mu.Lock(); defer o.mu.Unlock(); return of(o) }

func (o *observer) bounds(bound string) int {
	return o.count(func(o *observer) int { return o.bounded[bound] })
}

func (o *observer) open() int { return o.count(func(o *observer) int { return o.holds }) }

// A rig is a gate on a real socket, with its clock in the test's hand.
type rig struct {
	*Gate
	t      testing.TB
	clock  *fakeClock
	seen   *observer
	log    *syncBuffer
	client *http.Client
	url    string
}

// policies are chains by name.
type policies = map[string]*policy.Chain

// options are those of a test: what it leaves out is filled in.
func options(o Options, chains policies) Options {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.Tokens == nil {
		o.Tokens = []string{token}
	}
	o.Policies = map[string][]string{}
	for name, chain := range chains {
		o.Policies[name] = nil
		for _, link := range chain.Links() {
			o.Policies[name] = append(o.Policies[name], link.Name)
		}
	}
	return o
}

// start starts a gate. The clock is the one that the chains' throttles go by.
func start(t testing.TB, o Options, c *fakeClock, chains policies) *rig {
	t.Helper()
	r := &rig{t: t, clock: c, seen: newObserver(), log: new(syncBuffer)}
	g, err := New(options(o, chains), chains,
		Env{Env: gate.Env{Clock: c, Log: slog.New(slog.NewTextHandler(r.log, nil))}, Observer: r.seen})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(); err != nil {
		t.Fatal(err)
	}
	g.Start()
	r.Gate, r.url = g, "http://"+g.Addr().String()
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}, Timeout: patience}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		r.end()
		if n := r.seen.open(); n != 0 {
			t.Errorf("%d holds are open after the stop", n)
		}
		if n := r.Open.Load(); n != 0 {
			t.Errorf("%d connections are open after the stop", n)
		}
	})
	return r
}

// end stops the gate.
func (r *rig) end() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Stop(ctx); err != nil {
		r.t.Error(err)
	}
}

// newQuota returns a quota that moves with the clock.
func newQuota(t testing.TB, c *fakeClock, rules ...quota.Policy) *quota.Quota {
	t.Helper()
	q, err := quota.New(quota.Options{Policies: rules})
	if err != nil {
		t.Fatal(err)
	}
	var alarm func(due time.Time)
	alarm = func(due time.Time) {
		if !due.IsZero() {
			c.Fake.AfterFunc(max(due.Sub(c.Now()), 0), func() { alarm(q.Advance(c.Now())) })
		}
	}
	q.Alarm(alarm)
	return q
}

// chainOf returns a chain of throttles, called plans, edge and so on.
func chainOf(t testing.TB, throttles ...weir.Throttle) *policy.Chain {
	t.Helper()
	var links []*policy.Link
	for i, th := range throttles {
		links = append(links, policy.NewLink([]string{"plans", "edge", "third"}[i], th, policy.Closed))
	}
	c, err := policy.New(links, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// startQuota starts a gate with one policy, web, of one quota with these rules.
func startQuota(t testing.TB, o Options, rules ...quota.Policy) (*rig, *quota.Quota) {
	t.Helper()
	c := newClock()
	q := newQuota(t, c, rules...)
	return start(t, o, c, policies{"web": chainOf(t, q)}), q
}

// Rules that tests use.
func perMinute(n int64) quota.Policy {
	return quota.Policy{Name: "per-minute", Limit: quota.Count(n), Period: weir.Period{Length: time.Minute}}
}

func perHour(n int64) quota.Policy {
	return quota.Policy{Name: "per-hour", Limit: quota.Count(n), Period: weir.Period{Length: time.Hour}}
}

// delayed makes a rule let others wait.
func delayed(p quota.Policy) quota.Policy {
	p.Over, p.Delay = quota.OverDelay, quota.Delay{Max: 1000, MaxWait: weir.Duration(time.Hour)}
	return p
}

func atOnce(n int64) quota.Policy {
	return quota.Policy{Name: "at-once", Kind: quota.Concurrent, Limit: quota.Count(n)}
}

// An answer is any answer of the API.
type answer struct {
	status int
	header http.Header
	body   string
	decision
	Settled bool `json:"settled"`
	problem
}

// post sends a body and reads the answer.
func (r *rig) post(path, body string) answer {
	r.t.Helper()
	return r.do(r.request(context.Background(), http.MethodPost, path, body))
}

func (r *rig) request(ctx context.Context, method, path, body string) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return req
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
		err = json.Unmarshal(body, &a)
	}
	return a, err
}

// decide asks and wants a verdict.
func (r *rig) decide(body string, want weir.Verdict) answer {
	r.t.Helper()
	a := r.post("/v1/decide", body)
	if a.status != http.StatusOK || a.Verdict != want {
		r.t.Fatalf("%s is answered %d %s, want %s", body, a.status, a.body, want)
	}
	return a
}

// settle ends a hold and wants a status.
func (r *rig) settle(hold, more string, want int) answer {
	r.t.Helper()
	a := r.post("/v1/settle", `{"hold":"`+hold+`"`+more+`}`)
	if a.status != want || a.Settled != (want == http.StatusOK) {
		r.t.Fatalf("settled with %d %s, want %d", a.status, a.body, want)
	}
	return a
}

// awaiting begins to await a hold on a goroutine of its own and returns once it waits.
func (r *rig) awaiting(ctx context.Context, hold string, length time.Duration) <-chan answer {
	r.t.Helper()
	for len(r.clock.set) > 0 {
		<-r.clock.set
	}
	answers := make(chan answer, 1)
	req := r.request(ctx, http.MethodPost, "/v1/await", `{"hold":"`+hold+`","for":"`+length.String()+`"}`)
	go func() {
		a, err := r.try(req)
		if err != nil {
			a.body = err.Error()
		}
		answers <- a
	}()
	until(r.t, r.clock.set, length)
	return answers
}

// left is what an account, which has been seen, has left of its first rule.
func (r *rig) left(q *quota.Quota, account string) int64 {
	return r.account(q, account).Rules[0].Remaining
}

func (r *rig) account(q *quota.Quota, account string) quota.AccountState {
	r.t.Helper()
	state, known := q.Account(account, r.clock.Now())
	if !known {
		r.t.Fatalf("nothing is known of %s", account)
	}
	return state
}

func (r *rig) dial() net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patience))
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// A probe is a throttle that does what a test says, for what no real one does on demand.
type probe struct {
	judge   func(ev *weir.Event, a *weir.Answer)
	settled chan weir.Outcome
}

func newProbe(judge func(ev *weir.Event, a *weir.Answer)) *probe {
	return &probe{judge, make(chan weir.Outcome, 1000)}
}

func (p *probe) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	a.Hold = weir.Hold{Ref: p, N: 1}
	p.judge(ev, a)
	return nil
}

func (p *probe) Settle(_ weir.Hold, o weir.Outcome) { p.settled <- o }
func (p *probe) Peek(*weir.Event, *weir.Answer)     {}
