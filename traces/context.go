package traces

import (
	"encoding/binary"
	"math"
	"math/rand/v2"

	"weir"
)

// A Context is the place of a request in a trace: of the span for the request itself, and of the one for its way to
// the upstream.
type Context struct {
	Trace   TraceID
	Server  SpanID // of the request
	Client  SpanID // of its way to the upstream
	Sampled bool
	// Parent is where the request comes from, if it says so. If Continued is false, it is a part of another trace,
	// which a client has named.
	Parent    Parent
	HasParent bool
	Continued bool
}

// Begin returns the context of a request with these headers traceparent. If the parent is trusted, the request
// continues its trace and is sampled where the parent was. Otherwise it begins a trace of its own, and is sampled by
// chance: a client could choose the same trace for everything, or have everything sampled.
func (t *Tracer) Begin(c *Context, parents []string, trusted bool) {
	*c = Context{}
	if len(parents) > 0 {
		c.Parent, c.HasParent = ParseParent(parents)
	}
	binary.NativeEndian.PutUint64(c.Server[:], randomID())
	binary.NativeEndian.PutUint64(c.Client[:], randomID())
	if c.HasParent && trusted {
		c.Trace, c.Continued, c.Sampled = c.Parent.Trace, true, c.Parent.Sampled()
		return
	}
	binary.BigEndian.PutUint64(c.Trace[:8], randomID())
	luck := rand.Uint64()
	binary.BigEndian.PutUint64(c.Trace[8:], luck)
	c.Sampled = luck>>1 < t.below
}

// randomID returns a number that is not zero.
func randomID() uint64 {
	for {
		if id := rand.Uint64(); id != 0 {
			return id
		}
	}
}

// threshold is what the last 63 bits of a trace's id must be below to be sampled. The SDKs of OpenTelemetry do the
// same, so that they choose the same traces.
func threshold(sample weir.Share) uint64 {
	switch {
	case sample >= 1:
		return 1 << 63
	case sample <= 0:
		return 0
	}
	return uint64(float64(sample) * math.MaxInt64)
}

// Header returns the header traceparent for the upstream.
func (c *Context) Header() string {
	flags := c.Parent.Flags & flagRandom
	if !c.Continued {
		flags = 0
	}
	if c.Sampled {
		flags |= flagSampled
	}
	var room [headerSize]byte
	return string(appendHeader(room[:0], c.Trace, c.Client, flags))
}
