package smtpgate

import (
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a client's connection as go-smtp sees it, below TLS. It sends answers when the client is next listened to, so that those to
// pipelined commands leave together; it keeps the deadlines; and it ends the session where a bound is reached. One goroutine reads; any
// may write.
type conn struct {
	net.Conn // TCP
	gate     *Gate
	setup    *setup
	id       string
	source   netip.Addr
	group    netip.Addr
	until    time.Time // the session's end
	logIn    time.Time // the end of a session in which nobody is known by then
	guest    bool      // of a source that nobody knows; guarded by the gate

	known    atomic.Bool  // somebody has logged in, or sent a mail as one who may send freely
	free     atomic.Bool  // the client may send without AUTH
	in       atomic.Int64 // bytes that came
	hungry   atomic.Int64 // 1 + how many had come when the text of a mail was last waited for; 0: it is not
	dataEnd  atomic.Int64 // a text is coming in, until this time at most (Unix, ns); 0: none is
	hurried  atomic.Bool  // nothing more is of interest: the client has a moment to come to an end
	last     atomic.Bool  // the answer under way is the last one
	errors   atomic.Int64
	logins   atomic.Int64
	overlong atomic.Bool  // a line that go-smtp would take whatever its length
	answers  atomic.Int64 // lines

	// glimpse is called before DATA waits for more, on the same goroutine. nil: there is no DATA.
	glimpse func()

	mu   sync.Mutex
	top  net.Conn // what an answer is written to: this connection, or TLS over it; nil where nobody can say which
	seen bool     // the client has ended its half
	shut sync.Once

	writing sync.Mutex
	out     []byte
	deaf    bool // nothing more is said
}

const (
	maxOut = 16 << 10
	// maxHungry is how much may come while the text of a mail is waited for. go-smtp takes lines of any length between two chunks of BDAT.
	maxHungry = 64 << 10
	// hurry is how long a client may be silent whose mail is broken: nobody knows where it ends.
	hurry = 3 * time.Second
)

func newConn(g *Gate, s *setup, tcp *net.TCPConn, source netip.Addr) *conn {
	now, t := time.Now(), &s.opts.Timeouts
	return &conn{Conn: tcp, gate: g, setup: s, id: newID(), source: source, group: groupOf(source),
		until: now.Add(t.Session.Std()), logIn: now.Add(t.Login.Std())}
}

// whole is what the server is given.
func (c *conn) whole() net.Conn {
	if c.setup.opts.TLS.Mode == TLSImplicit {
		return tls.Server(c, c.setup.tls)
	}
	c.speaks(c)
	return c
}

// speaks tells what the session's answers are written to. nil where that is not known: in the middle of a handshake a word in clear text
// would be out of place.
func (c *conn) speaks(top net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.top = top
}

// An end is why a session is closed, and what the client is told.
type end struct{ bound, says string }

var (
	endStop     = &end{"", "421 4.3.2 the server is going down, try again later"}
	endIdle     = &end{BoundTime, "421 4.4.2 nothing came for too long"}
	endSession  = &end{BoundTime, "421 4.4.2 the session took too long"}
	endLogIn    = &end{BoundTime, "421 4.4.2 nobody logged in for too long, and no mail came"}
	endData     = &end{BoundTime, "421 4.4.2 the mail took too long"}
	endCommands = &end{BoundCommands, "421 4.7.0 too many commands in one session"}
	endLine     = &end{BoundLine, "500 5.5.2 line too long"}
	endSilent   = &end{}
)

// Read returns what the client says, after the answers have been sent.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.flush(); err != nil {
		return 0, err
	}
	if c.glimpse != nil {
		c.glimpse()
	}
	start := time.Now()
	for {
		if why := c.arm(start); why != nil {
			c.farewell(why)
			return 0, io.EOF
		}
		n, err := c.Conn.Read(p)
		if n > 0 {
			c.came(n)
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.mu.Lock()
			c.seen = true
			c.mu.Unlock()
			return n, err
		}
	}
}

