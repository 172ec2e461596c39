package httpgate

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/http1"
)

// A session is one client's connection on which HTTP/1 is spoken. One goroutine reads the requests, takes each through
// the gate and writes the answer. It does not read ahead: whether the client has left is watched only where an answer
// takes its time (exchange.Waits). HTTP/2 is left to net/http.
type session struct {
	gate   *Gate
	conn   *conn
	remote string
	host   string // that of the last request
	told   origin // the same
	state  atomic.Int32
	fresh  atomic.Bool // no request has come yet

	in      []byte // what has been read and not been used
	block   *block // where that is; nil while there is nothing
	fresher freshReader
	due     time.Time // the deadline for reading; zero when it has to be set anew

	// A request without a body is over when it has been answered. The next one uses the same memory.
	head    *http1.Head
	fields  *http1.Fields // of the request under way
	request http.Request
	url     url.URL
	plain   bool // the target goes on as it came

	body  *clientBody // of the request under way; nil where it has none
	reply reply
}

// What a session does.
const (
	sessionIdle    = int32(iota) // it waits for a request
	sessionBusy                  // a request has begun
	sessionClosing               // the gate stops
)

// A block is memory that a session uses while it reads or writes, and gives back when it waits.
type block [4 << 10]byte

var blocks = sync.Pool{New: func() any { return new(block) }}

// take serves HTTP/1 in a session, and gives HTTP/2 to net/http.
func (g *Gate) take(c *conn) {
	if c.speaks == onlyHTTP2 {
		g.handStreams(c)
	} else {
		g.speak(c)
	}
}

// speak serves a connection, in a goroutine of its own.
func (g *Gate) speak(c *conn) {
	s := &session{gate: g, conn: c, remote: c.RemoteAddr().String(), head: new(http1.Head)}
	s.request = *new(http.Request).WithContext(withConn(g.Base, c))
	c.alone = true
	s.fresher.begin(c)
	s.reply.session = s
	s.fresh.Store(true)
	g.sessions.Store(s, nil)
	g.speaking.Go(func() {
		defer g.sessions.Delete(s)
		if s.run() {
			_ = c.Close()
		}
	})
}

// firstRequest is how long a stop waits for the first request of a connection. It was accepted here, so that no other
// weir will answer it, and the request may be on its way.
const firstRequest = time.Second

// drain closes sessions that wait for a further request, and waits until the others have answered theirs, or ctx ends.
func (g *Gate) drain(ctx context.Context) error {
	g.draining.Store(true)
	late := time.AfterFunc(g.patience, g.endArrivals)
	defer late.Stop()
	defer context.AfterFunc(ctx, g.endArrivals)()
	g.arrivals.Wait()
	g.closeIdle(false)
	over := make(chan struct{})
	go func() {
		g.speaking.Wait()
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
	}
	g.closeIdle(true)
	select { // idle ones end at once, even if ctx has ended
	case <-over:
		return nil
	case <-time.After(idleEnds):
		return ctx.Err()
	}
}

// closeIdle closes sessions that wait for a request. Those that wait for their first one have a moment more, unless all
// are meant.
func (g *Gate) closeIdle(all bool) {
	for one := range g.sessions.Range {
		s := one.(*session)
		if !all && s.fresh.Load() {
			_ = s.conn.SetReadDeadline(time.Now().Add(g.patience))
		} else if s.state.CompareAndSwap(sessionIdle, sessionClosing) {
			_ = s.conn.SetReadDeadline(past)
		}
	}
}

// idleEnds is how long idle connections may take to notice that it is over.
const idleEnds = 100 * time.Millisecond

// past ends a read that is under way.
var past = time.Unix(1, 0)

// run serves one request after the other. It reports whether the connection is to be closed; if not, somebody else has
// it now.
func (s *session) run() (ours bool) {
	defer s.gate.Recover("a connection ended in a panic", func() { ours = true }, slog.String("peer", s.remote))
	for {
		n, err := s.readHead()
		if err == http1.ErrPreface {
			s.conn.pending = bytes.Clone(s.in)
			s.in = nil
			s.release()
			_ = s.conn.SetReadDeadline(time.Time{})
			s.conn.alone = false
			s.gate.handStreams(s.conn)
			return false
		}
		if n == 0 || err != nil {
			s.misread(err)
			s.in = nil
			s.release()
			return true
		}
		s.fresh.Store(false)
		r, mistake := s.parse()
		if mistake != nil {
			s.misread(mistake)
			return true
		}
		s.in = s.in[n:]
		s.release()
		if !s.answer(r) {
			return !s.reply.hijacked
		}
		if s.gate.Stopping() || !s.state.CompareAndSwap(sessionBusy, sessionIdle) {
			return true
		}
	}
}

