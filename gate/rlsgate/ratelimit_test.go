package rlsgate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir"
	"weir/policy"
	"weir/throttle/quota"
)

// edge are options with one domain of weir's own.
func edge(account ...string) Options {
	return Options{Domains: map[string]Domain{"edge": {Throttles: []string{"plans"}, Account: account, Plan: "plan"}}}
}

func TestDomain(t *testing.T) {
	r := newRig(t, edge("user"), map[string]quota.Options{"plans": perMinute(2)})
	want(t, r.ask("edge", "user=ann"), "ok 2/minute 1 per-minute")
	want(t, r.ask("edge", "user=ann", "other=x"), "ok 2/minute 0 per-minute, ok")
	resp := r.ask("edge", "user=ann")
	want(t, resp, "over 2/minute 0 per-minute")
	if got := resp.Statuses[0].DurationUntilReset.GetSeconds(); got != 60 {
		t.Errorf("reset in %d s, want 60", got)
	}
	want(t, r.ask("edge", "user=bob"), "ok 2/minute 1 per-minute")
	want(t, r.ask("edge", "user=bob +0"), "ok 2/minute 1 per-minute") // nothing was taken
	want(t, r.ask("edge", "user=bob"), "ok 2/minute 0 per-minute")
	want(t, r.ask("edge", "user=bob +0"), "over 2/minute 0 per-minute")
	want(t, r.ask("edge", "user="), "ok")
	want(t, r.ask("elsewhere", "user=ann"), "ok")
	r.clock.Advance(time.Minute)
	want(t, r.ask("edge", "user=ann +3"), "over 2/minute 2 per-minute") // more than there will ever be
	want(t, r.ask("edge", "user=ann +2"), "ok 2/minute 0 per-minute")
	if got := r.seen.count("ratelimit over_limit"); got != 3 {
		t.Errorf("%d answers over the limit were counted, want 3", got)
	}
}

// TestAllOrNothing: what one descriptor takes is given back when another one of the request is refused (ratelimit
// #1060).
func TestAllOrNothing(t *testing.T) {
	r := newRig(t, edge("user"), map[string]quota.Options{"plans": perMinute(2)})
	want(t, r.ask("edge", "user=ann", "user=ann"), "ok 2/minute 1 per-minute, ok 2/minute 0 per-minute")
	for range 5 {
		want(t, r.ask("edge", "user=bob", "user=ann"), "ok 2/minute 1 per-minute, over 2/minute 0 per-minute")
		want(t, r.ask("edge", "user=ann", "user=bob"), "over 2/minute 0 per-minute, ok 2/minute 1 per-minute")
	}
	want(t, r.ask("edge", "user=bob"), "ok 2/minute 1 per-minute")
}

