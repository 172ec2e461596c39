package rlsgate

import (
	"bytes"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// match returns the rule of an imported domain that a descriptor falls under, or nil. It appends to key what the rule
// counts apart: domain, keys and values, with a pattern in the place of a value that shares its threshold.
//
// Each entry is looked for one level further down: first key and value as they stand, then the wildcards in the order
// of the file, then the key alone. A rule counts only where it stands as deep as the descriptor has entries.
func (l *level) match(key []byte, domain string, entries []*common.RateLimitDescriptor_Entry) ([]byte, *rule) {
	key = append(append(key, domain...), '_')
	at := l
	var found *rule
	for i, e := range entries {
		if at == nil {
			break // deeper than the file
		}
		start := len(key)
		key = append(append(append(key, e.Key...), '_'), e.Value...)
		next := at.below[string(key[start:])]
		if next == nil {
			for _, w := range at.wildcards {
				if bytes.HasPrefix(key[start:], []byte(w.prefix)) {
					next = w.level
					if shared := strings.TrimPrefix(next.shared, e.Key+"_"); shared != "" {
						key = append(key[:start+len(e.Key)+1], shared...)
					}
					break
				}
			}
		}
		if next == nil {
			next = at.below[e.Key]
		}
		key = append(key, '_')
		if next != nil && i == len(entries)-1 {
			found = next.rule
		}
		if at = next; at != nil && len(at.below) == 0 {
			at = nil
		}
	}
	return key, found
}

// keyOf appends what an override counts apart: domain, keys and values.
func keyOf(key []byte, domain string, entries []*common.RateLimitDescriptor_Entry) []byte {
	key = append(append(key, domain...), '_')
	for _, e := range entries {
		key = append(append(append(append(key, e.Key...), '_'), e.Value...), '_')
	}
	return key
}
