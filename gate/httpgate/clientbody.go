package httpgate

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"weir/internal/http1"
)

// A clientBody is the body of a request as a session reads it. The upstream's sender may still be reading when the
// request has been answered.
type clientBody struct {
	session *session

	mu      sync.Mutex
	request *http.Request
	chunked bool
	chunks  http1.Chunks
	left    int64 // of a body without chunks
	most    int   // bytes of trailers
	ended   bool
	expects bool // the client waits for 100 Continue
	err     error

	reading atomic.Bool
}

// beginBody makes ready for the body of a request.
func (s *session) beginBody(r *http.Request, h *http1.Head) {
	s.body = &clientBody{session: s, request: r, chunked: h.Chunked, left: max(h.Length, 0),
		most:    int(s.gate.Setup.Load().opts.Bounds.Header),
		expects: h.Minor == 1 && httpguts.HeaderValuesContainsToken(h.Fields.Values("Expect"), "100-continue")}
	r.Body = s.body
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
	s, left := b.session, &b.left
	if b.chunked {
		if left = &b.chunks.Left; *left == 0 {
			if err := b.nextChunk(); err != nil {
				return 0, err
			}
		}
	}
	p = p[:min(int64(len(p)), *left)]
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
	if *left -= int64(n); *left == 0 && !b.chunked {
		return n, io.EOF
	}
	return n, nil
}

// nextChunk reads up to the next chunk. After the last one it reads the trailers and returns io.EOF.
func (b *clientBody) nextChunk() error {
	s := b.session
	for {
		n, more, done, err := b.chunks.Next(s.in, http1.Bounds{Bytes: b.most, Fields: maxFields}, b.trailer)
		s.in = s.in[n:]
		switch {
		case err != nil:
			s.gate.malformed(s.conn, err)
			return errBrokenChunk
		case done:
			return io.EOF
		case !more:
			return nil
		}
		if err := s.read(); err != nil {
			return err
		}
	}
}

func (b *clientBody) trailer(name, value string) error {
	if b.request.Trailer == nil {
		b.request.Trailer = http.Header{}
	}
	b.request.Trailer.Add(name, value)
	return nil
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
