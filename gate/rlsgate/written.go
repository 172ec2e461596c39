package rlsgate

import (
	"unicode/utf8"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Fields of the answer.
const (
	fieldOverall   protowire.Number = 1
	fieldStatuses  protowire.Number = 2
	fieldCode      protowire.Number = 1
	fieldLimit     protowire.Number = 2
	fieldRemaining protowire.Number = 3
	fieldReset     protowire.Number = 4
	fieldRequests  protowire.Number = 1
	fieldUnit      protowire.Number = 2
	fieldName      protowire.Number = 3
	fieldSeconds   protowire.Number = 1
)

// write appends the answer as Envoy reads it. An answer without headers is written here: protobuf's own code, which
// looks at each message twice and knows all kinds of them, takes several times as long.
func (r *reply) write(to []byte) ([]byte, error) {
	if len(r.ResponseHeadersToAdd) > 0 {
		return proto.MarshalOptions{}.MarshalAppend(to, &r.RateLimitResponse)
	}
	to = appendNumber(to, fieldOverall, uint64(r.OverallCode))
	for _, st := range r.Statuses {
		if l := st.CurrentLimit; l != nil && !utf8.ValidString(l.Name) {
			return proto.MarshalOptions{}.MarshalAppend(to, &r.RateLimitResponse) // it says what is wrong
		}
		var at int
		to, at = begin(to, fieldStatuses)
		to = end(appendStatus(to, st), at)
	}
	return to, nil
}

func appendStatus(to []byte, st *rls.RateLimitResponse_DescriptorStatus) []byte {
	var at int
	to = appendNumber(to, fieldCode, uint64(st.Code))
	if l := st.CurrentLimit; l != nil {
		to, at = begin(to, fieldLimit)
		to = appendNumber(to, fieldRequests, uint64(l.RequestsPerUnit))
		to = appendNumber(to, fieldUnit, uint64(l.Unit))
		if l.Name != "" {
			to = protowire.AppendString(protowire.AppendTag(to, fieldName, protowire.BytesType), l.Name)
		}
		to = end(to, at)
	}
	to = appendNumber(to, fieldRemaining, uint64(st.LimitRemaining))
	if d := st.DurationUntilReset; d != nil {
		to, at = begin(to, fieldReset)
		to = end(appendNumber(to, fieldSeconds, uint64(d.Seconds)), at)
	}
	return to
}

// appendNumber appends a number, unless that is 0: a field that is not there is 0.
func appendNumber(to []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return to
	}
	return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), n)
}

// begin begins a message in another one, whose length end fills in. Most are shorter than 128 bytes, so that one byte
// will do for that.
func begin(to []byte, field protowire.Number) (_ []byte, at int) {
	to = append(protowire.AppendTag(to, field, protowire.BytesType), 0)
	return to, len(to)
}

func end(to []byte, at int) []byte {
	size := len(to) - at
	if size < 0x80 {
		to[at-1] = byte(size)
		return to
	}
	more := protowire.SizeVarint(uint64(size)) - 1
	to = append(to, make([]byte, more)...)
	copy(to[at+more:], to[at:at+size])
	protowire.AppendVarint(to[:at-1], uint64(size))
	return to
}
