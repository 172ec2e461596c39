package nexthop

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/shown"
)

const (
	// outBuffer is how much is written at once. Most messages fit.
	outBuffer = 32 << 10
	// window is how much of an envelope is sent before its answers are read. The buffers of both sockets hold that
	// much, so that neither side waits for the other (RFC 2920 section 3.1).
	window = 16 << 10
	// grace is how long a delivery that is told to stop waits for the answer to the final dot.
	grace = 5 * time.Second
	// lastWords is how long a server has to say why it takes no more text, or to answer QUIT.
	lastWords = 2 * time.Second
)

// A conn is a connection to a server, greeted and logged in. It is for one goroutine at a time.
type conn struct {
	net.Conn
	server *server
	in     *bufio.Reader
	out    *bufio.Writer
	limits *Timeouts
	ext    extensions
	secure bool // encrypted, or on this machine

	mails     int  // transactions so far
	dirty     bool // a transaction is open: RSET first
	broken    bool // nothing more may be sent
	idleSince time.Time

	replyText []byte // reused
	accepted  []int  // reused
	copyBuf   []byte // reused

	mu      sync.Mutex
	stopped time.Time // when the delivery was told to stop
	dotted  bool      // the final dot has been, or is being, sent
}

func newConn(nc net.Conn, s *server, limits *Timeouts) *conn {
	c := &conn{server: s, limits: limits, secure: s.local}
	c.wrap(nc)
	return c
}

func (c *conn) wrap(nc net.Conn) {
	c.Conn = nc
	c.in = bufio.NewReaderSize(nc, maxReplyLine)
	c.out = bufio.NewWriterSize(deadlined{c}, outBuffer)
}

// deadlined gives each write the time that a command has.
type deadlined struct{ c *conn }

func (d deadlined) Write(p []byte) (int, error) {
	d.c.within(d.c.limits.Command.Std())
	return d.c.Conn.Write(p)
}

func (c *conn) within(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(d)
	if last := c.last(); !last.IsZero() && last.Before(at) {
		at = last
	}
	c.SetDeadline(at)
}

// last is when a delivery that was told to stop ends.
func (c *conn) last() time.Time {
	if c.dotted && !c.stopped.IsZero() {
		return c.stopped.Add(grace)
	}
	return c.stopped
}

// watch stops a delivery when its context ends. The function that it returns ends the watch.
func (c *conn) watch(ctx context.Context) (end func()) {
	c.mu.Lock()
	c.stopped, c.dotted = time.Time{}, false
	c.mu.Unlock()
	unhook := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopped = time.Now()
		c.SetDeadline(c.last())
	})
	return func() {
		if !unhook() {
			c.broken = true // its deadline is over
		}
	}
}

func (c *conn) dot() {
	c.mu.Lock()
	c.dotted = true
	c.mu.Unlock()
}

func (c *conn) read(d time.Duration, each func(line []byte)) (reply, error) {
	c.within(d)
	r, err := readReply(c.in, c.replyText, each)
	c.replyText = r.text
	return r, err
}

// say writes texts without a flush. bufio keeps an error for Flush.
func (c *conn) say(texts ...string) {
	for _, text := range texts {
		c.out.WriteString(text)
	}
}

func (c *conn) ask(each func(line []byte), words ...string) (reply, error) {
	c.say(words...)
	c.say("\r\n")
	if err := c.out.Flush(); err != nil {
		return reply{}, err
	}
	return c.read(c.limits.Command.Std(), each)
}

func (c *conn) quit() {
	defer c.Close()
	if c.broken {
		return
	}
	c.SetDeadline(time.Now().Add(lastWords))
	if _, err := c.Write([]byte("QUIT\r\n")); err == nil {
		readReply(c.in, c.replyText, nil)
	}
}

// A trouble is why a server could not be used. Nothing has happened to the message: another server may be tried.
type trouble struct {
	Result
	early bool // the server has not answered any command of this message
	busy  bool // the server is there, but wants no further connection
}

// trouble is one of our own, not a reply.
func (s *server) trouble(status, text string) *trouble {
	text = shown.Plain(text, maxReplyText)
	return &trouble{Result: Result{Outcome: Later, Status: status, Text: text, Server: s.address}}
}

// lost is for a connection that has ended, or cannot be used any more.
func (c *conn) lost(doing string, err error) *trouble {
	c.broken = true
	status := statusConnection
	if errors.Is(err, errReply) {
		status = statusProtocol
	}
	return c.server.trouble(status, doing+": "+plainly(err))
}

// declined is for a server that does not want the connection. The message is not at fault, so a 5xx is no failure.
func (c *conn) declined(what string, r reply) *trouble {
	c.broken = true
	res := r.result(c.server.address)
	res.Outcome, res.Text = Later, shown.Plain(what+": "+res.Text, maxReplyText)
	if !strings.HasPrefix(res.Status, "4.") {
		res.Status = "4" + res.Status[1:]
	}
	return &trouble{Result: res}
}

func (c *conn) insecure(what string) *trouble {
	c.broken = true
	return c.server.trouble(statusSecurity, what)
}

// plainly says in short what went wrong with a connection.
func plainly(err error) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the server hung up in the middle of a line"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return "the server hung up"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "the server took too long"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if call, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return call.Err.Error()
		}
		return op.Err.Error()
	}
	return err.Error()
}
