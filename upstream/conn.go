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
	"time"
)

// A conn is a connection for HTTP/1.1 with one exchange at a time, in the request's goroutine; a sender sends the body.
type conn struct {
	server *server
	nc     net.Conn
	peeks  func() bool // see quiet
	over   bool        // TLS, which does not survive a write that timed out
	since  time.Time   // idle

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
	if over, ok := nc.(*tls.Conn); ok {
		return &conn{server: s, nc: nc, over: true, peeks: tlsPeeker(over)}
	}
	return &conn{server: s, nc: nc, peeks: peeker(nc)}
}

// quiet reports whether an idle connection is still open and has received nothing.
func (c *conn) quiet() bool { return c.peeks == nil || c.peeks() }

func (c *conn) close() { _ = c.nc.Close() }

// exchange sends a request and reads the head of its answer. With an error the connection is closed.
func (c *conn) exchange(p *Pool, r *http.Request, by Caller) (*http.Response, error) {
	c.pool, c.by, c.ctx = p, by, r.Context()
	c.bufs = bufferPool.Get().(*buffers)
	c.in, c.seen, c.patient, c.relaxed, c.sender, c.unhook = c.bufs.in[:0], false, false, false, nil, nil
	res, err := c.ask(r, by)
	if err != nil {
		return nil, c.fail(err)
	}
	return res, nil
}

func (c *conn) ask(r *http.Request, by Caller) (*http.Response, error) {
	response := c.pool.opts.Timeouts.Response.Std()
	now := time.Now()
	c.patient = response <= grace
	_ = c.nc.SetDeadline(now.Add(min(response, grace)))
	if hasBody(r) || c.over {
		_ = c.nc.SetWriteDeadline(now.Add(response))
	}
	out := appendRequest(c.bufs.out[:0], &c.server.to, r)
	if cap(out) <= maxOut {
		c.bufs.out = out
	}
	if err := c.write(out); err != nil {
		return nil, err
	}
	if hasBody(r) {
		c.patient = false // until it has been sent
		c.sender = startSender(c, r)
	}
	if by != nil {
		by.Sent()
	}
	for n := 0; ; n++ {
		h, err := c.readHead()
		if err != nil {
			return nil, err
		}
		switch {
		case h.status == http.StatusSwitchingProtocols:
			return c.switched(r, &h)
		case h.status >= 200:
			return c.answer(r, &h)
		case h.chunked || h.length > 0:
			return nil, malformedError("an informational answer with a body")
		case n == maxEarly:
			return nil, malformedError("too many informational answers")
		case h.status == http.StatusContinue:
			c.server.silent.Store(false)
			c.sender.goOn()
		case by != nil:
			if err := by.Early(h.status, h.header); err != nil {
				return nil, err
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
	if _, ok := errors.AsType[malformedError](err); ok {
		return FailMalformed
	} else if errors.Is(err, errHeadTooLarge) {
		return FailHeader
	}
	return FailBroken
}

// end returns the buffers of an exchange. It reports whether the connection was not closed by the end of its context.
func (c *conn) end() bool {
	whole := c.unhook == nil || c.unhook()
	c.unhook = nil
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
	c.patient = true
	c.hook()
	if response := c.pool.opts.Timeouts.Response.Std(); c.sender != nil {
		c.sender.due(response)
	} else {
		_ = c.nc.SetDeadline(time.Now().Add(response - grace))
	}
}

// relax removes the deadlines. It is called before more of a body is read than what came with the head.
func (c *conn) relax() {
	if !c.relaxed {
		c.patient, c.relaxed = true, true
		c.hook()
		if c.sender != nil { // it may still be sending
			_ = c.nc.SetReadDeadline(time.Time{})
		} else {
			_ = c.nc.SetDeadline(time.Time{})
		}
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

func (c *conn) readHead() (head, error) {
	seen := 0
	for {
		if n := headEnd(c.in, seen); n > 0 {
			if n > maxHead {
				return head{}, errHeadTooLarge
			}
			h, err := parseHead(c.in[:n])
			c.in = c.in[n:]
			return h, err
		}
		if bareLF(c.in, seen) {
			return head{}, malformedError("a line of the head does not end with CRLF") // and its end would never come
		}
		if seen = len(c.in); seen >= maxHead {
			return head{}, errHeadTooLarge
		}
		if seen >= len("HTTP/1.") && string(c.in[:len("HTTP/1.")]) != "HTTP/1." {
			return head{}, malformedError("the answer is not HTTP/1")
		}
		if err := c.fill(); err != nil {
			return head{}, err
		}
	}
}
