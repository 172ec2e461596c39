package httpgate

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// A clientBody is the body of a request as a session reads it. The upstream's sender may still be reading when the
// request has been answered.
type clientBody struct {
	session *session

	mu       sync.Mutex
	request  *http.Request
	chunked  bool
	inChunks bool
	left     int64 // of the body, or of the chunk
	ended    bool
	expects  bool // the client waits for 100 Continue
	err      error

	reading atomic.Bool
}

// beginBody makes ready for the body of a request.
func (s *session) beginBody(r *http.Request, chunked bool) {
	s.body, r.Body = nil, http.NoBody
	if chunked || r.ContentLength > 0 {
		s.body = &clientBody{session: s, request: r, chunked: chunked, left: max(r.ContentLength, 0),
			expects: r.ProtoMinor == 1 && httpguts.HeaderValuesContainsToken(r.Header["Expect"], "100-continue")}
		r.Body = s.body
	}
}

// Close does nothing: the session calls leave.
func (b *clientBody) Close() error { return nil }

func (b *clientBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.err != nil:
		return 0, b.err
	case b.ended:
		return 0, io.EOF
	case len(p) == 0:
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

// line returns the next line between the chunks. The framing has checked its bounds.
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

// nextChunk reads the end of a chunk and the size of the next one. After the last chunk it reads the trailers and
// returns io.EOF.
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

var errBrokenChunk = errors.New("a chunk of the request's body is malformed")

// leftOver is how much of an unread body is read to keep the connection, as in net/http.
const leftOver = 256 << 10

// leave ends the body of a request that has been answered. It reports whether the next request can be read. For that it
// reads the rest of a small body, unless the answer was the last one anyway.
func (b *clientBody) leave(again bool) bool {
	if b.reading.Load() || !b.mu.TryLock() {
		return false // the connection is closed, which ends that read too
	}
	defer b.mu.Unlock()
	failed := b.err != nil
	b.err = http.ErrBodyReadAfterClose
	if b.ended {
		return true
	}
	s := b.session
	if !again || failed || b.expects || !b.chunked && b.left > leftOver {
		s.conn.linger.Store(true)
		return false
	}
	s.deadline(time.Now().Add(s.gate.progress()))
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
	s.conn.linger.Store(true)
	return false
}
