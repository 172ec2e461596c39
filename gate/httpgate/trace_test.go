package httpgate

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"weir"
	"weir/identify"
	"weir/internal/http1"
	"weir/internal/testkit/needs"
	"weir/traces"
	"weir/traces/tracestest"
	behind "weir/upstream"
)

// A clientParent is what a client sends that wants to be sampled.
const clientParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// A tracing rig is a gate with traces, a collector and a service that notes the headers it is sent.
type tracingRig struct {
	*rig
	tracer    *traces.Tracer
	collector *tracestest.Collector
	mu        sync.Mutex
	headers   []http.Header
}

func startTraced(t *testing.T, o traces.Options, g Options, throttles ...weir.Throttle) *tracingRig {
	t.Helper()
	r := &tracingRig{}
	r.collector, o.Endpoint = tracestest.Start(t)
	var err error
	if r.tracer, err = traces.New(o, traces.Env{}); err != nil {
		t.Fatal(err)
	}
	r.tracer.Start()
	if len(g.Upstream.Servers) == 0 {
		g.Upstream = behind.To(upstream(t, func(w http.ResponseWriter, q *http.Request) {
			r.mu.Lock()
			r.headers = append(r.headers, q.Header.Clone())
			r.mu.Unlock()
			if q.URL.Path == "/broken" {
				w.WriteHeader(500)
			}
		}).URL)
	}
	r.rig = startIn(t, Env{Tracer: r.tracer}, g, throttles...)
	return r
}

// spans ends the tracing, and returns what the collector got.
func (r *tracingRig) spans() []*tracepb.Span {
	r.t.Helper()
	needs.Wait(r.t, "all are over", func() bool { return r.UnderWay.Load() == 0 })
	r.SetTracer(nil)
	r.tracer.Close(r.t.Context())
	return r.collector.Spans()
}

// got is the last header of a name that the service was sent.
func (r *tracingRig) got(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.headers[len(r.headers)-1][name], "|")
}

func attributes(s *tracepb.Span) map[string]any { return tracestest.Attributes(s.Attributes) }

// TestTraceOfARequest follows requests from the client to the service: one span at the gate, one towards the service,
// which is the parent of what the service does.
func TestTraceOfARequest(t *testing.T) {
	for _, protocol := range []string{"1.1", "2"} {
		t.Run(protocol, func(t *testing.T) {
			g := startTraced(t, traces.Options{Sample: new(weir.Share(1)), ClientAddress: traces.AddressFull},
				Options{Account: []string{"path:1"}})
			r := g.request("GET", "/key/broken?secret=1", nil)
			if protocol == "1.1" {
				g.do(r)
			} else {
				c := h2c()
				defer c.CloseIdleConnections()
				res, err := c.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
			}
			sent := g.got("Traceparent")
			all := g.spans()
			if len(all) != 2 {
				t.Fatalf("%d spans", len(all))
			}
			server, client := all[0], all[1]
			if server.Name != "GET" || server.Kind != tracepb.Span_SPAN_KIND_SERVER || len(server.ParentSpanId) != 0 ||
				client.Kind != tracepb.Span_SPAN_KIND_CLIENT || string(client.ParentSpanId) != string(server.SpanId) ||
				string(client.TraceId) != string(server.TraceId) || len(server.Links) != 0 ||
				server.StartTimeUnixNano != uint64(epoch.UnixNano()) {
				t.Errorf("%v\n%v", server, client)
			}
			if want := fmt.Sprintf("00-%x-%x-01", client.TraceId, client.SpanId); sent != want {
				t.Errorf("the service was sent %s, want %s", sent, want)
			}
			got := attributes(server)
			delete(got, "weir.request_id")
			want := map[string]any{"http.request.method": "GET", "url.path": "/" + identify.Mask("key") + "/broken",
				"url.scheme": "http", "server.address": "127.0.0.1", "client.address": "127.0.0.1",
				"network.protocol.version": protocol, "http.request.body.size": 0, "http.response.body.size": 0,
				"weir.gate": "127.0.0.1:0", "weir.account": identify.Mask("key"), "weir.verdict": "admit",
				"http.response.status_code": 200}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("\n got %v\nwant %v", got, want)
			}
			if a := attributes(client); a["http.response.status_code"] != 200 || a["server.address"] != "127.0.0.1" ||
				a["server.port"] == nil || a["http.request.method"] != "GET" {
				t.Errorf("%v", a)
			}
		})
	}
}