// came counts what came in.
func (c *conn) came(n int) {
	in := c.in.Add(int64(n))
	if since := c.hungry.Load(); since > 0 && in-since >= maxHungry {
		c.overlong.Store(true)
	}
}

// arm sets the deadline for what comes next, or returns why the session ends.
func (c *conn) arm(start time.Time) *end {
	t, now := &c.setup.opts.Timeouts, time.Now()
	receiving := c.dataEnd.Load()
	idle, over := start.Add(t.Idle.Std()), c.until
	reason := endSession
	if !c.known.Load() && c.logIn.Before(over) {
		over, reason = c.logIn, endLogIn
	}
	if receiving != 0 {
		over, reason = time.Unix(0, receiving), endData
	}
	if c.hurried.Load() {
		idle = start.Add(min(hurry, t.Idle.Std()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.last.Load() && receiving == 0:
		return endSilent
	case c.overlong.Load():
		return endLine
	case c.answers.Load() > int64(c.setup.opts.Bounds.Commands):
		return endCommands
	case c.gate.stopping() && receiving == 0:
		return endStop
	case !now.Before(over):
		return reason
	case !now.Before(idle) && c.hurried.Load():
		return endSilent
	case !now.Before(idle):
		return endIdle
	}
	if over.Before(idle) {
		idle = over
	}
	_ = c.Conn.SetReadDeadline(idle)
	return nil
}

// patience is until when a text may come at the latest (Unix, ns): those whom nobody knows have no more time for it than for logging in.
func (c *conn) patience() int64 {
	if c.known.Load() || c.free.Load() {
		return math.MaxInt64
	}
	return c.logIn.UnixNano()
}

// wake makes a session that waits for its client look around: the gate stops.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// farewell tells the client why the session ends, on the goroutine that would have read on. What go-smtp has to add is not said.
func (c *conn) farewell(why *end) {
	if why.bound != "" {
		c.gate.env.Observer.Bounded(why.bound)
	}
	c.mu.Lock()
	top := c.top
	c.mu.Unlock()
	c.last.Store(true)
	if why.says == "" || top == nil || c.hurried.Load() {
		return
	}
	_, _ = top.Write([]byte(why.says + "\r\n"))
	c.writing.Lock()
	c.deaf = true
	c.writing.Unlock()
}

// Write keeps an answer until the client is listened to.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.deaf {
		return len(p), nil
	}
	c.answers.Add(1) // go-smtp writes line by line
	c.out = append(c.out, p...)
	if len(c.out) >= maxOut {
		return len(p), c.send()
	}
	return len(p), nil
}

// flush sends what has been answered.
func (c *conn) flush() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.send()
}

// send is flush with c.writing held.
func (c *conn) send() error {
	if len(c.out) == 0 {
		return nil
	}
	_ = c.Conn.SetWriteDeadline(time.Now().Add(c.setup.opts.Timeouts.Idle.Std()))
	_, err := c.Conn.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > maxOut {
		c.out = nil
	}
	return err
}

// Bounds on how much is read from a client that sends on after its last answer, and for how long. A reset must not overtake the answer.
const (
	drainBytes = 256 << 10
	drainTime  = time.Second
)

// Close sends what has been answered and ends the session.
func (c *conn) Close() error {
	var err error
	c.shut.Do(func() {
		defer c.gate.quit(c)
		failed := c.flush()
		c.mu.Lock()
		seen := c.seen
		c.mu.Unlock()
		if tcp := c.Conn.(*net.TCPConn); failed == nil && !seen && tcp.CloseWrite() == nil {
			_ = c.Conn.SetReadDeadline(time.Now().Add(drainTime))
			_, _ = io.CopyN(io.Discard, c.Conn, drainBytes)
		}
		err = c.Conn.Close()
	})
	return err
}

// cut ends the connection at once. The session finds out by itself.
func (c *conn) cut() { _ = c.Conn.Close() }

// SetDeadline, SetReadDeadline and SetWriteDeadline do nothing: deadlines are kept here.
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
