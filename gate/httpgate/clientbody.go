package httpgate

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A clientBody is the body of a request as a session reads it. Whoever sends it on to the upstream may still be reading
// when the request has been answered.
type clientBody struct {
	session *session

	mu       sync.Mutex
	gen      uint64 // which request it belongs to
	request  *http.Request
	chunked  bool
	inChunks bool
	left     int64 // of the body, or of the chunk
	ended    bool
	expects  bool // the client waits for 100 Continue
	err      error

	reading atomic.Bool
}

// A bodyOf is the body of one request. The session has one clientBody for all of them.
type bodyOf struct {
	b   *clientBody
	gen uint64
}

// begin makes ready for the body of a request.
func (b *clientBody) begin(r *http.Request, chunked bool) {
	b.gen++
	b.request, b.chunked, b.inChunks, b.left, b.err = r, chunked, false, max(r.ContentLength, 0), nil
	b.ended = !chunked && b.left == 0
	b.expects = !b.ended && r.ProtoMinor == 1 && hasWord(r.Header["Expect"], "100-continue")
	if b.ended {
		r.Body = http.NoBody
		return
	}
	r.Body = &bodyOf{b, b.gen}
}

func (o *bodyOf) Close() error { return nil } // the session looks after the rest

func (o *bodyOf) Read(p []byte) (int, error) {
	b := o.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if o.gen != b.gen {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.ended {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if b.expects {
		b.expects = false
		if err := b.session.reply.goOn(); err != nil {
			return 0, err
		}
	}
	b.reading.Store(true)
	defer b.reading.Store(false)
	n, err := b.read(p)
	if err == io.EOF {
		b.ended = true
	} else if err != nil && !timedOut(err) {
		b.err = err
	}
	return n, err
}

func (b *clientBody) read(p []byte) (int, error) {
	s := b.session
	if b.chunked && b.left == 0 {
		if err := b.nextChunk(); err != nil {
			return 0, err
		}
	}
	p = p[:min(int64(len(p)), b.left)]
	var n int
	if len(s.in) > 0 {
		n = copy(p, s.in)
		s.in = s.in[n:]
	} else {
		var err error
		if n, err = s.conn.Read(p); n == 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	if b.left -= int64(n); b.left == 0 && !b.chunked {
		return n, io.EOF
	}
	return n, nil
}

// line returns the next line of what frames the chunks. The framing has seen to its bounds.
func (b *clientBody) line() ([]byte, error) {
	s := b.session
	for {
		if i := bytes.IndexByte(s.in, '\n'); i >= 0 {
			line := bytes.TrimSuffix(s.in[:i], []byte("\r"))
			s.in = s.in[i+1:]
			return line, nil
		}
		if err := s.read(); err != nil {
			return nil, err
		}
	}
}

// nextChunk reads the end of a chunk and the size of the next; after the last one, the trailers, and it is io.EOF.
func (b *clientBody) nextChunk() error {
	if b.inChunks {
		if line, err := b.line(); err != nil {
			return err
		} else if len(line) > 0 {
			return errBrokenChunk
		}
	}
	line, err := b.line()
	if err != nil {
		return err
	}
	b.inChunks = true
	if len(line) == 0 || len(line) > maxSizeDigits {
		return errBrokenChunk
	}
	for _, c := range line {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if c < '0' || d < 0 {
			return errBrokenChunk
		}
		b.left = b.left<<4 | int64(d)
	}
	if b.left > 0 {
		return nil
	}
	for {
		line, err := b.line()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return io.EOF
		}
		name, value, found := strings.Cut(string(line), ":")
		if !found {
			return errBrokenChunk
		}
		if b.request.Trailer == nil {
			b.request.Trailer = http.Header{}
		}
		b.request.Trailer.Add(name, strings.Trim(value, " \t"))
	}
}

const errBrokenChunk = bodyError("a chunk of the request's body is malformed")

type bodyError string

func (e bodyError) Error() string { return string(e) }

// leftOver is how much of a body that nobody wanted is read for the sake of the connection, as net/http does.
const leftOver = 256 << 10

// leave ends the body of a request that has been answered. It reports whether the next request can be read: what is
// left of a small body is read first, unless the answer was the last one anyway.
func (b *clientBody) leave(again bool) bool {
	if b.reading.Load() || !b.mu.TryLock() {
		return false // the connection is closed, which ends that read too
	}
	defer b.mu.Unlock()
	b.gen++
	if b.ended {
		return true
	}
	if !again || b.err != nil || b.expects || !b.chunked && b.left > leftOver {
		b.session.conn.linger.Store(true)
		return false
	}
	b.session.deadline(time.Now().Add(b.session.gate.progress()))
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	for n := 0; n <= leftOver; {
		k, err := b.read(buf[:])
		if n += k; err == io.EOF {
			return true
		}
		if err != nil {
			return false
		}
	}
	b.session.conn.linger.Store(true)
	return false
}
