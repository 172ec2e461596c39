package rlsgate

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir"
	"weir/gate/refusal"
	"weir/identify"
	"weir/policy"
	"weir/throttle/quota"
)

// check is a request as Envoy tells it: method, host, path, source, headers as "name: value".
func check(method, host, path, source string, headers ...string) *auth.CheckRequest {
	h := &auth.AttributeContext_HttpRequest{Method: method, Host: host, Path: path,
		Headers: map[string]string{":method": method, ":path": path}}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		h.Headers[name] = value
	}
	return &auth.CheckRequest{Attributes: &auth.AttributeContext{Request: &auth.AttributeContext_Request{Http: h},
		Source: peerOf(source)}}
}

func peerOf(source string) *auth.AttributeContext_Peer {
	address := &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: source}}
	return &auth.AttributeContext_Peer{Address: &core.Address{Address: address}}
}

func (r *rig) check(req *auth.CheckRequest) *auth.CheckResponse {
	r.t.Helper()
	resp, err := r.auth.Check(within(r.t), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func headersOf(list []*core.HeaderValueOption) map[string]string {
	all := map[string]string{}
	for _, h := range list {
		all[h.Header.Key] = h.Header.Value
	}
	return all
}

func guarded(account ...string) Options {
	return Options{Authz: &Authz{Throttles: []string{"plans"}, Account: account}}
}

func TestAuthz(t *testing.T) {
	r := newRig(t, guarded("header:X-Api-Key", "source"), map[string]quota.Options{"plans": perMinute(1)})
	r.clock.Advance(15 * time.Second)
	resp := r.check(check("GET", "example.com", "/a", "192.0.2.1", "x-api-key: ann"))
	if got := codes.Code(resp.Status.Code); got != codes.OK {
		t.Fatalf("the status is %v", got)
	}
	h := headersOf(resp.GetOkResponse().ResponseHeadersToAdd)
	if h["ratelimit"] != `"per-minute";r=0;t=45` || h["ratelimit-policy"] != `"per-minute";q=1;w=60` {
		t.Errorf("headers %v", h)
	}
	resp = r.check(check("GET", "example.com", "/a", "192.0.2.1", "x-api-key: ann", "x-request-id: id-1"))
	denied := resp.GetDeniedResponse()
	if denied == nil || denied.Status.Code != 429 || codes.Code(resp.Status.Code) == codes.OK {
		t.Fatalf("the answer is %v", resp)
	}
	h = headersOf(denied.Headers)
	if h["retry-after"] != "45" || h["content-type"] != "application/problem+json" ||
		h["ratelimit"] != `"per-minute";r=0;t=45` {
		t.Errorf("headers %v", h)
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(denied.Body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc["type"] != "urn:weir:over-limit" || doc["throttle"] != "plans" || doc["policy"] != "per-minute" ||
		doc["request_id"] != "id-1" ||
		doc["detail"] != "The limit of 1 request per minute is used up." {
		t.Errorf("the document is %v", doc)
	}
	// Without a key the source counts.
	want := []uint32{0, 429}
	for _, status := range want {
		if got := r.check(check("GET", "example.com", "/a",
			"192.0.2.9")).GetDeniedResponse().GetStatus().GetCode(); uint32(got) != status {
			t.Errorf("status %v, want %d", got, status)
		}
	}
	if got := r.seen.count("authz denied"); got != 2 {
		t.Errorf("%d denials were counted, want 2", got)
	}
}

func TestAuthzEvent(t *testing.T) {
	o := guarded("header:X-Api-Key", "query:key", "cookie:session")
	o.Authz.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	r := newRig(t, o, map[string]quota.Options{"plans": perMinute(1)})
	var got weir.Event
	r.swap(o,
		Parts{Authz: newChain(t, policy.NewLink("spy", spy{judge: func(ev *weir.Event, _ *weir.Answer) { got = *ev }},
			policy.Closed))})
	r.check(check("POST", "Example.com:8443", "/v1//x/../y?key=ann", "10.0.0.1",
		"x-forwarded-for: 203.0.113.9, 198.51.100.7", "user-agent: curl/8",
		"x-request-id: 42"))
	if got.Account != "ann" || got.Kind != "http" || got.Source.String() != "198.51.100.7" || got.Agent != "curl/8" ||
		got.ID != "42" {
		t.Errorf("the event is %+v", got)
	}
	if want := (weir.Route{Method: "POST", Host: "example.com", Path: "/v1/y", Odd: true,
		Also: []string{"/v1//x/../y", "/v1/x/../y", "/v1//y"}}); !reflect.DeepEqual(got.Route, want) {
		t.Errorf("the route is %+v, want %+v", got.Route, want)
	}
	r.check(check("GET", "example.com", "/", "192.0.2.1", "x-forwarded-for: 203.0.113.9", "cookie: a=b; session=ann"))
	if got.Source.String() != "192.0.2.1" || got.Account != "ann" {
		t.Errorf("a stranger's header was believed, or its cookie not read: %+v", got)
	}
	raw := check("GET", "example.com", "/", "192.0.2.1")
	raw.Attributes.Request.Http.Headers = nil
	raw.Attributes.Request.Http.HeaderMap = &core.HeaderMap{Headers: []*core.HeaderValue{{Key: ":path",
		RawValue: []byte("/")}, {Key: "x-api-key", RawValue: []byte("bob")}}}
	if r.check(raw); got.Account != "bob" {
		t.Errorf("headers as they came were not read: %+v", got)
	}
	r.check(&auth.CheckRequest{Attributes: &auth.AttributeContext{Source: peerOf("2001:db8::1")}})
	if got.Kind != "tcp" || got.Source.String() != "2001:db8::1" {
		t.Errorf("a connection is %+v", got)
	}
	r.check(check("CONNECT", "example.com:443", "", "192.0.2.1"))
	r.check(check("OPTIONS", "example.com", "*", "192.0.2.1"))
	if got.Route.Path != "/" || got.Route.Method != "OPTIONS" {
		t.Errorf("the event is %+v", got)
	}
}

// TestAuthzReadings: where Envoy names a trusted proxy as the source, the header that the proxies maintain says who is
// behind it.
func TestAuthzReadings(t *testing.T) {
	for _, c := range []struct {
		header  identify.Header
		lines   []string
		want    string
		unknown bool
	}{
		{"", []string{"x-forwarded-for: garbage,203.0.113.9", "forwarded: for=198.51.100.1"}, "203.0.113.9",
			false},
		{"", []string{"x-forwarded-for: 203.0.113.9", `forwarded: "`}, "203.0.113.9", false},
		{"", []string{"x-forwarded-for: 203.0.113.9,unknown"}, "10.0.0.1", true},
		{"", []string{"forwarded: for=203.0.113.9"}, "10.0.0.1", true},
		{"", nil, "10.0.0.1", false},
		{identify.ForwardedHeader, []string{"x-forwarded-for: 198.51.100.1", `forwarded: for=",for=203.0.113.9`},
			"203.0.113.9", false},
	} {
		o := guarded("source")
		o.Authz.TrustedProxies, o.Authz.ForwardedHeader = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, c.header
		r := newRig(t, o, map[string]quota.Options{"plans": perMinute(1)})
		var got weir.Event
		r.swap(o,
			Parts{Authz: newChain(t, policy.NewLink("spy",
				spy{judge: func(ev *weir.Event, _ *weir.Answer) { got = *ev }}, policy.Closed))})
		mapped, raw := check("GET", "example.com", "/", "10.0.0.1", c.lines...),
			check("GET", "example.com", "/", "10.0.0.1")
		raw.Attributes.Request.Http.HeaderMap = &core.HeaderMap{}
		for _, line := range c.lines {
			name, value, _ := strings.Cut(line, ": ")
			list := &raw.Attributes.Request.Http.HeaderMap.Headers
			*list = append(*list, &core.HeaderValue{Key: name, RawValue: []byte(value)})
		}
		for what, req := range map[string]*auth.CheckRequest{"mapped": mapped, "raw": raw} {
			if r.check(req); got.Source.String() != c.want || got.SourceUnknown != c.unknown {
				t.Errorf("%s %v, %s: %s, unknown is %v", c.header, c.lines, what, got.Source, got.SourceUnknown)
			}
			if got.Account != "source:"+c.want {
				t.Errorf("%s %v, %s: charged to %s", c.header, c.lines, what, got.Account)
			}
		}
	}
}

// TestAuthzDenies: whatever is not admitted is denied, with a status that says why; nothing that a client sends makes
// an error of the call.
func TestAuthzDenies(t *testing.T) {
	o := guarded("header:X-Api-Key", "bearer")
	r := newRig(t, o, map[string]quota.Options{"plans": perMinute(1)})
	offended := 0
	answer := weir.Answer{}
	p := Parts{Authz: newChain(t, policy.NewLink("spy", spy{judge: func(_ *weir.Event, a *weir.Answer) { *a = answer }},
		policy.Closed))}
	r.env.Offend = func(*weir.Event, *weir.Answer) { offended++ }
	r.swap(o, p)
	for name, c := range map[string]struct {
		answer weir.Answer
		status int
		retry  string
	}{
		"over": {weir.Answer{Verdict: weir.Refuse, Reason: weir.OverLimit,
			Until: noon.Add(1500 * time.Millisecond)}, 429, "2"},
		"shared": {weir.Answer{Verdict: weir.Refuse, Reason: weir.SharedLimit, Until: noon.Add(time.Minute)}, 429,
			"60"},
		"banned":      {weir.Answer{Verdict: weir.Refuse, Reason: weir.Banned, Ban: true}, 403, ""},
		"no account":  {weir.Answer{Verdict: weir.Refuse, Reason: weir.NoAccount}, 401, ""},
		"failure":     {weir.Answer{Verdict: weir.Refuse, Reason: weir.Failure}, 503, "1"},
		"overload":    {weir.Answer{Verdict: weir.Refuse, Reason: weir.Overload}, 503, "1"},
		"challenge":   {weir.Answer{Verdict: weir.Challenge, Reason: weir.Unpaid}, 503, "1"},
		"a long wait": {weir.Answer{Verdict: weir.Wait, Until: noon.Add(time.Minute), Turn: weir.NewTurn()}, 429, "60"},
	} {
		t.Run(name, func(t *testing.T) {
			answer = c.answer
			resp := r.check(check("GET", "example.com", "/", "192.0.2.1"))
			denied := resp.GetDeniedResponse()
			if denied == nil || int(denied.Status.Code) != c.status || resp.Status.Code == 0 {
				t.Fatalf("the answer is %v, want status %d", resp, c.status)
			}
			h := headersOf(denied.Headers)
			if h["retry-after"] != c.retry {
				t.Errorf("retry-after %q, want %q", h["retry-after"], c.retry)
			}
			if (h["www-authenticate"] != "") != (c.status == 401) {
				t.Errorf("www-authenticate %q", h["www-authenticate"])
			}
		})
	}
	if offended != 1 {
		t.Errorf("%d were put on the block list, want 1", offended)
	}
	answer = weir.Answer{}
	for name, req := range map[string]*auth.CheckRequest{
		"the path":    check("GET", "example.com", "no path %zz", "192.0.2.1"),
		"the source":  check("GET", "example.com", "/", "nowhere"),
		"the account": check("GET", "example.com", "/", "192.0.2.1", "x-api-key: "+strings.Repeat("x", 300)),
		"an address":  check("GET", "example.com", "/", "192.0.2.1", "x-api-key: source:192.0.2.2"),
	} {
		t.Run(name, func(t *testing.T) {
			if got := r.check(req).GetDeniedResponse().GetStatus().GetCode(); got != 400 {
				t.Errorf("the status is %v", got)
			}
		})
	}
	if _, err := r.auth.Check(within(t), &auth.CheckRequest{}); err != nil {
		t.Errorf("a request without attributes: %v", err)
	}
}

func TestAuthzNotConfigured(t *testing.T) {
	r := newRig(t, edge("user"), map[string]quota.Options{"plans": perMinute(1)})
	if _, err := r.auth.Check(within(t),
		check("GET", "example.com", "/", "192.0.2.1")); status.Code(err) != codes.Unimplemented {
		t.Errorf("the error is %v", err)
	}
}

// A period of the calendar has its name, however long it is; 30 days are no month.
func TestPeriodsOfTheCalendar(t *testing.T) {
	for want, w := range map[string]weir.Window{
		"month MONTH": weir.NewWindow(30*day, weir.Month), "month MONTH ": weir.NewWindow(28*day, weir.Month),
		"day DAY":   weir.NewWindow(23*time.Hour, weir.Day),
		"week WEEK": weir.NewWindow(7*day, weir.Week), "year YEAR": weir.NewWindow(366*day, weir.Year),
		"minute MINUTE": weir.Window(time.Minute),
		"1m30s UNKNOWN": weir.Window(90 * time.Second), "31d UNKNOWN": weir.Window(31 * day),
	} {
		told := refusal.Detail(nil, &weir.Answer{Figure: weir.Figure{Limit: 1, Window: w}})
		_, told, _ = strings.Cut(strings.TrimSuffix(told, " is used up."), " per ")
		if got := told + " " + unitOf(w).String(); got != strings.TrimSpace(want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestRateLimitHeaders(t *testing.T) {
	figures := []weir.Figure{
		{By: "a", Rule: "x", Unit: "requests", Limit: 5, Remaining: 4, Window: weir.Window(200 * time.Millisecond),
			Reset: noon.Add(time.Second)},
		{By: "b", Rule: "x", Unit: "bytes", Limit: 9, Remaining: 1, Window: weir.Window(time.Minute)},
		{By: "b", Rule: `q"`, Unit: "at once", Limit: 3, Remaining: 3},
		{By: "b", Rule: `q"`, Unit: "at once", Limit: 3, Remaining: 2},
	}
	got := fmt.Sprint(headersOf((&visit{now: noon}).appendRateLimit(nil, figures)))
	want := `map[ratelimit:"x";r=4;t=1, "b/x";r=1, "q\"";r=2 ratelimit-policy:"x";q=5;w=1, "b/x";q=9;w=60;qu="content-bytes", "q\"";q=3;qu="concurrent-requests"]`
	if got != want {
		t.Errorf("headers\n%s, want\n%s", got, want)
	}
}
