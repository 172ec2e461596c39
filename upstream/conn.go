package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"weir/internal/http1"
)

// A conn is a connection for HTTP/1.1 with one exchange at a time, in the request's goroutine; a sender sends the body.
type conn struct {
	server *server
	nc     net.Conn
	peeks  func() bool     // see quiet
	over   bool            // TLS, which does not survive a write that timed out
	raw    syscall.RawConn // what the system can move bytes from; nil where it cannot, as inside TLS
	since  time.Time       // idle
	watched

	// Of the exchange under way.
	pool    *Pool
	by      Caller
	ctx     context.Context
	unhook  func() bool // keeps the end of ctx from closing the connection; nil if ctx is not watched
	sender  *sender     // nil without a body
	bufs    *buffers
	in      []byte // read, but not used yet; a part of bufs
	seen    bool   // a part of an answer came
	patient bool   // the deadline is the one of the options, or none
	relaxed bool   // there is no deadline any more
	timed   bool   // a deadline has been set, and must be removed
}

// buffers are for reading and writing heads. An idle connection has none.
type buffers struct {
	in  []byte
	out []byte
}

const (
	bufferIn  = 16 << 10
	bufferOut = 2 << 10
	maxOut    = 64 << 10 // of what is kept
)

var bufferPool = sync.Pool{New: func() any {
	return &buffers{in: make([]byte, bufferIn), out: make([]byte, 0, bufferOut)}
}}

// grace is how long the client is not watched while an answer is awaited. Most answers come sooner.
const grace = 20 * time.Millisecond

func newConn(s *server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc}
	if tcp, ok := nc.(*net.TCPConn); ok {
		c.raw, _ = tcp.SyscallConn()
	}
	if over, ok := nc.(*tls.Conn); ok {
		c.over, c.peeks = true, tlsPeeker(over)
	} else {
		c.peeks = peeker(nc)
	}
	s.watch.add(c)
	return c
}

// quiet reports whether an idle connection is still open and has received nothing.
func (c *conn) quiet() bool { return c.peeks == nil || c.peeks() }

func (c *conn) close() {
	c.server.watch.remove(c)
	_ = c.nc.Close()
}

// exchange makes a call, up to the head of its answer. With an error the connection is closed.
func (c *conn) exchange(p *Pool, k *Call, by Caller, now time.Time) error {
	c.pool, c.by, c.ctx = p, by, k.Request.Context()
	c.bufs = bufferPool.Get().(*buffers)
	c.in, c.seen, c.patient, c.relaxed, c.sender, c.unhook = c.bufs.in[:0], false, false, false, nil, nil
	if err := c.ask(k, by, now); err != nil {
		return c.fail(err)
	}
	return nil
}

func (c *conn) ask(k *Call, by Caller, now time.Time) error {
	r, response := k.Request, c.pool.opts.Timeouts.Response.Std()
	if response <= 2*grace { // the watch is not so fine
		c.patient, c.timed = true, true
		_ = c.nc.SetDeadline(now.Add(response))
	} else {
		c.begin(now, c.over || hasBody(r))
	}
	if hasBody(r) || c.over {
		c.timed = true
		_ = c.nc.SetWriteDeadline(now.Add(response))
	}
	c.server.watch.start()
	out := appendRequest(c.bufs.out[:0], &c.server.to, k)
	if cap(out) <= maxOut {
		c.bufs.out = out
	}
	if err := c.write(out); err != nil {
		return err
	}
	if hasBody(r) {
		c.patient = false // until it has been sent
		c.sender = startSender(c, k)
	}
	if by != nil {
		by.Sent()
	}
	for n := 0; ; n++ {
		if err := c.readHead(&k.Answer); err != nil {
			return err
		}
		switch a := &k.Answer; {
		case a.Status == http.StatusSwitchingProtocols:
			return c.switched(k)
		case a.Status >= 200:
			c.answered(k)
			return nil
		case a.Chunked || a.Length > 0:
			return http1.Mistake("an informational answer with a body")
		case n == maxEarly:
			return http1.Mistake("too many informational answers")
		case a.Status == http.StatusContinue:
			c.server.silent.Store(false)
			c.sender.goOn()
		case by != nil:
			if err := by.Early(a.Status, &a.Fields); err != nil {
				return err
			}
		}
	}
}

