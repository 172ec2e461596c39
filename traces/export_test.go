package traces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"weir"
	"weir/traces/tracestest"
)

// counts are what became of spans.
type counts struct {
	mu sync.Mutex
	of map[string]int64
}

func (c *counts) count(result string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int64{}
	}
	if n != 0 {
		c.of[result] += n
	}
}

func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.of)
}

func add(tr *Tracer, name string) {
	var c Context
	var s Span
	tr.Begin(&c, nil, false)
	now := time.Now()
	s.Begin(&c, Server, name, now, now)
	tr.Add(&s)
}

// TestSpansAreOTLP: OpenTelemetry's own types read what is sent, field by field, and its variables name the service and
// what is sent with it.
func TestSpansAreOTLP(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "edge")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
	c, url := tracestest.Start(t)
	n := new(counts)
	tr, err := New(Options{Endpoint: url}, Env{Version: "1.2.3", Count: n.count})
	if err != nil {
		t.Fatal(err)
	}
	tr.Start()
	start := time.Date(2026, 11, 17, 19, 0, 0, 123456789, time.UTC)
	var of Context
	var s Span
	tr.Begin(&of, []string{good}, true)
	s.Begin(&of, Server, "GET", start, start.Add(time.Second))
	s.Text("url.path", "/a\xffb")
	s.Text("nothing", "")
	s.Text("long", strings.Repeat("x", 2*maxText))
	s.Int("http.response.status_code", 503)
	s.Int("negative", -1)
	s.Float("weir.waited_ms", 1.5)
	s.Failed()
	tr.Add(&s)
	s.Begin(&of, Client, "GET", start, start.Add(time.Second/2))
	tr.Add(&s)
	var other Context
	tr.Begin(&other, []string{good}, false)
	s.Begin(&other, Server, "POST", start, start)
	tr.Add(&s)
	tr.Close(t.Context())
	if n.String() != "map[sent:3]" || len(c.Requests()) != 1 || c.Requests()[0].Header.Get("X-Key") != "secret" {
		t.Fatalf("%v, %d calls", n, len(c.Requests()))
	}
	resource := tracestest.Attributes(c.Resources()[0].Resource.Attributes)
	scope := c.Resources()[0].ScopeSpans[0].Scope
	if resource["service.name"] != "edge" || resource["service.version"] != "1.2.3" || resource["host.name"] == nil ||
		scope.Name != "weir" || scope.Version != "1.2.3" {
		t.Errorf("%v %v", resource, scope)
	}
	all := c.Spans()
	if len(all) != 3 {
		t.Fatalf("%d spans", len(all))
	}
	text := func(s string) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
	}
	number := func(n int64) *commonpb.AnyValue {
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: n}}
	}
	parent := parse([]string{good})
	trace, span := parent.TraceID(), parent.SpanID()
	wants := []*tracepb.Span{
		{TraceId: trace[:], SpanId: of.Server[:], ParentSpanId: span[:], Name: "GET",
			Kind:              tracepb.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: uint64(start.UnixNano()), EndTimeUnixNano: uint64(start.Add(time.Second).UnixNano()),
			Attributes: []*commonpb.KeyValue{
				{Key: "url.path", Value: text("/a\uFFFDb")}, {Key: "long", Value: text(strings.Repeat("x", maxText))},
				{Key: "http.response.status_code", Value: number(503)}, {Key: "negative", Value: number(-1)},
				{Key: "weir.waited_ms", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: 1.5}}},
			},
			Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}, Flags: 0x301},
		{TraceId: trace[:], SpanId: of.Client[:], ParentSpanId: of.Server[:], Name: "GET",
			Kind:              tracepb.Span_SPAN_KIND_CLIENT,
			StartTimeUnixNano: uint64(start.UnixNano()), EndTimeUnixNano: uint64(start.Add(time.Second / 2).UnixNano()),
			Status: &tracepb.Status{}, Flags: 0x101},
		{TraceId: other.Trace[:], SpanId: other.Server[:], Name: "POST", Kind: tracepb.Span_SPAN_KIND_SERVER,
			StartTimeUnixNano: uint64(start.UnixNano()), EndTimeUnixNano: uint64(start.UnixNano()),
			Links:  []*tracepb.Span_Link{{TraceId: trace[:], SpanId: span[:], Flags: 0x301}},
			Status: &tracepb.Status{}, Flags: 0x101},
	}
	for i, want := range wants {
		if !proto.Equal(all[i], want) {
			t.Errorf("span %d:\n got %v\nwant %v", i, all[i], want)
		}
	}
}

