package traces

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A Kind says which side of an exchange a span is.
type Kind = trace.SpanKind

// The kinds.
const (
	Server = trace.SpanKindServer
	Client = trace.SpanKindClient
)

// maxText is how long a text in a span may be, in bytes. The rest is cut off.
const maxText = 1024

// A Span is one step of a trace. Its methods add to it; Begin makes it ready for another one. It is for one goroutine.
type Span struct {
	context    *Context
	kind       Kind
	name       string
	start, end time.Time
	attributes []attribute.KeyValue
	failed     bool
}

// Begin starts the span of a context.
func (s *Span) Begin(c *Context, kind Kind, name string, start, end time.Time) {
	*s = Span{context: c, kind: kind, name: name, start: start, end: end, attributes: s.attributes[:0]}
}

// Text adds an attribute, unless it is empty.
func (s *Span) Text(key, value string) {
	if value != "" {
		s.attributes = append(s.attributes, attribute.String(key, clean(value)))
	}
}

// Int adds an attribute that is a whole number.
func (s *Span) Int(key string, value int64) {
	s.attributes = append(s.attributes, attribute.Int64(key, value))
}

// Float adds an attribute that is a number.
func (s *Span) Float(key string, value float64) {
	s.attributes = append(s.attributes, attribute.Float64(key, value))
}

// Failed marks the span as one that failed.
func (s *Span) Failed() { s.failed = true }

// clean makes a text fit for OTLP, which wants UTF-8, and bounds it.
func clean(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD")
}

// Add takes a span, to be sent. It never waits.
func (t *Tracer) Add(s *Span) {
	c := s.context
	options := []trace.SpanStartOption{trace.WithSpanKind(s.kind), trace.WithTimestamp(s.start),
		trace.WithAttributes(s.attributes...)}
	ctx, parent := context.Background(), c.Parent
	own := ids{c.Trace, c.Server}
	switch {
	case s.kind == Client:
		own.span = c.Client
		parent = trace.NewSpanContext(trace.SpanContextConfig{TraceID: c.Trace, SpanID: c.Server,
			TraceFlags: trace.FlagsSampled})
	case !c.Continued && parent.IsValid():
		options = append(options, trace.WithLinks(trace.Link{SpanContext: parent}))
		parent = trace.SpanContext{}
	}
	ctx = context.WithValue(trace.ContextWithSpanContext(ctx, parent), ids{}, own)
	_, span := t.spans.Start(ctx, s.name, options...)
	if s.failed {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(s.end))
}

// ids are those of a span. They were made when its request began, as the upstream was told them; the SDK asks for them
// when it makes the span, and finds them in its context.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// NewIDs returns those of a span that begins a trace.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	own, _ := ctx.Value(ids{}).(ids)
	return own.trace, own.span
}

// NewSpanID returns that of any other.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	own, _ := ctx.Value(ids{}).(ids)
	return own.span
}
