package rlsgate

import (
	"context"
	"strings"
	"sync"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"

	"weir"
	"weir/gate"
	"weir/identify"
	"weir/internal/clock"
	"weir/internal/testkit/readers"
	"weir/policy"
	"weir/throttle/quota"
)

// A cashier admits everything and remembers which account it charged last.
type cashier struct {
	mu   sync.Mutex
	last string
}

func (c *cashier) Judge(_ context.Context, ev *weir.Event, _ *weir.Answer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = ev.Account
	return nil
}
func (*cashier) Settle(weir.Hold, weir.Outcome) {}
func (*cashier) Peek(*weir.Event, *weir.Answer) {}

func (c *cashier) account() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// asEnvoySays makes a question of header lines: joined by name, as Envoy does by default, or as they came, as it does
// when it is told to.
func asEnvoySays(query string, lines []readers.Line, raw bool) *auth.CheckRequest {
	req := check("GET", "example.com", "/v1?"+query, "192.0.2.1")
	h := req.Attributes.Request.Http
	if raw {
		h.HeaderMap = &core.HeaderMap{}
	}
	for _, l := range lines {
		name, value := strings.ToLower(l.Name), strings.Trim(l.Value, " \t")
		if raw {
			h.HeaderMap.Headers = append(h.HeaderMap.Headers, &core.HeaderValue{Key: name, RawValue: []byte(value)})
			continue
		}
		if before, found := h.Headers[name]; found && name == "cookie" {
			value = before + "; " + value
		} else if found {
			value = before + "," + value
		}
		h.Headers[name] = value
	}
	return req
}

// TestNobodyReadsAnotherAccount: Envoy passes on what its client sent when the gate says yes. So whatever a server
// behind it can read as the account is what was charged, or the gate said no.
func TestNobodyReadsAnotherAccount(t *testing.T) {
	for _, place := range []string{"header:X-Api-Key", "bearer", "query:key", "cookie:session"} {
		paid := &cashier{}
		o := guarded(place)
		o.Listen = "127.0.0.1:0"
		g, err := New(o, Parts{Authz: newChain(t, policy.NewLink("plans", paid, policy.Closed))},
			Env{Env: gate.Env{Clock: clock.NewFake(noon)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Listen(); err != nil {
			t.Fatal(err)
		}
		g.Start()
		t.Cleanup(func() { _ = g.Stop(context.Background()) })
		client := auth.NewAuthorizationClient(dial(t, g.Addr().String()))
		for name, raw := range map[string]bool{"joined": false, "raw": true} {
			t.Run(place+" "+name, rapid.MakeCheck(func(r *rapid.T) {
				query, lines := readers.Any(r, place)
				resp, err := client.Check(within(t), asEnvoySays(query, lines, raw))
				if err != nil {
					r.Fatal(err)
				}
				if codes.Code(resp.Status.Code) != codes.OK {
					return
				}
				if server, read := readers.Misread(place, query, lines, paid.account()); server != "" {
					r.Fatalf("charged %q, read by %q: %q in %q %q", paid.account(), server, read, query, lines)
				}
			}))
		}
	}
}

// TestNamedTwice: Envoy is told no, with the reason, and the doubt is counted.
func TestNamedTwice(t *testing.T) {
	for _, c := range []struct {
		name, place, query string
		lines              []readers.Line
		detail             string // empty where it is allowed
	}{
		{"two lines", "header:X-Api-Key", "",
			[]readers.Line{{Name: "x-api-key", Value: "a"}, {Name: "x-api-key", Value: "b"}}, "twice"},
		{"underscores", "header:X-Api-Key", "",
			[]readers.Line{{Name: "x-api-key", Value: "a"}, {Name: "x_api_key", Value: "b"}}, "spelled"},
		{"two tokens", "bearer", "", []readers.Line{{Name: "authorization", Value: "Bearer a"},
			{Name: "authorization", Value: "Bearer b"}}, "twice"},
		{"query", "query:key", "key=a&key=b", nil, "twice"},
		{"escaped name", "query:key", "key=a&%6bey=b", nil, "twice"},
		{"brackets", "query:key", "key=a&key[]=b", nil, "twice"},
		{"cookie", "cookie:session", "", []readers.Line{{Name: "cookie", Value: "session=a; session=b"}}, "twice"},
		{"one cookie", "cookie:session", "", []readers.Line{{Name: "cookie", Value: "x=1; session=a"}}, ""},
	} {
		r := newRig(t, guarded(c.place), map[string]quota.Options{"plans": perMinute(1)})
		resp := r.check(asEnvoySays(c.query, c.lines, true))
		denied := resp.GetDeniedResponse()
		switch {
		case c.detail == "":
			if denied != nil {
				t.Errorf("%s: %v", c.name, denied)
			}
		case int(denied.GetStatus().GetCode()) != 400 || !strings.Contains(denied.GetBody(), c.detail) ||
			r.seen.count("bound "+BoundAccount) != 1:
			t.Errorf("%s: %v", c.name, resp)
		}
	}
}

// TestPlacesThatDisagree: they are refused, unless the first is to count.
func TestPlacesThatDisagree(t *testing.T) {
	both := []readers.Line{{Name: "x-api-key", Value: "a"}, {Name: "authorization", Value: "Bearer b"}}
	for conflict, refused := range map[identify.Conflict]bool{"": true, identify.ConflictFirst: false} {
		o := guarded("header:X-Api-Key", "bearer")
		o.Authz.AccountConflict = conflict
		r := newRig(t, o, map[string]quota.Options{"plans": perMinute(1)})
		if denied := r.check(asEnvoySays("", both, false)).GetDeniedResponse(); (denied != nil) != refused {
			t.Errorf("%q: %v", conflict, denied)
		}
		if denied := r.check(asEnvoySays("", both[:1], false)).GetDeniedResponse(); (denied == nil) != refused {
			t.Errorf("%q: the first was charged: %v", conflict, denied)
		}
	}
}

// TestDescriptorsThatNameTwo: Envoy joins a header that comes twice with a comma, and a descriptor may have one key
// twice. Neither makes a new account.
func TestDescriptorsThatNameTwo(t *testing.T) {
	r := newRig(t,
		Options{Domains: map[string]Domain{"edge": {Account: []string{"user"}, Throttles: []string{"plans"}}}},
		map[string]quota.Options{"plans": perMinute(3)})
	ask := func(values ...string) string {
		d := &common.RateLimitDescriptor{}
		for _, v := range values {
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: "user", Value: v})
		}
		return r.send(&rls.RateLimitRequest{Domain: "edge",
			Descriptors: []*common.RateLimitDescriptor{d}}).OverallCode.String()
	}
	for range 3 {
		if got := ask("a"); got != "OK" {
			t.Error(got)
		}
	}
	for _, values := range [][]string{{"a"}, {"a,1"}, {"a,2"}, {"b,a"}, {"b", "a"}, {"a", "b"}} {
		if got := ask(values...); got != "OVER_LIMIT" {
			t.Errorf("%q: %s", values, got)
		}
	}
	if n := r.seen.count("bound " + BoundAccount); n != 5 {
		t.Errorf("%d counted", n)
	}
	if got := ask("b", "b"); got != "OK" {
		t.Errorf("equal values: %s", got)
	}
}
