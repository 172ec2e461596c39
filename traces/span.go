package traces

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Kind says which side of an exchange a span is.
type Kind uint8

// The kinds, as OTLP numbers them.
const (
	Server Kind = 2
	Client Kind = 3
)

// maxText is how long a text in a span may be, in bytes. The rest is cut off.
const maxText = 1024

// A Span is one step of a trace, in the encoding of OTLP. Its methods add to it; Begin makes it ready for another one.
// It is for one goroutine.
type Span struct{ b []byte }

// The numbers of fields in OTLP's messages (opentelemetry-proto, trace.proto and common.proto).
const (
	spanTrace, spanID, spanParent, spanName, spanKind = 1, 2, 4, 5, 6
	spanStart, spanEnd, spanAttribute                 = 7, 8, 9
	spanLink, spanStatus, spanFlags                   = 13, 15, 16

	linkTrace, linkSpan, linkFlags = 1, 2, 6

	statusCode  = 3
	statusError = 2

	keyName, keyValue                = 1, 2
	valueText, valueInt, valueDouble = 1, 3, 4

	flagKnowsRemote, flagRemote = 1 << 8, 1 << 9 // whether the parent is in another process
)

// Begin starts the span of a context.
func (s *Span) Begin(c *Context, kind Kind, name string, start, end time.Time) {
	b := appendBytes(s.b[:0], spanTrace, c.Trace[:])
	flags := uint32(flagSampled | flagKnowsRemote)
	switch {
	case kind == Client:
		b = appendBytes(b, spanID, c.Client[:])
		b = appendBytes(b, spanParent, c.Server[:])
	case c.Continued:
		b = appendBytes(b, spanID, c.Server[:])
		b = appendBytes(b, spanParent, c.Parent.Span[:])
		flags |= flagRemote
	default:
		b = appendBytes(b, spanID, c.Server[:])
		if c.HasParent {
			b = appendLink(b, &c.Parent)
		}
	}
	b = appendText(b, spanName, name)
	b = protowire.AppendVarint(protowire.AppendTag(b, spanKind, protowire.VarintType), uint64(kind))
	b = appendTime(b, spanStart, start)
	b = appendTime(b, spanEnd, end)
	s.b = protowire.AppendFixed32(protowire.AppendTag(b, spanFlags, protowire.Fixed32Type), flags)
}

// Text adds an attribute, unless it is empty.
func (s *Span) Text(key, value string) {
	if value == "" {
		return
	}
	value = clean(value)
	size := protowire.SizeTag(valueText) + protowire.SizeBytes(len(value))
	s.attribute(key, size)
	s.b = appendText(s.b, valueText, value)
}

// Int adds an attribute that is a whole number.
func (s *Span) Int(key string, value int64) {
	s.attribute(key, protowire.SizeTag(valueInt)+protowire.SizeVarint(uint64(value)))
	s.b = protowire.AppendVarint(protowire.AppendTag(s.b, valueInt, protowire.VarintType), uint64(value))
}

// Float adds an attribute that is a number.
func (s *Span) Float(key string, value float64) {
	s.attribute(key, protowire.SizeTag(valueDouble)+protowire.SizeFixed64())
	s.b = protowire.AppendFixed64(protowire.AppendTag(s.b, valueDouble, protowire.Fixed64Type), math.Float64bits(value))
}

// Failed marks the span as one that failed.
func (s *Span) Failed() {
	s.b = protowire.AppendTag(s.b, spanStatus, protowire.BytesType)
	s.b = protowire.AppendVarint(s.b, uint64(protowire.SizeTag(statusCode)+protowire.SizeVarint(statusError)))
	s.b = protowire.AppendVarint(protowire.AppendTag(s.b, statusCode, protowire.VarintType), statusError)
}

// attribute adds the beginning of an attribute, whose value has so many bytes.
func (s *Span) attribute(key string, size int) {
	s.b = appendKey(s.b, spanAttribute, key, size)
}

// appendKey adds a KeyValue up to the content of its value.
func appendKey(b []byte, field protowire.Number, key string, size int) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(protowire.SizeTag(keyName)+protowire.SizeBytes(len(key))+
		protowire.SizeTag(keyValue)+protowire.SizeBytes(size)))
	b = appendText(b, keyName, key)
	b = protowire.AppendTag(b, keyValue, protowire.BytesType)
	return protowire.AppendVarint(b, uint64(size))
}

func appendLink(b []byte, p *Parent) []byte {
	size := protowire.SizeTag(linkTrace) + protowire.SizeBytes(len(p.Trace)) + protowire.SizeTag(linkSpan) +
		protowire.SizeBytes(len(p.Span)) + protowire.SizeTag(linkFlags) + protowire.SizeFixed32()
	b = protowire.AppendTag(b, spanLink, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = appendBytes(b, linkTrace, p.Trace[:])
	b = appendBytes(b, linkSpan, p.Span[:])
	b = protowire.AppendTag(b, linkFlags, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, uint32(p.Flags)|flagKnowsRemote|flagRemote)
}

func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(t.UnixNano()))
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}

func appendText(b []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), value)
}

// clean makes a text fit for OTLP, which wants UTF-8, and bounds it.
func clean(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxText)], "\uFFFD")
}
