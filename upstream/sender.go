package upstream

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/http1"
)

// A sender sends the body of a request, while the answer may already come.
type sender struct {
	c       *conn
	r       *http.Request
	expects chan struct{} // closed when the server wants the body; nil where it was not asked
	once    sync.Once
	state   atomic.Int32 // of the body
	bodyErr atomic.Pointer[error]
	done    chan struct{}
	whole   bool // all of it was sent; read when done

	mu       sync.Mutex
	answered bool // the deadline for the answer does not matter any more
	finished bool // nothing more is sent
	awaited  bool // the grace is over, and the deadline is the one below
}

// expectTime is how long a server may take to answer Expect: 100-continue. Many never do. A server that did not is not
// asked again, until it does.
const expectTime = 200 * time.Millisecond

func startSender(c *conn, k *Call) *sender {
	s := &sender{c: c, r: k.Request, done: make(chan struct{})}
	if http1.HasWord(k.Fields.Get("Expect"), "100-continue") && !c.server.silent.Load() {
		s.expects = make(chan struct{})
	}
	go s.run(c.nc, c.pool.opts.Timeouts.Response.Std())
	return s
}

// goOn lets the sender go on: the server wants the body, or the request has ended.
func (s *sender) goOn() {
	if s != nil && s.expects != nil {
		s.once.Do(func() { close(s.expects) })
	}
}

// callOff keeps the sender from reading the body. It reports whether nothing was read, so that another try may use it.
func (s *sender) callOff() bool {
	off := s.state.CompareAndSwap(bodyWaits, bodyCalledOff)
	s.goOn()
	return off
}

// answerCame notes that the head of the final answer has come.
func (s *sender) answerCame() {
	s.mu.Lock()
	s.answered = true
	s.mu.Unlock()
}

func (s *sender) run(w io.Writer, patience time.Duration) {
	defer close(s.done)
	defer func() {
		if what := recover(); what != nil { // a panic of the body ends this request only
			_ = s.fail(fmt.Errorf("reading the body panicked: %v", what))
			s.c.close()
		}
	}()
	if s.expects != nil && !s.wanted() || !s.state.CompareAndSwap(bodyWaits, bodyBegun) {
		if s.state.Load() != bodyCalledOff {
			_ = s.r.Body.Close()
		}
		return
	}
	defer s.r.Body.Close()
	err := s.send(w, patience)
	s.whole = err == nil
	if s.bodyErr.Load() != nil {
		s.c.close() // half a request is none
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	if s.awaited {
		s.deadline(patience)
	}
}

// due notes that the grace is over.
func (s *sender) due(patience time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited = true
	s.deadline(patience)
}

// deadline sets the deadline for the answer. It counts from the end of the request. s.mu is held.
func (s *sender) deadline(patience time.Duration) {
	switch {
	case s.answered:
	case s.finished:
		_ = s.c.nc.SetReadDeadline(time.Now().Add(patience))
	default:
		_ = s.c.nc.SetReadDeadline(time.Time{})
	}
}

// wanted waits until the server wants the body, or expectTime has passed. It is false if the answer came first.
func (s *sender) wanted() bool {
	timer := time.NewTimer(s.c.pool.expect)
	defer timer.Stop()
	select {
	case <-s.expects:
	case <-timer.C:
		s.c.server.silent.Store(true)
	case <-s.r.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.answered
}

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

const (
	pieceSize = 32 << 10
	chunkHead = len("8000\r\n") // of the largest piece
)

// send copies the body, in chunks where its length is not known.
func (s *sender) send(w io.Writer, patience time.Duration) error {
	piece := pieces.Get().(*[pieceSize]byte)
	defer pieces.Put(piece)
	left := bodyLength(s.r)
	chunked := left < 0
	renewed := time.Now()
	for {
		buf := piece[chunkHead : pieceSize-2]
		if !chunked {
			buf = piece[:min(int64(pieceSize), left)]
		}
		n, err := s.r.Body.Read(buf)
		if n > 0 {
			out := buf[:n]
			if chunked {
				out = chunk(piece, n)
			} else {
				left -= int64(n)
			}
			if now := time.Now(); now.Sub(renewed) > patience/8 {
				renewed = now
				_ = s.c.nc.SetWriteDeadline(now.Add(patience))
			}
			if _, err := w.Write(out); err != nil {
				return err
			}
		}
		switch {
		case !chunked && left == 0:
			if err == nil {
				s.readEnd(piece[:1])
			}
			return nil
		case err == io.EOF && chunked:
			_, err := w.Write(appendTrailer(piece[:0], s.r.Trailer))
			return err
		case err == io.EOF:
			return s.fail(io.ErrUnexpectedEOF)
		case err != nil:
			return s.fail(err)
		}
	}
}

// readEnd reads the EOF of a body of known length, which some bodies wait for.
func (s *sender) readEnd(p []byte) {
	if n, err := s.r.Body.Read(p); n > 0 || err != nil && err != io.EOF {
		_ = s.fail(io.ErrUnexpectedEOF)
	}
}

func (s *sender) fail(err error) error {
	s.bodyErr.CompareAndSwap(nil, &err)
	return err
}

// chunk writes size and end around the n bytes of a chunk, which begin at chunkHead.
func chunk(piece *[pieceSize]byte, n int) []byte {
	var size [chunkHead]byte
	head := append(strconv.AppendUint(size[:0], uint64(n), 16), "\r\n"...)
	start := chunkHead - len(head)
	copy(piece[start:], head)
	end := chunkHead + n
	piece[end], piece[end+1] = '\r', '\n'
	return piece[start : end+2]
}

// settle waits a moment for the sender of an answered request. It reports whether the connection can be used again.
func (s *sender) settle() bool {
	select {
	case <-s.done:
		return s.whole
	default:
	}
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.whole
	case <-timer.C:
		return false
	}
}

// settleTime is how long the rest of a request may take after its answer has come.
const settleTime = 50 * time.Millisecond
