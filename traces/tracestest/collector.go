// Package tracestest has a collector of traces for tests. It receives OTLP over HTTP, and reads it with OpenTelemetry's
// own types.
package tracestest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A Collector receives spans. The zero value is ready to serve. Goroutines may share it.
type Collector struct {
	// Answer may answer the n-th request, from 1, in place of the collector, and reports whether it did.
	Answer func(n int, w http.ResponseWriter) bool

	mu       sync.Mutex
	requests []*http.Request
	got      []*tracepb.ResourceSpans
}

// Start returns a collector, and the address of its server, which ends with the test.
func Start(t testing.TB) (*Collector, string) {
	c := new(Collector)
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	return c, s.URL
}

// ServeHTTP takes a batch of spans.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	c.mu.Lock()
	c.requests = append(c.requests, r)
	n := len(c.requests)
	c.mu.Unlock()
	if c.Answer != nil && c.Answer(n, w) {
		return
	}
	// ExportTraceServiceRequest has the same fields.
	var data tracepb.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &data)
	}
	if err != nil || r.Method != "POST" || r.URL.Path != "/v1/traces" ||
		r.Header.Get("Content-Type") != "application/x-protobuf" || len(data.ProtoReflect().GetUnknown()) > 0 {
		http.Error(w, fmt.Sprint(err), 400)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, data.ResourceSpans...)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Requests are those that came.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests[:len(c.requests):len(c.requests)]
}

// Resources are what came, in order.
func (c *Collector) Resources() []*tracepb.ResourceSpans {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got[:len(c.got):len(c.got)]
}

// Spans are all spans that came, in order.
func (c *Collector) Spans() (all []*tracepb.Span) {
	for _, r := range c.Resources() {
		for _, s := range r.ScopeSpans {
			all = append(all, s.Spans...)
		}
	}
	return all
}

// Attributes are those of a span, or of something else, by name: texts, whole numbers and numbers.
func Attributes(list []*commonpb.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			all[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			all[a.Key] = int(v.IntValue)
		case *commonpb.AnyValue_DoubleValue:
			all[a.Key] = v.DoubleValue
		}
	}
	return all
}