// read reads more of what the client sends. A head larger than a block is bounded by its reader.
func (s *session) read() error {
	if s.block == nil && s.fresher.raw != nil && len(s.conn.ahead) == 0 && !s.conn.deaf.Load() {
		b, n, err := s.fresher.read()
		if err != nil {
			return err
		}
		s.block, s.in = b, b[:n]
		return nil
	}
	if s.block == nil {
		s.block = blocks.Get().(*block)
		s.in = s.block[:0]
	}
	if len(s.in) == cap(s.in) {
		if n := copy(s.block[:], s.in); n < len(s.block) && cap(s.in) <= len(s.block) {
			s.in = s.block[:n]
		} else {
			s.in = slices.Grow(s.in, len(s.in)+len(s.block))
		}
	}
	n, err := s.conn.Read(s.in[len(s.in):cap(s.in)])
	s.in = s.in[:len(s.in)+n]
	if n > 0 {
		return nil
	}
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// release gives the block back when there is nothing in it: a request that waits, or a body that has been read, needs
// none.
func (s *session) release() {
	if s.block != nil && len(s.in) == 0 {
		blocks.Put(s.block)
		s.block, s.in = nil, nil
	}
}

// readHead reads until there is a head, and returns its length. It is 0 when the connection has ended, or with an error
// of what came.
func (s *session) readHead() (int, error) {
	setup := s.gate.Setup.Load()
	o, most := &setup.opts.Timeouts, http1.Bounds{Bytes: int(setup.opts.Bounds.Header), Fields: maxFields}
	waits, timed := false, false
	s.head.Begin(http1.Request)
	for {
		n, err := s.head.Read(s.in, most)
		begun := n > 0 || s.head.Begun()
		if begun && !s.state.CompareAndSwap(sessionIdle, sessionBusy) && s.state.Load() != sessionBusy {
			return 0, nil // the gate has just stopped
		}
		if err == http1.ErrPreface && (!s.fresh.Load() || s.conn.speaks == onlyHTTP1) {
			err = http1.Mistake("malformed HTTP version")
		}
		if n > 0 || err != nil {
			return n, err
		}
		switch now, idle := time.Now(), o.Idle.Std(); {
		case begun && !timed:
			timed = true
			s.deadline(now.Add(o.Header.Std()))
		case !begun && !waits && s.due.Sub(now) < idle: // empty lines make the wait no longer
			s.deadline(now.Add(idle + idle/8)) // an eighth more, so that it is not set for every request
		}
		waits = true
		switch { // drain may have set its deadline before this one
		case s.state.Load() == sessionClosing:
			return 0, nil
		case s.gate.draining.Load() && !begun:
			s.deadline(time.Now().Add(s.gate.patience))
		}
		if s.read() != nil {
			return 0, nil
		}
	}
}

// maxFields is how many header fields, or trailers, a request may have.
const maxFields = 1000

func (s *session) deadline(t time.Time) {
	s.due = t
	_ = s.conn.SetReadDeadline(t)
}

// misread answers bytes that are not a request. It is the last answer. There is none where nothing came.
func (s *session) misread(why error) {
	if why == nil {
		return
	}
	status := http.StatusBadRequest
	if why == http1.ErrTooLarge {
		status = http.StatusRequestHeaderFieldsTooLarge
	}
	s.gate.malformed(s.conn, why)
	line := strconv.Itoa(status) + " " + http.StatusText(status)
	_, _ = io.WriteString(s.conn, "HTTP/1.1 "+line+
		"\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+line)
}

// answer takes a request through the gate and reports whether the connection can be used on.
func (s *session) answer(r *http.Request) (again bool) {
	w := &s.reply
	w.begin(r, s.fields)
	if !s.handle(w, r) {
		w.abandon()
		return false
	}
	if w.hijacked {
		return false
	}
	again = w.finish() == nil && !w.close
	again = (s.body == nil || s.body.leave(again)) && again
	w.end()
	return again && !s.conn.deaf.Load()
}

// handle runs the handler and reports whether it came to its end.
func (s *session) handle(w *reply, r *http.Request) (whole bool) {
	defer func() {
		if what := recover(); what != nil && what != http.ErrAbortHandler {
			s.gate.Panicked("a request ended in a panic", what, slog.String("peer", s.remote))
		}
	}()
	s.gate.ServeHTTP(w, r)
	return true
}
