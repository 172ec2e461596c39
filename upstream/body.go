package upstream

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
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
	c     *conn // nil when it has ended
	res   *http.Response
	kind  bodyKind
	close bool  // the connection cannot be used again
	left  int64 // of the body, or of the chunk

	inChunks bool  // a chunk has been read, so that its end is due
	err      error // what a read returns from now on
	over     atomic.Bool
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
		all = (b.inChunks || b.left > 0) && have >= b.left && bytes.HasPrefix(b.c.in[b.left:], lastChunk)
		return int(min(have, b.left)), all
	}
	return int(have), false
}

// lastChunk is the end of a chunk and of a body without trailers.
var lastChunk = []byte("\r\n0\r\n\r\n")

// took counts n bytes of the body as read. It returns io.EOF with the last of them.
func (b *Body) took(n int) error {
	if b.kind == untilClose {
		return nil
	}
	b.left -= int64(n)
	if b.left > 0 {
		return nil
	}
	if b.kind == sizedBody {
		b.finish(true)
		return io.EOF
	}
	// The end of a chunked body mostly arrives together with its last chunk.
	if bytes.HasPrefix(b.c.in, lastChunk) {
		b.c.in = b.c.in[len(lastChunk):]
		b.finish(true)
		return io.EOF
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
	if b.left > 0 {
		return b.left, nil
	}
	if err := b.nextChunk(); err != nil {
		return 0, err
	}
	if b.left == 0 {
		if err := b.trailer(); err != nil {
			return 0, err
		}
		b.finish(true)
	}
	return b.left, nil
}

// Bounds on the lines of a chunked body.
const (
	maxChunkLine  = 4096
	maxSizeDigits = 15
)

// line returns the next line without its end. It is good until the next call.
func (b *Body) line(most int) ([]byte, error) {
	c, seen := b.c, 0
	for {
		if i := bytes.IndexByte(c.in[seen:], '\n'); i >= 0 {
			i += seen
			line := c.in[:i+1]
			c.in = c.in[i+1:]
			if i == 0 || line[i-1] != '\r' {
				return nil, malformedError("a line of a chunked body does not end with CRLF")
			}
			if i > most {
				return nil, malformedError("a line of a chunked body is too long")
			}
			return line[:i-1], nil
		}
		if seen = len(c.in); seen > most {
			return nil, malformedError("a line of a chunked body is too long")
		}
		c.relax()
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

func (b *Body) nextChunk() error {
	if b.inChunks {
		line, err := b.line(2)
		if err != nil {
			return err
		}
		if len(line) > 0 {
			return malformedError("a chunk is longer than its size")
		}
	}
	line, err := b.line(maxChunkLine)
	if err != nil {
		return err
	}
	b.inChunks = true
	size, ok := chunkSize(line)
	if !ok {
		return malformedError("malformed chunk size")
	}
	b.left = size
	return nil
}

// chunkSize reads the line before a chunk. Extensions are ignored.
func chunkSize(line []byte) (size int64, ok bool) {
	digits := 0
	for digits < len(line) {
		d := strings.IndexByte("0123456789abcdef", line[digits]|0x20)
		if line[digits] < '0' || d < 0 {
			break
		}
		size = size<<4 | int64(d)
		if digits++; digits > maxSizeDigits {
			return 0, false
		}
	}
	rest := line[digits:]
	return size, digits > 0 && (len(rest) == 0 || rest[0] == ';') && isValue(rest)
}

// trailer reads what comes after the last chunk, up to an empty line.
func (b *Body) trailer() error {
	total, fields := 0, 0
	for {
		line, err := b.line(maxTrailer)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		total, fields = total+len(line), fields+1
		if total > maxTrailer || fields > maxFields {
			return errHeadTooLarge
		}
		name, value, err := parseField(string(line))
		if err != nil {
			return err
		}
		if forbiddenTrailer(name) {
			return malformedError("a trailer that says how to read what came before it")
		}
		if b.res.Trailer == nil {
			b.res.Trailer = http.Header{}
		}
		b.res.Trailer[name] = append(b.res.Trailer[name], value)
	}
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