func (c *conn) fail(err error) error {
	server, seen, sender := c.server.to.name, c.seen, c.sender
	c.end()
	c.close()
	failure := &Error{Server: server, Why: reason(err), Reached: true, Err: err, seen: seen}
	if sender != nil {
		failure.consumed = !sender.callOff()
		if bodyErr := sender.bodyErr.Load(); bodyErr != nil {
			return *bodyErr
		}
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if failure.Timeout() {
		failure.Why = FailTimeout
	}
	return failure
}

// reason is the Fail name of an error while an answer is read.
func reason(err error) string {
	if _, ok := errors.AsType[http1.Mistake](err); ok {
		return FailMalformed
	} else if errors.Is(err, errHeadTooLarge) || errors.Is(err, http1.ErrTrailers) {
		return FailHeader
	}
	return FailBroken
}

// end returns the buffers of an exchange. It reports whether the connection was not closed by the end of its context.
func (c *conn) end() bool {
	whole := c.unhook == nil || c.unhook()
	c.unhook = nil
	if c.rest() || c.timed {
		c.timed = false
		_ = c.nc.SetDeadline(time.Time{})
	}
	if c.bufs != nil {
		c.bufs.out = c.bufs.out[:0]
		if len(c.bufs.in) == bufferIn {
			bufferPool.Put(c.bufs)
		}
		c.bufs, c.in = nil, nil
	}
	return whole
}

// hook closes the connection when the request's context ends.
func (c *conn) hook() {
	if c.unhook == nil {
		if c.by != nil {
			c.ctx = c.by.Waits()
		}
		c.unhook = context.AfterFunc(c.ctx, c.close)
	}
}

// wait is called when the grace is over. From now on the client is watched, and the deadline is that of the options.
func (c *conn) wait() {
	c.rest()
	c.patient, c.timed = true, true
	c.hook()
	if response := c.pool.opts.Timeouts.Response.Std(); c.sender != nil {
		c.sender.due(response)
	} else {
		_ = c.nc.SetDeadline(time.Now().Add(response - grace))
	}
}

// relax removes the deadlines. It is called before more of a body is read than what came with the head.
func (c *conn) relax() {
	if c.relaxed {
		return
	}
	nudged := c.rest()
	c.patient, c.relaxed = true, true
	c.hook()
	switch {
	case !nudged && !c.timed:
	case c.sender != nil: // it may still be sending
		_ = c.nc.SetReadDeadline(time.Time{})
	default:
		_ = c.nc.SetDeadline(time.Time{})
	}
}

func (c *conn) write(b []byte) error {
	for {
		n, err := c.nc.Write(b)
		b = b[n:]
		if err == nil || c.patient || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		c.wait()
	}
}

// fill reads more into the buffer. At the end of the connection it returns io.ErrUnexpectedEOF.
func (c *conn) fill() error {
	buf := c.bufs.in
	if len(c.in) == 0 {
		c.in = buf[:0]
	}
	if cap(c.in) == len(c.in) { // at the end of the buffer
		if n := copy(buf, c.in); n < len(buf) {
			c.in = buf[:n]
		} else {
			larger := make([]byte, 2*len(buf))
			copy(larger, c.in)
			c.bufs.in, c.in = larger, larger[:n]
		}
	}
	for {
		n, err := c.nc.Read(c.in[len(c.in):cap(c.in)])
		if n > 0 {
			c.in = c.in[:len(c.in)+n]
			c.seen = true
			return nil
		}
		switch {
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case err == nil || c.patient || !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		c.wait()
	}
}

func (c *conn) readHead(h *http1.Head) error {
	h.Begin(http1.Answer)
	for {
		n, err := h.Read(c.in, http1.Bounds{Bytes: maxHead, Fields: maxFields})
		switch {
		case err == http1.ErrTooLarge:
			return errHeadTooLarge
		case err != nil:
			return err
		case n > 0:
			c.in = c.in[n:]
			return nil
		}
		if seen := len(c.in); seen >= len("HTTP/1.") && string(c.in[:len("HTTP/1.")]) != "HTTP/1." {
			return http1.Mistake("the answer is not HTTP/1")
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}
