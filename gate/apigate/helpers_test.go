package apigate

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
	log    *gatetest.Log
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
	r := &rig{t: t, clock: c, seen: newObserver(), log: new(gatetest.Log)}
	g, err := New(options(o, chains), chains,
		Env{Env: gate.Env{Clock: c, Log: r.log.Text(slog.LevelInfo)}, Observer: r.seen})
	if err != nil {
		t.Fatal(err)
	}
	gatetest.Run(t, g)
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

// newQuota returns a quota that moves with the clock.
func newQuota(t testing.TB, c *fakeClock, rules ...quota.Policy) *quota.Quota {
	t.Helper()
	return gatetest.Quota(t, c.Fake, quota.Options{Policies: rules})
}

// startQuota starts a gate with one policy, web, of one quota with these rules.
func startQuota(t testing.TB, o Options, rules ...quota.Policy) (*rig, *quota.Quota) {
	t.Helper()
	c := newClock()
	q := newQuota(t, c, rules...)
	return start(t, o, c, policies{"web": chainOf(t, q)}), q
}

func perHour(n int64) quota.Policy {
	return quota.Policy{Name: "per-hour", Limit: quota.Count(n), Period: weir.Period{Length: time.Hour}}
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
