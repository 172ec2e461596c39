package traces

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strconv"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A Context is the place of a request in a trace: of the span for the request itself, and of the one for its way to
// the upstream.
type Context struct {
	Trace   trace.TraceID
	Server  trace.SpanID // of the request
	Client  trace.SpanID // of its way to the upstream
	Sampled bool
	// Parent is where the request comes from; not valid if it does not say so. If Continued is false, it is a part of
	// another trace, which a client has named.
	Parent    trace.SpanContext
	Continued bool
}

// Begin returns the context of a request with these headers traceparent. If the parent is trusted, the request
// continues its trace and is sampled where the parent was. Otherwise it begins a trace of its own, and is sampled by
// chance: a client could choose the same trace for everything, or have everything sampled.
func (t *Tracer) Begin(c *Context, parents []string, trusted bool) {
	*c = Context{Parent: parse(parents)}
	binary.NativeEndian.PutUint64(c.Server[:], randomID())
	binary.NativeEndian.PutUint64(c.Client[:], randomID())
	if trusted && c.Parent.IsValid() {
		c.Trace, c.Continued, c.Sampled = c.Parent.TraceID(), true, c.Parent.IsSampled()
		return
	}
	binary.NativeEndian.PutUint64(c.Trace[:8], randomID())
	binary.NativeEndian.PutUint64(c.Trace[8:], rand.Uint64())
	asked := sdk.SamplingParameters{ParentContext: context.Background(), TraceID: c.Trace}
	c.Sampled = t.sampler.ShouldSample(asked).Decision == sdk.RecordAndSample
}

// randomID returns a number that is not zero.
func randomID() uint64 {
	for {
		if id := rand.Uint64(); id != 0 {
			return id
		}
	}
}

// HeaderSize is how long the header traceparent is: version, id of the trace, id of the span, flags, with dashes
// between them.
const HeaderSize = 2 + 1 + 32 + 1 + 16 + 1 + 2

// maxHeader is how long that of a later version may be.
const maxHeader = 512

// AppendHeader adds the header traceparent for the upstream.
func (c *Context) AppendHeader(b []byte) []byte {
	flags := c.Parent.TraceFlags() & trace.FlagsRandom
	if !c.Continued {
		flags = 0
	}
	b = hex.AppendEncode(append(b, "00-"...), c.Trace[:])
	b = hex.AppendEncode(append(b, '-'), c.Client[:])
	return append(b, '-', '0', '0'+byte(flags.WithSampled(c.Sampled)))
}

// parse reads the header traceparent (W3C Trace Context, section 3.2), without the allocations of OpenTelemetry's own
// reader. Two of them are none.
func parse(values []string) (none trace.SpanContext) {
	if len(values) != 1 {
		return none
	}
	h := values[0]
	if len(h) < HeaderSize || len(h) > maxHeader || h[2] != '-' || h[35] != '-' || h[52] != '-' {
		return none
	}
	version, wrong := digits(h[:2])
	flags, alsoWrong := digits(h[53:HeaderSize])
	id, err := trace.TraceIDFromHex(h[3:35])
	span, alsoErr := trace.SpanIDFromHex(h[36:52])
	switch {
	case wrong || alsoWrong || err != nil || alsoErr != nil || version == 0xff,
		version == 0 && len(h) != HeaderSize, len(h) > HeaderSize && h[HeaderSize] != '-':
		return none
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, Remote: true,
		TraceFlags: trace.TraceFlags(flags) & (trace.FlagsSampled | trace.FlagsRandom)})
}

// digits reads two hexadecimal digits in lower case, the only ones that are allowed.
func digits(text string) (n byte, wrong bool) {
	all, err := strconv.ParseUint(text, 16, 8)
	for _, c := range text {
		wrong = wrong || c >= 'A' && c <= 'F'
	}
	return byte(all), wrong || err != nil
}