// TestTraceOfARefusal: the span names what refused the request, and there is none towards the service.
func TestTraceOfARefusal(t *testing.T) {
	g := startTraced(t, traces.Options{Sample: new(weir.Share(1))}, Options{}, newThrottle(overLimit))
	g.do(g.request("BREW", "/", nil))
	all := g.spans()
	if len(all) != 1 || all[0].Name != "HTTP" || all[0].Status.Code != 0 {
		t.Fatalf("%v", all)
	}
	a := attributes(all[0])
	for name, want := range map[string]any{"weir.verdict": "refuse", "weir.throttle": "t0", "weir.rule": "per-second",
		"weir.reason": "over-limit", "http.response.status_code": 429, "http.request.method": "_OTHER",
		"http.request.method_original": "BREW", "client.address": "127.0.0.0", "error.type": nil, "weir.waited_ms": nil} {
		if a[name] != want {
			t.Errorf("%s is %v, want %v", name, a[name], want)
		}
	}
}

// TestTraceOfAFailure: the spans of a request that the service failed are marked.
func TestTraceOfAFailure(t *testing.T) {
	g := startTraced(t, traces.Options{Sample: new(weir.Share(1))}, Options{})
	g.do(g.request("GET", "/broken", nil))
	dead := startTraced(t, traces.Options{Sample: new(weir.Share(1))}, Options{Upstream: behind.To("http://127.0.0.1:1")})
	dead.do(dead.request("GET", "/", nil))
	for name, c := range map[string]struct {
		all            []*tracepb.Span
		server, client any
	}{"500": {g.spans(), "500", "500"}, "dead": {dead.spans(), "502", "no_answer"}} {
		if len(c.all) != 2 {
			t.Fatalf("%s: %d spans", name, len(c.all))
		}
		for i, want := range []any{c.server, c.client} {
			if s := c.all[i]; s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || attributes(s)["error.type"] != want {
				t.Errorf("%s: %v", name, s)
			}
		}
	}
}

// TestTraceOfAWait: the span says how long the request was held, and by what.
func TestTraceOfAWait(t *testing.T) {
	line := newLine()
	g := startTraced(t, traces.Options{Sample: new(weir.Share(1))}, Options{}, line)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.do(g.request("GET", "/", nil))
	}()
	turn := receive(t, line.Turns)
	needs.Wait(t, "waiting", func() bool { return g.waiting.Len() == 1 })
	g.clock.Advance(1500 * time.Millisecond)
	turn.Grant()
	receive(t, done)
	a := attributes(g.spans()[0])
	if a["weir.waited_ms"] != 1500.0 || a["weir.throttle"] != "t0" || a["weir.verdict"] != "admit" {
		t.Errorf("%v", a)
	}
}

// TestAClientCannotForceSampling: whatever a client sends, no more requests are sampled than the operator wants, and
// none is added to a trace that the client names.
func TestAClientCannotForceSampling(t *testing.T) {
	for _, parents := range []traces.Parents{"", traces.ParentsProxies} {
		g := startTraced(t, traces.Options{Sample: new(weir.Share(0)), Parents: parents}, Options{})
		for range 20 {
			g.do(g.request("GET", "/", nil, "Traceparent", clientParent, "Tracestate", "vendor=1"))
			if got := g.got("Traceparent"); !strings.HasSuffix(got, "-00") || strings.Contains(got, clientParent[3:35]) {
				t.Fatalf("the service was sent %s", got)
			}
			if got := g.got("Tracestate"); got != "" {
				t.Fatalf("the service was sent the state %s", got)
			}
		}
		if all := g.spans(); len(all) != 0 {
			t.Errorf("%q: %d spans", parents, len(all))
		}
	}
	// What is sampled by chance has a link to the client's trace, and no more.
	g := startTraced(t, traces.Options{Sample: new(weir.Share(1))}, Options{})
	g.do(g.request("GET", "/", nil, "Traceparent", clientParent))
	server := g.spans()[0]
	if hex.EncodeToString(server.TraceId) == clientParent[3:35] || len(server.ParentSpanId) != 0 ||
		len(server.Links) != 1 || hex.EncodeToString(server.Links[0].TraceId) != clientParent[3:35] {
		t.Errorf("%v", server)
	}
}

