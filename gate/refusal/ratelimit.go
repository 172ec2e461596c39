package refusal

import (
	"strconv"
	"sync/atomic"
	"time"

	"weir"
)

// RateLimit adds the fields of Fields to those that an upstream may have sent. Header.Add would write the name as
// Ratelimit.
func RateLimit(h Header, figures []weir.Figure, now time.Time) {
	if policy, limit := Fields(figures, now); policy != "" {
		h.Add("RateLimit-Policy", policy)
		h.Add("RateLimit", limit)
	}
}

// Fields returns the values of RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) for the rules that
// a request met; empty where there are none.
//
// A policy is called by its rule. Where two throttles have rules of the same name, the later one is called
// throttle/rule. Windows are whole seconds, rounded up: a client that takes 5 per 200 ms for 5 per second is on the
// safe side. A level, such as requests at once, has no window. An unknown reset is left out.
func Fields(figures []weir.Figure, now time.Time) (policies, limits string) {
	if len(figures) == 1 {
		return single(&figures[0], now)
	}
	return several(figures, now)
}

// several is Fields for any number of rules. It stands apart for its buffers: stacks should be small, as many requests
// may be held.
func several(figures []weir.Figure, now time.Time) (policies, limits string) {
	var buffer [2][192]byte
	policy, limit := buffer[0][:0], buffer[1][:0]
	for i := range figures {
		f := &figures[i]
		if toldLater(figures, i) {
			continue
		}
		name := f.Rule
		for j := range i {
			if figures[j].Rule == f.Rule && !toldLater(figures, j) {
				name = f.By + "/" + f.Rule
				break
			}
		}
		if len(policy) > 0 {
			policy, limit = append(policy, ", "...), append(limit, ", "...)
		}
		policy, limit = appendPolicy(policy, name, f), appendLimit(limit, name, f, now)
	}
	both := string(append(policy, limit...)) // one piece of memory for both
	return both[:len(policy)], both[len(policy):]
}

func appendPolicy(b []byte, name string, f *weir.Figure) []byte {
	b = strconv.AppendInt(append(appendString(b, name), ";q="...), f.Limit, 10)
	if f.Window > 0 {
		b = strconv.AppendInt(append(b, ";w="...), WholeSeconds(f.Window.Length()), 10)
	}
	switch f.Unit {
	case "bytes":
		b = append(b, `;qu="content-bytes"`...)
	case "at once":
		b = append(b, `;qu="concurrent-requests"`...)
	}
	return b
}

func appendLimit(b []byte, name string, f *weir.Figure, now time.Time) []byte {
	b = strconv.AppendInt(append(appendString(b, name), ";r="...), f.Remaining, 10)
	if !f.Reset.IsZero() {
		b = strconv.AppendInt(append(b, ";t="...), WholeSeconds(f.Reset.Sub(now)), 10)
	}
	return b
}

// A policy is a rule, and how it is told.
type policy struct {
	rule, unit string
	limit      int64
	window     weir.Window
	text       string
}

// policies are some that were told before, by a part of their limits. Most services have few.
var policies [64]atomic.Pointer[policy]

// single is Fields for one rule.
func single(f *weir.Figure, now time.Time) (string, string) {
	place := &policies[uint64(f.Limit)%uint64(len(policies))]
	p := place.Load()
	if p == nil || p.rule != f.Rule || p.limit != f.Limit || p.window != f.Window || p.unit != f.Unit {
		p = &policy{f.Rule, f.Unit, f.Limit, f.Window, string(appendPolicy(nil, f.Rule, f))}
		place.Store(p)
	}
	var buffer [192]byte
	return p.text, string(appendLimit(buffer[:0], f.Rule, f, now))
}

// toldLater reports whether the rule of figure i comes again: it may be met when the event is judged and when it
// enters.
func toldLater(figures []weir.Figure, i int) bool {
	for j := i + 1; j < len(figures); j++ {
		if figures[j].Rule == figures[i].Rule && figures[j].By == figures[i].By {
			return true
		}
	}
	return false
}

// appendString writes a string of a structured field (RFC 9651, 3.3.3): quoted, ASCII only.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c >= 0x7f:
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
