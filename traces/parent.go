package traces

import "encoding/hex"

// A TraceID names a trace, and a SpanID a span of it. Zeros name none.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// The flags of a trace context.
const (
	flagSampled = 1 << 0
	flagRandom  = 1 << 1 // the id of the trace was chosen at random
)

// A Parent is the span that a request comes from.
type Parent struct {
	Trace TraceID
	Span  SpanID
	Flags byte
}

// Sampled reports whether the parent was sampled.
func (p *Parent) Sampled() bool { return p.Flags&flagSampled != 0 }

// The header has 55 bytes: version, id of the trace, id of the span, flags, with dashes between them.
const (
	headerSize = 2 + 1 + 32 + 1 + 16 + 1 + 2
	maxHeader  = 512 // a later version may be longer
)

// ParseParent reads the header traceparent (W3C Trace Context, section 3.2). Two of them are none.
func ParseParent(values []string) (p Parent, ok bool) {
	if len(values) != 1 {
		return Parent{}, false
	}
	h := values[0]
	if len(h) < headerSize || len(h) > maxHeader || h[2] != '-' || h[35] != '-' || h[52] != '-' {
		return Parent{}, false
	}
	var version, flags [1]byte
	ok = fromHex(version[:], h[:2]) && fromHex(p.Trace[:], h[3:35]) && fromHex(p.Span[:], h[36:52]) &&
		fromHex(flags[:], h[53:55])
	switch {
	case !ok || version[0] == 0xff || p.Trace == TraceID{} || p.Span == SpanID{}:
		return Parent{}, false
	case version[0] == 0 && len(h) != headerSize, len(h) > headerSize && h[headerSize] != '-':
		return Parent{}, false
	}
	p.Flags = flags[0] & (flagSampled | flagRandom)
	return p, true
}

// fromHex reads hexadecimal digits in lower case, the only ones that are allowed.
func fromHex(to []byte, from string) bool {
	for i := range to {
		high, low := digit(from[2*i]), digit(from[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 16
}

// appendHeader adds the header that names a span as the parent.
func appendHeader(b []byte, trace TraceID, span SpanID, flags byte) []byte {
	b = hex.AppendEncode(append(b, "00-"...), trace[:])
	b = hex.AppendEncode(append(b, '-'), span[:])
	return append(b, '-', '0', '0'+flags&(flagSampled|flagRandom))
}
