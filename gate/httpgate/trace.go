package httpgate

import (
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir"
	"weir/identify"
	"weir/internal/http1"
	"weir/traces"
)

// A trace is what a request needs for its spans. Where there are no traces, a request has none.
type trace struct {
	tracer  *traces.Tracer
	context traces.Context
	span    traces.Span     // the memory of both, one after the other
	headers strings.Builder // for the upstream, of many requests: one allocation for all that fit
	passed  bool            // the request went on to the upstream
}

var traced = sync.Pool{New: func() any { return new(trace) }}

// SetTracer changes where spans go; nil for nowhere. Requests under way keep the tracer that they began with.
func (g *Gate) SetTracer(t *traces.Tracer) { g.tracer.Store(t) }

// beginTrace finds the request's place in a trace, if there are any.
func (x *exchange) beginTrace() {
	tracer := x.gate.tracer.Load()
	if tracer == nil {
		return
	}
	t := traced.Get().(*trace)
	t.tracer, t.passed = tracer, false
	tracer.Begin(&t.context, x.fields.Values("Traceparent"), tracer.Trusts(x.origin.Proxied))
	x.trace = t
}

// traceOnward names the gate's span as the parent of what the upstream does. The state of a trace goes with the trace:
// what a client says about another one is not passed on.
func (x *exchange) traceOnward(f *http1.Fields) {
	if x.trace == nil {
		return
	}
	x.trace.passed = true
	f.Set("Traceparent", x.trace.header())
	if !x.trace.context.Continued {
		f.Del("Tracestate")
	}
}

// headersAtOnce is how much room there is for headers of requests that come one after the other.
const headersAtOnce = 32 * traces.HeaderSize

// header returns the header for the upstream. It stays as it is: there is only written behind it.
func (t *trace) header() string {
	if t.headers.Cap()-t.headers.Len() < traces.HeaderSize {
		t.headers.Reset()
		t.headers.Grow(headersAtOnce)
	}
	var room [traces.HeaderSize]byte
	before := t.headers.Len()
	t.headers.Write(t.context.AppendHeader(room[:0]))
	return t.headers.String()[before:]
}

// endTrace hands in the spans.
func (x *exchange) endTrace(now time.Time) {
	t := x.trace
	if t == nil {
		return
	}
	if t.context.Sampled {
		x.serverSpan(t, now)
		t.tracer.Add(&t.span)
		if t.passed {
			x.clientSpan(t, now)
			t.tracer.Add(&t.span)
		}
	}
	x.trace, t.tracer = nil, nil
	traced.Put(t)
}

// otherMethod is what OpenTelemetry calls all methods that it does not know, so that clients cannot make up names.
const otherMethod = "_OTHER"

// spanMethod returns the method for attributes, and the name for a span.
func spanMethod(method string) (attribute, name string) {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH":
		return method, method
	}
	return otherMethod, "HTTP"
}

// serverSpan is the span of the request at the gate. The names of attributes are OpenTelemetry's conventions for HTTP,
// and weir's own.
func (x *exchange) serverSpan(t *trace, now time.Time) {
	s := &t.span
	method, name := spanMethod(x.r.Method)
	s.Begin(&t.context, traces.Server, name, x.event.Time, now)
	s.Text("http.request.method", method)
	if method == otherMethod {
		s.Text("http.request.method_original", x.r.Method)
	}
	s.Text("url.path", maskSegments(identify.Escaped(x.r.URL), x.event.Account))
	scheme := "http"
	if x.r.TLS != nil {
		scheme = "https"
	}
	s.Text("url.scheme", scheme)
	s.Text("server.address", x.event.Route.Host)
	s.Text("client.address", t.tracer.Address(x.event.Source))
	s.Text("network.protocol.version", protocolVersion(x.r.ProtoMajor, x.r.ProtoMinor))
	s.Int("http.request.body.size", x.in.Load())
	s.Int("http.response.body.size", x.out.Load())
	s.Text("weir.request_id", x.event.ID)
	s.Text("weir.gate", x.setup.opts.Listen)
	s.Text("weir.account", identify.Mask(x.event.Account))
	s.Text("weir.verdict", x.pass.Answer.Verdict.String())
	by, rule, reason := x.cause()
	s.Text("weir.throttle", by)
	s.Text("weir.rule", rule)
	if reason != weir.NoReason {
		s.Text("weir.reason", reason.String())
	}
	if x.waited {
		s.Float("weir.waited_ms", milliseconds(x.waitedTime()))
	}
	switch status := x.status; {
	case status == statusLeft || status == 0: // no client has seen an answer
		s.Text("error.type", "client_left")
	default:
		s.Int("http.response.status_code", int64(status))
		if status >= 500 {
			s.Text("error.type", strconv.Itoa(status))
			s.Failed()
		}
	}
}

// clientSpan is the span of the request's way to the upstream and back.
func (x *exchange) clientSpan(t *trace, now time.Time) {
	s := &t.span
	method, name := spanMethod(x.r.Method)
	s.Begin(&t.context, traces.Client, name, x.onward, now)
	s.Text("http.request.method", method)
	if servers := x.setup.opts.Upstream.Servers; len(servers) == 1 { // of several, it is not known which one it was
		host, port := serverAddress(servers[0])
		s.Text("server.address", host)
		if port > 0 {
			s.Int("server.port", port)
		}
	}
	switch {
	case x.replied == 0:
		s.Text("error.type", "no_answer")
		s.Failed()
	default:
		s.Int("http.response.status_code", int64(x.replied))
		if x.replied >= 400 {
			s.Text("error.type", strconv.Itoa(x.replied))
			s.Failed()
		}
	}
}

// serverAddress splits the address of a server, as it is configured.
func serverAddress(server string) (host string, port int64) {
	u, err := url.Parse(server)
	if err != nil {
		return "", 0
	}
	if u.Host == "" {
		return u.Opaque + u.Path, 0 // a socket of this machine
	}
	port, _ = strconv.ParseInt(u.Port(), 10, 32)
	return u.Hostname(), port
}

func protocolVersion(major, minor int) string {
	switch {
	case major >= 2:
		return strconv.Itoa(major)
	case minor == 0:
		return "1.0"
	}
	return "1.1"
}
