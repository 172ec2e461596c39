package nexthop

import (
	"bufio"
	"context"
	"net"
	"sync"
	"time"
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