// TestEvent: descriptors say more than the account.
func TestEvent(t *testing.T) {
	o := edge("tenant", "user")
	var got weir.Event
	g,
		err := New(withListen(o),
		Parts{Domains: map[string]*policy.Chain{"edge": newChain(t,
			policy.NewLink("spy", spy{judge: func(ev *weir.Event, _ *weir.Answer) {
				got = *ev
			}}, policy.Closed))}}, Env{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(text string) {
		t.Helper()
		got = weir.Event{}
		if err := g.rateLimit(t.Context(), &rls.RateLimitRequest{Domain: "edge", HitsAddend: 3,
			Descriptors: descriptors(text)}, new(reply)); err != nil {
			t.Fatal(err)
		}
	}
	ask(`tenant=acme,user=a/b\c,plan=gold,method=GET,host=Example.com:443,path=/v1//x?key=1,remote_address=::ffff:192.0.2.1`)
	if got.Account != `acme/a\/b\\c` || got.Plan != "gold" || got.Kind != "rls" || got.Cost != 3 ||
		got.Source.String() != "192.0.2.1" {
		t.Errorf("the event is %+v", got)
	}
	if want := (weir.Route{Method: "GET", Host: "example.com", Path: "/v1/x", Odd: true,
		Also: []string{"/v1//x"}}); !reflect.DeepEqual(got.Route, want) {
		t.Errorf("the route is %+v, want %+v", got.Route, want)
	}
	ask("tenant=acme,plan=gold")
	if got.Kind != "" {
		t.Error("a descriptor without one of the account's keys was judged")
	}
	ask("tenant=source:192.0.2.1,user=x")
	if got.Account != `\source:192.0.2.1/x` {
		t.Errorf("the account is %q: somebody names an address as an account", got.Account)
	}
	long := strings.Repeat("ü", 500)
	ask("tenant=" + long + ",user=x")
	first := got.Account
	ask("tenant=" + long + ",user=y")
	if len(first) > 256 || first == got.Account || !strings.HasPrefix(first, "üü") {
		t.Errorf("long names are %q and %q", first, got.Account)
	}
}

func TestBySource(t *testing.T) {
	r := newRig(t, edge(), map[string]quota.Options{"plans": perMinute(1)})
	want(t, r.ask("edge", "remote_address=192.0.2.1"), "ok 1/minute 0 per-minute")
	want(t, r.ask("edge", "remote_address=192.0.2.1"), "over 1/minute 0 per-minute")
	want(t, r.ask("edge", "remote_address=192.0.2.2", "user=x", "remote_address=nonsense"),
		"ok 1/minute 0 per-minute, ok, ok")
}

func TestHeaders(t *testing.T) {
	o := edge("user")
	o.Headers = Headers{Send: true, Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining",
		Reset: "X-RateLimit-Reset"}
	r := newRig(t, o, map[string]quota.Options{"plans": perMinute(2)})
	told := func(resp *rls.RateLimitResponse) string {
		var all []string
		for _, h := range resp.ResponseHeadersToAdd {
			all = append(all, h.Key+": "+h.Value)
		}
		return strings.Join(all, ", ")
	}
	r.clock.Advance(10 * time.Second)
	if got, want := told(r.ask("edge", "user=ann", "user=ann", "user=bob")),
		"X-RateLimit-Limit: 2, X-RateLimit-Remaining: 0, X-RateLimit-Reset: 50"; got != want {
		t.Errorf("headers %q, want %q", got, want)
	}
	if got, want := told(r.ask("edge", "user=ann")),
		"X-RateLimit-Limit: 2, X-RateLimit-Remaining: 0, X-RateLimit-Reset: 50, Retry-After: 50"; got != want {
		t.Errorf("headers %q, want %q", got, want)
	}
	if got := told(r.ask("edge", "other=x")); got != "" {
		t.Errorf("headers %q about nothing", got)
	}
}

// TestWaits: what must wait is over the limit, unless it may be held for as long as that takes.
func TestWaits(t *testing.T) {
	delayed := perMinute(1)
	delayed.Policies[0].Over, delayed.Policies[0].Delay.MaxWait = quota.OverDelay, weir.Duration(time.Hour)
	t.Run("never held", func(t *testing.T) {
		r := newRig(t, edge("user"), map[string]quota.Options{"plans": delayed})
		want(t, r.ask("edge", "user=ann"), "ok 1/minute 0 per-minute")
		resp := r.ask("edge", "user=ann")
		want(t, resp, "over 1/minute 0 per-minute")
		if got := resp.Statuses[0].DurationUntilReset.GetSeconds(); got != 60 {
			t.Errorf("reset in %d s, want 60", got)
		}
		r.clock.Advance(time.Minute)
		want(t, r.ask("edge", "user=ann"), "ok 1/minute 0 per-minute") // the wait was given back
	})
	held := func(t *testing.T) (r *rig, turn *weir.Turn, judged chan struct{}, settled chan bool) {
		o := edge("user")
		o.MaxWait = weir.Duration(time.Minute)
		r = newRig(t, o, map[string]quota.Options{"plans": delayed})
		turn, judged, settled = weir.NewTurn(), make(chan struct{}), make(chan bool, 1)
		r.swap(o, Parts{Domains: map[string]*policy.Chain{"edge": newChain(t, policy.NewLink("slow", spy{
			judge: func(ev *weir.Event, a *weir.Answer) {
				a.Verdict, a.Turn, a.Until, a.Hold.Ref = weir.Wait, turn, ev.Time.Add(30*time.Second), turn
				close(judged)
			},
			settle: func(o weir.Outcome) { settled <- o.Done },
		}, policy.Closed))}})
		return r, turn, judged, settled
	}
	t.Run("held", func(t *testing.T) {
		r, turn, judged, settled := held(t)
		go func() { <-judged; turn.Grant() }()
		want(t, r.ask("edge", "user=ann"), "ok")
		if !<-settled {
			t.Error("what was held and went on was given back")
		}
	})
	t.Run("called off", func(t *testing.T) {
		r, turn, judged, settled := held(t)
		go func() { <-judged; turn.Refuse(weir.WaitTooLong) }()
		want(t, r.ask("edge", "user=ann"), "over")
		if <-settled {
			t.Error("what did not go on was charged")
		}
	})
	t.Run("the turn does not come", func(t *testing.T) {
		r, _, judged, settled := held(t)
		go func() {
			<-judged
			<-r.clock.Set()
			r.clock.Advance(time.Minute)
		}()
		want(t, r.ask("edge", "user=ann"), "over")
		if <-settled {
			t.Error("what did not go on was charged")
		}
	})
	t.Run("the gate stops", func(t *testing.T) {
		r, _, judged, settled := held(t)
		stopped := make(chan error)
		go func() { <-judged; stopped <- r.Stop(within(t)) }()
		want(t, r.ask("edge", "user=ann"), "over")
		if err := <-stopped; err != nil || <-settled {
			t.Errorf("the stop: %v, or what did not go on was charged", err)
		}
	})
	t.Run("the caller leaves", func(t *testing.T) {
		r, _, judged, settled := held(t)
		ctx, cancel := context.WithCancel(within(t))
		go func() { <-judged; cancel() }()
		_, err := r.rls.ShouldRateLimit(ctx,
			&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=ann")})
		if status.Code(err) != codes.Canceled {
			t.Errorf("the error is %v", err)
		}
		if <-settled {
			t.Error("what did not go on was charged")
		}
	})
}

// TestImportedShadow: a switch of the operator makes an imported rule say OK, and its counters go on.
func TestImportedShadow(t *testing.T) {
	r := newRig(t, Options{Config: write(t, oneRule(1))}, nil)
	want(t, r.ask("edge", "user=ann"), "ok 1/minute 0")
	link := r.limits.links[Minute]
	link.Shadow.Store(true)
	want(t, r.ask("edge", "user=ann"), "ok 1/minute 0")
	link.Shadow.Store(false)
	want(t, r.ask("edge", "user=ann"), "over 1/minute 0")
	if got := link.Counts.Shadowed[weir.Refuse].Load(); got != 1 {
		t.Errorf("%d shadowed refusals were counted, want 1", got)
	}
	if a, b := link.Counts.Verdicts[weir.Admit].Load(), link.Counts.Verdicts[weir.Refuse].Load(); a != 1 || b != 1 {
		t.Errorf("%d admissions and %d refusals were counted, want 1 and 1", a, b)
	}
}

// oneRule is a file with a limit per minute for each user.
func oneRule(limit int) string {
	return fmt.Sprintf("domain: edge\ndescriptors:\n- key: user\n  rate_limit: {unit: minute, requests_per_unit: %d}\n",
		limit)
}

// TestFailure: a throttle that fails lets requests pass, or makes an error of them, as its link says; a panic costs its
// own call.
func TestFailure(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		spy  spy
		on   policy.OnError
		code codes.Code
	}{
		"open":   {spy{err: broken}, policy.Open, codes.OK},
		"closed": {spy{err: broken}, policy.Closed, codes.Unavailable},
		"panic":  {spy{judge: func(*weir.Event, *weir.Answer) { panic("a slip") }}, policy.Closed, codes.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Config: write(t, oneRule(1))}
			r := newRig(t, o, nil)
			r.swap(o,
				Parts{Limit: func(Rule) (*policy.Link, error) { return policy.NewLink("broken", c.spy, c.on), nil }})
			_, err := r.rls.ShouldRateLimit(within(t),
				&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=ann")})
			if status.Code(err) != c.code {
				t.Errorf("the error is %v, want %v", err, c.code)
			}
			want(t, r.ask("elsewhere", "user=ann"), "ok") // on the same connection
			if strings.Contains(fmt.Sprint(err), "slip") {
				t.Errorf("the caller is told %v", err)
			}
		})
	}
	t.Run("panic in a chain", func(t *testing.T) {
		o := edge("user")
		r := newRig(t, o, map[string]quota.Options{"plans": perMinute(1)})
		settled := make(chan bool, 1)
		first := policy.NewLink("first", spy{judge: func(_ *weir.Event, a *weir.Answer) { a.Hold.Ref = settled },
			settle: func(o weir.Outcome) { settled <- o.Done }}, policy.Closed)
		second := policy.NewLink("second", spy{judge: func(*weir.Event, *weir.Answer) { panic("a slip") }},
			policy.Closed)
		r.swap(o, Parts{Domains: map[string]*policy.Chain{"edge": newChain(t, first, second)}})
		_, err := r.rls.ShouldRateLimit(within(t),
			&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=ann")})
		if status.Code(err) != codes.Internal || <-settled {
			t.Errorf("the error is %v, or what was taken was not given back", err)
		}
	})
}

// TestTogether: many ask for the same at once, and no more is granted than there is.
func TestTogether(t *testing.T) {
	r := newRig(t, Options{Config: write(t, oneRule(100))}, nil)
	var mu sync.Mutex
	ok, all := 0, sync.WaitGroup{}
	for range 8 {
		all.Go(func() {
			for range 50 {
				resp, err := r.rls.ShouldRateLimit(within(t),
					&rls.RateLimitRequest{Domain: "edge", Descriptors: descriptors("user=ann"), HitsAddend: 3})
				if err != nil {
					t.Error(err)
					return
				}
				if resp.OverallCode == rls.RateLimitResponse_OK {
					mu.Lock()
					ok++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if ok != 33 {
		t.Errorf("%d calls of 3 each were let through by a limit of 100, want 33", ok)
	}
	want(t, r.ask("edge", "user=ann +0"), "over 100/minute 0")
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "envoy")
	r := newRig(t, Options{Listen: "unix:" + path, Config: write(t, oneRule(1))}, nil)
	want(t, r.ask("edge", "user=ann"), "ok 1/minute 0")
	want(t, r.ask("edge", "user=ann"), "over 1/minute 0")
	second, err := New(Options{Listen: "unix:" + path, Config: write(t, oneRule(1))}, Parts{Limit: r.limits.limit},
		Env{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), "another program does already") {
		t.Errorf("a socket in use was taken: %v", err)
	}
}

// A spy is a throttle in the test's hand.
type spy struct {
	judge  func(*weir.Event, *weir.Answer)
	settle func(weir.Outcome)
	err    error
}

func (s spy) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	if s.judge != nil {
		s.judge(ev, a)
	}
	return s.err
}

func (s spy) Settle(_ weir.Hold, o weir.Outcome) {
	if s.settle != nil {
		s.settle(o)
	}
}

func (s spy) Peek(*weir.Event, *weir.Answer) {}

func withListen(o Options) Options {
	o.Listen = "127.0.0.1:0"
	return o
}

// swap reloads the gate with other parts.
func (r *rig) swap(o Options, p Parts) {
	r.t.Helper()
	commit, _, err := r.Prepare(o, p)
	if err != nil {
		r.t.Fatal(err)
	}
	commit()
}
