package httpgate

import (
	"sync"
	"sync/atomic"
)

type buffer [32 << 10]byte

// buffers are those through which bodies are copied.
var buffers = sync.Pool{New: func() any { return new(buffer) }}

// A largeBuffer halves what it costs to copy a large body. But a client that takes nothing in keeps its buffer, so that
// there are few.
type largeBuffer [128 << 10]byte

// maxLarge is how many large buffers are in use at once. Whoever finds none goes on with a small one.
const maxLarge = 64

var (
	largeBuffers = sync.Pool{New: func() any { return new(largeBuffer) }}
	largeInUse   atomic.Int32
)

// A copier lends the buffers through which one body is copied.
type copier struct {
	small  *buffer
	large  *largeBuffer
	copied int
}

// buffer returns the one for the next piece. Bodies that have come to a large buffer's size get such a one.
func (c *copier) buffer() []byte {
	switch {
	case c.large != nil:
		return c.large[:]
	case c.copied >= len(c.large) && c.borrow():
		return c.large[:]
	case c.small == nil:
		c.small = buffers.Get().(*buffer)
	}
	return c.small[:]
}

// borrow takes a large buffer, if there is one, in place of the small one.
func (c *copier) borrow() bool {
	if largeInUse.Add(1) > maxLarge {
		largeInUse.Add(-1)
		return false
	}
	c.free()
	c.large = largeBuffers.Get().(*largeBuffer)
	return true
}

// free gives back what was lent.
func (c *copier) free() {
	if c.small != nil {
		buffers.Put(c.small)
		c.small = nil
	}
	if c.large != nil {
		largeInUse.Add(-1)
		largeBuffers.Put(c.large)
		c.large = nil
	}
}