// stuck is a collector that does not answer before its calls are given up.
type stuck struct{}

func (stuck) ExportSpans(ctx context.Context, _ []sdk.ReadOnlySpan) error {
	<-ctx.Done()
	return ctx.Err()
}
func (stuck) Shutdown(context.Context) error { return nil }

// TestCollectorThatHangs: a collector that does not answer holds nobody up, and costs no more than the bound.
func TestCollectorThatHangs(t *testing.T) {
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1000")
	synctest.Test(t, func(t *testing.T) {
		n := new(counts)
		tr, err := newTracer(Options{Endpoint: "http://collector"}.WithDefaults(), Env{Count: n.count}, stuck{})
		if err != nil {
			t.Fatal(err)
		}
		tr.Start()
		for range 1000 {
			add(tr, "x")
			synctest.Wait()
		}
		if n.String() != "map[]" {
			t.Error(n)
		}
		add(tr, "one too many")
		if n.String() != "map[dropped:1]" {
			t.Error(n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		tr.Close(ctx)
		if took := time.Since(began); took != 3*time.Second || n.String() != "map[dropped:1 failed:1000]" {
			t.Error(took, n)
		}
		time.Sleep(time.Hour) // what is under way is given up, and counts no more
		if n.String() != "map[dropped:1 failed:1000]" {
			t.Error(n)
		}
	})
}

// talker is a collector that refuses with many words.
type talker struct{ stuck }

func (talker) ExportSpans(context.Context, []sdk.ReadOnlySpan) error {
	return errors.New(strings.Repeat("no ", 1<<20))
}

// TestCollectorThatTalks: what a collector says does not fill the log.
func TestCollectorThatTalks(t *testing.T) {
	var log strings.Builder
	n := new(counts)
	tr, err := newTracer(Options{Endpoint: "http://collector"}.WithDefaults(),
		Env{Count: n.count, Log: slog.New(slog.NewTextHandler(&log, nil))}, talker{})
	if err != nil {
		t.Fatal(err)
	}
	tr.Start()
	add(tr, "x")
	tr.Close(t.Context())
	if n.String() != "map[failed:1]" || !strings.Contains(log.String(), "no no no") || log.Len() > 2*maxText {
		t.Errorf("%v, %d bytes in the log", n, log.Len())
	}
}

// TestQueueIsBounded: whatever the environment says.
func TestQueueIsBounded(t *testing.T) {
	for text, want := range map[string]int{"": 2048, "1": 1, "70000": MaxWaiting, "0": 2048, "-1": 2048, "many": 2048} {
		t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", text)
		if got := mostWaiting(); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// TestUnsampledAllocatesNothing: the sampler is asked before any span is made.
func TestUnsampledAllocatesNothing(t *testing.T) {
	tr := tracer(t, Options{Sample: new(weir.Share(0.000001))})
	var c Context
	room := make([]byte, HeaderSize)
	if n := testing.AllocsPerRun(100, func() {
		for tr.Begin(&c, []string{good}, false); c.Sampled; {
		}
		c.AppendHeader(room[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSpan(b *testing.B) {
	tr, err := newTracer(Options{Endpoint: "http://collector", Sample: new(weir.Share(1))}.WithDefaults(), Env{}, stuck{})
	if err != nil {
		b.Fatal(err)
	}
	tr.Start()
	var c Context
	var s Span
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		tr.Begin(&c, nil, false)
		s.Begin(&c, Server, "GET", now, now)
		s.Text("http.request.method", "GET")
		s.Text("url.path", "/v1/search")
		s.Text("server.address", "api.example.com")
		s.Int("http.response.status_code", 200)
		s.Text("weir.verdict", "admit")
		tr.Add(&s)
	}
}
