package rlsgate

import (
	"unicode/utf8"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// maxPlain is the longest message that is read into memory which is used again.
const maxPlain = 4 << 10

// asked is a request that is read into the memory of the one before it. Strings are new ones, unless the request before
// it had the same in the same place: a throttle may keep them.
type asked struct {
	req rls.RateLimitRequest
}

// read reads a message. What it returns is valid until the next one is read.
func (a *asked) read(message []byte) (*rls.RateLimitRequest, error) {
	if len(message) <= maxPlain && a.plain(message) {
		return &a.req, nil
	}
	req := new(rls.RateLimitRequest)
	return req, proto.Unmarshal(message, req)
}

// Fields of the messages.
const (
	fieldDomain      protowire.Number = 1
	fieldDescriptors protowire.Number = 2
	fieldHits        protowire.Number = 3
	fieldEntries     protowire.Number = 1
	fieldKey         protowire.Number = 1
	fieldValue       protowire.Number = 2
)

// plain reads a request that has nothing but a domain, descriptors of entries, and hits. It reports false for all
// others, also for those that are malformed.
func (a *asked) plain(b []byte) bool {
	domain := ""
	a.req.HitsAddend = 0
	a.req.Descriptors = a.req.Descriptors[:0]
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		switch {
		case number == fieldHits && kind == protowire.VarintType:
			hits, n := protowire.ConsumeVarint(b)
			if n < 0 {
				return false
			}
			a.req.HitsAddend, b = uint32(hits), b[n:]
		case number == fieldDomain && kind == protowire.BytesType:
			text, n := protowire.ConsumeBytes(b)
			if n < 0 || !utf8.Valid(text) {
				return false
			}
			domain, b = same(a.req.Domain, text), b[n:]
		case number == fieldDescriptors && kind == protowire.BytesType:
			inner, n := protowire.ConsumeBytes(b)
			if n < 0 || !a.descriptor(inner) {
				return false
			}
			b = b[n:]
		default:
			return false
		}
	}
	a.req.Domain = domain
	return true
}

// descriptor reads the next descriptor.
func (a *asked) descriptor(b []byte) bool {
	list := a.req.Descriptors
	n := len(list)
	if n < cap(list) {
		list = list[:n+1]
	} else {
		list = append(list, nil)
	}
	a.req.Descriptors = list
	d := list[n]
	if d == nil {
		d = new(common.RateLimitDescriptor)
		list[n] = d
	}
	d.Entries = d.Entries[:0]
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 || number != fieldEntries || kind != protowire.BytesType {
			return false
		}
		b = b[n:]
		inner, n := protowire.ConsumeBytes(b)
		if n < 0 || !entry(d, inner) {
			return false
		}
		b = b[n:]
	}
	return true
}

// entry reads the next entry of a descriptor.
func entry(d *common.RateLimitDescriptor, b []byte) bool {
	n := len(d.Entries)
	if n < cap(d.Entries) {
		d.Entries = d.Entries[:n+1]
	} else {
		d.Entries = append(d.Entries, nil)
	}
	e := d.Entries[n]
	if e == nil {
		e = new(common.RateLimitDescriptor_Entry)
		d.Entries[n] = e
	}
	key, value := "", ""
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.BytesType {
			return false
		}
		b = b[n:]
		text, n := protowire.ConsumeBytes(b)
		if n < 0 || !utf8.Valid(text) {
			return false
		}
		b = b[n:]
		switch number {
		case fieldKey:
			key = same(e.Key, text)
		case fieldValue:
			value = same(e.Value, text)
		default:
			return false
		}
	}
	e.Key, e.Value = key, value
	return true
}

// same returns a string of bytes: the one before, if that is the same.
func same(before string, b []byte) string {
	if before == string(b) {
		return before
	}
	return string(b)
}
