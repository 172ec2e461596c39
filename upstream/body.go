package upstream

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"weir/internal/http1"
	"weir/internal/splice"
)

// A bodyKind says how the end of a body is found.
type bodyKind uint8

const (
	sizedBody bodyKind = iota
	chunkedBody
	untilClose
)

// A Body is the body of an answer as our own client reads it. It is for one goroutine; only Close may be called from
// another one, while no read is under way. At its end the connection is kept for the next request.
type Body struct {
	c      *conn // nil when it has ended
	call   *Call
	res    *http.Response // nil where the caller has no use for one
	kind   bodyKind
	close  bool  // the connection cannot be used again
	left   int64 // of a sized body
	chunks http1.Chunks

	err  error // what a read returns from now on
	over atomic.Bool
}

// Read reads a piece of the body. At its end, and not before, the error is io.EOF.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil || b.c == nil {
		return 0, cmp.Or(b.err, io.EOF)
	}
	if len(p) == 0 {
		return 0, nil
	}
	have, err := b.ready()
	if err != nil {
		return 0, b.fail(err)
	}
	if have == 0 {
		return 0, cmp.Or(b.err, io.EOF)
	}
	c := b.c
	if len(c.in) > 0 {
		n := copy(p[:min(int64(len(p)), have)], c.in)
		c.in = c.in[n:]
		return n, b.took(n)
	}
	// The bytes are read past the buffer, since they need not be parsed.
	c.relax()
	n, err := c.nc.Read(p[:min(int64(len(p)), have)])
	if n > 0 {
		return n, b.took(n)
	}
	if err == io.EOF && b.kind == untilClose {
		b.finish(false)
		return 0, io.EOF
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		return 0, nil
	}
	return 0, b.fail(err)
}

// Take moves bytes of the body into a pipe, which the caller must free, as Read copies them into a buffer. io.EOF comes
// with the last of them. splice.ErrNone means that the next bytes have to be read: some are in memory already, TLS or
// chunks have to be undone, or there is no pipe.
func (b *Body) Take() (*splice.Pipe, error) {
	if b.err != nil || b.c == nil || b.kind != sizedBody || len(b.c.in) > 0 {
		return nil, splice.ErrNone
	}
	raw := b.c.raw
	if raw == nil {
		return nil, splice.ErrNone
	}
	b.c.relax()
	p, err := splice.Take(raw, b.left)
	switch {
	case p != nil:
		return p, b.took(p.Len())
	case err == splice.ErrNone:
		return nil, err
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	}
	return nil, b.fail(err)
}

// Buffered returns how many bytes of the body can be read without waiting, and whether they are all of it.
func (b *Body) Buffered() (n int, all bool) {
	if b.c == nil {
		return 0, true
	}
	have := int64(len(b.c.in))
	switch b.kind {
	case sizedBody:
		return int(min(have, b.left)), have >= b.left
	case chunkedBody:
		left := b.chunks.Left
		all = left > 0 && have >= left && bytes.HasPrefix(b.c.in[left:], lastChunk)
		return int(min(have, left)), all
	}
	return int(have), false
}

// Whole returns all of a body of known length that is not larger than most, if it has come; else nil. It is good until
// the body is closed, and must not be changed.
func (b *Body) Whole(most int64) []byte {
	if b.c == nil || b.kind != sizedBody || b.left > most || int64(len(b.c.in)) < b.left {
		return nil
	}
	return b.c.in[:b.left]
}

// lastChunk is the end of a chunk and of a body without trailers.
var lastChunk = []byte("\r\n0\r\n\r\n")

// took counts n bytes of the body as read. It returns io.EOF with the last of them.
func (b *Body) took(n int) error {
	switch b.kind {
	case sizedBody:
		if b.left -= int64(n); b.left == 0 {
			b.finish(true)
			return io.EOF
		}
	case chunkedBody:
		// The end of a chunked body mostly arrives together with its last chunk.
		if b.chunks.Left -= int64(n); b.chunks.Left == 0 && bytes.HasPrefix(b.c.in, lastChunk) {
			b.c.in = b.c.in[len(lastChunk):]
			b.finish(true)
			return io.EOF
		}
	}
	return nil
}

// ready returns how many bytes of the body follow, after it has read the chunk size before them. 0 means the end.
func (b *Body) ready() (int64, error) {
	switch b.kind {
	case untilClose:
		return 1 << 62, nil
	case sizedBody:
		return b.left, nil
	}
	for b.chunks.Left == 0 {
		n, more, done, err := b.chunks.Next(b.c.in, http1.Bounds{Bytes: maxTrailer, Fields: maxFields}, b.trailer)
		b.c.in = b.c.in[n:]
		switch {
		case err != nil:
			return 0, err
		case done:
			b.finish(true)
			return 0, nil
		case more:
			b.c.relax()
			if err := b.c.fill(); err != nil {
				return 0, err
			}
		}
	}
	return b.chunks.Left, nil
}

// trailer takes a field that came after the last chunk.
func (b *Body) trailer(name, value string) error {
	if forbiddenTrailer(name) {
		return http1.Mistake("a trailer that says how to read what came before it")
	}
	if b.call.Trailer == nil {
		b.call.Trailer = http.Header{}
		if b.res != nil {
			b.res.Trailer = b.call.Trailer
		}
	}
	b.call.Trailer[name] = append(b.call.Trailer[name], value)
	return nil
}

// finish ends a body. If it was read to its end, the connection is kept for the next request.
func (b *Body) finish(whole bool) {
	if b.over.Swap(true) {
		return
	}
	c := b.c
	b.c = nil
	whole = whole && !b.close && len(c.in) == 0
	if c.sender != nil {
		whole = whole && c.sender.settle()
	}
	whole = c.end() && whole
	c.server.active.Add(-1)
	if whole {
		c.ctx, c.by, c.sender = nil, nil, nil
		c.server.put(c, &c.pool.opts)
	} else {
		c.close()
	}
}

// fail ends a body that broke off, and returns the error for the reader.
func (b *Body) fail(err error) error {
	c := b.c
	ctx, server := c.ctx, c.server
	b.finish(false)
	if ctx.Err() != nil {
		b.err = context.Cause(ctx)
		return b.err
	}
	why := reason(err)
	server.noted(why) // a client that reads slowly can make a server hang up
	b.err = &Error{Server: server.to.name, Why: why, Reached: true, Err: err, seen: true}
	return b.err
}

// Close ends the body. The connection is closed too, unless all of the body has arrived.
func (b *Body) Close() error {
	if b.over.Load() {
		return nil
	}
	whole := b.kind == sizedBody && int64(len(b.c.in)) == b.left
	if whole {
		b.c.in, b.left = nil, 0
	}
	b.finish(whole)
	b.err = cmp.Or(b.err, http.ErrBodyReadAfterClose)
	return nil
}

var _ io.ReadCloser = (*Body)(nil)
