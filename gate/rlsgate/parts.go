package rlsgate

import (
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"weir"
)

// parts appends what keys of limits are made of: the entries whose key is a part's own name, as in header:X-Tenant. It
// reports false if the service behind Envoy may read another value.
func (d *domain) parts(to []weir.Part, entries []*common.RateLimitDescriptor_Entry) (_ []weir.Part, plain bool) {
	for _, name := range d.keyParts {
		value, found := "", false
		for _, e := range entries {
			if !strings.EqualFold(e.Key, name) {
				continue
			}
			if found && e.Value != value || strings.IndexByte(e.Value, ',') >= 0 {
				return to, false
			}
			value, found = e.Value, true
		}
		if found {
			to = append(to, weir.Part{Name: name, Value: value})
		}
	}
	return to, true
}