// TestTraceOfATrustedProxy: where the operator says so, a trusted proxy's trace goes on, sampled if the proxy's was.
func TestTraceOfATrustedProxy(t *testing.T) {
	g := startTraced(t, traces.Options{Sample: new(weir.Share(0)), Parents: traces.ParentsProxies},
		Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	g.do(g.request("GET", "/", nil, "Traceparent", clientParent, "Tracestate", "vendor=1", "Tracestate", "other=2"))
	sent, state := g.got("Traceparent"), g.got("Tracestate")
	g.do(g.request("GET", "/", nil, "Traceparent", clientParent[:53]+"00"))
	unsampled := g.got("Traceparent")
	g.do(g.request("GET", "/", nil, "Traceparent", "nonsense", "Tracestate", "vendor=1"))
	all := g.spans()
	if len(all) != 2 || hex.EncodeToString(all[0].TraceId) != clientParent[3:35] ||
		hex.EncodeToString(all[0].ParentSpanId) != clientParent[36:52] || len(all[0].Links) != 0 {
		t.Fatalf("%v", all)
	}
	if want := fmt.Sprintf("%s%x-01", clientParent[:36], all[1].SpanId); sent != want || state != "vendor=1|other=2" {
		t.Errorf("the service was sent %s with %s, want %s", sent, state, want)
	}
	if unsampled[:36] != clientParent[:36] || !strings.HasSuffix(unsampled, "-00") {
		t.Errorf("the service was sent %s", unsampled)
	}
	if got := g.got("Tracestate"); got != "" || strings.Contains(g.got("Traceparent"), "nonsense") {
		t.Errorf("a state without a trace: %s", got)
	}
}

// TestTraceIDIsLogged: the line of a request names its trace.
func TestTraceIDIsLogged(t *testing.T) {
	g := startTraced(t, traces.Options{Sample: new(weir.Share(0))}, Options{})
	res, _ := g.do(g.request("GET", "/", nil))
	if id := g.accessLine(res.Header.Get("X-Request-Id"))["trace_id"]; id != g.got("Traceparent")[3:35] {
		t.Errorf("%v", id)
	}
	g.spans()
}

// TestWithoutTraces: where there are none, headers are passed on as they came, and nothing is spent on them.
func TestWithoutTraces(t *testing.T) {
	g := startTraced(t, traces.Options{}, Options{})
	g.SetTracer(nil)
	g.do(g.request("GET", "/", nil, "Traceparent", "as it came", "Tracestate", "x"))
	if g.got("Traceparent") != "as it came" || g.got("Tracestate") != "x" || len(g.spans()) != 0 {
		t.Errorf("%s", g.got("Traceparent"))
	}
	x, f := tracedExchange(g.Gate)
	if n := testing.AllocsPerRun(100, func() { traceOnce(x, f) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// tracedExchange is an exchange in the middle, for measurements.
func tracedExchange(g *Gate) (*exchange, *http1.Fields) {
	r := httptest.NewRequest("GET", "/v1/search", nil)
	x := exchanges.Get().(*exchange)
	x.gate, x.setup, x.r, x.ctx, x.status, x.replied = g, g.Setup.Load(), r, r.Context(), 200, 200
	x.event.Time = g.env.Clock.Now()
	x.own = new(http1.Fields)
	x.fields = x.own
	x.onward, x.event.ID, x.event.Source = x.event.Time, "m7ehk9hv2bwakgkd", netip.MustParseAddr("192.0.2.7")
	return x, new(http1.Fields)
}

// traceOnce is all that tracing does for one request.
func traceOnce(x *exchange, f *http1.Fields) {
	x.beginTrace()
	x.traceOnward(f)
	x.endTrace(x.onward)
	f.Reset()
}

// BenchmarkTrace is what traces cost a request: where there are none, for one that is not sampled, and for one that is.
func BenchmarkTrace(b *testing.B) {
	g, err := New(Options{Listen: "127.0.0.1:0", Upstream: behind.To("http://127.0.0.1:1")}, nil, chainOf(b), Env{})
	if err != nil {
		b.Fatal(err)
	}
	for name, share := range map[string]weir.Share{"off": -1, "unsampled": 0, "sampled": 1} {
		b.Run(name, func(b *testing.B) {
			if share >= 0 {
				tr, err := traces.New(traces.Options{Endpoint: "http://127.0.0.1:1", Sample: &share}, traces.Env{})
				if err != nil {
					b.Fatal(err)
				}
				tr.Start()
				g.SetTracer(tr)
				defer g.SetTracer(nil)
			}
			x, f := tracedExchange(g)
			b.ReportAllocs()
			for b.Loop() {
				traceOnce(x, f)
			}
		})
	}
}
