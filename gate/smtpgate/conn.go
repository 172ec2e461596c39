package smtpgate

import (
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
	"weir/gate"
)

// A conn is a client's connection below TLS. It sends answers when the client is next listened to, so that those to
// pipelined commands leave together, and it keeps the deadlines. It belongs to the goroutine of its session; others may
// call wake and cut.
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

	known   bool      // somebody has logged in, or sent a mail as one who may send freely
	free    bool      // the client may send without AUTH
	dataEnd time.Time // a text is coming in, until this time at most; zero: none is
	hurried bool      // nothing more is of interest: the client has a moment to come to an end
	seen    bool      // the client has ended its half
	closed  bool
	out     []byte

	mu sync.Mutex // held while the deadline is set
}

const (
	maxOut = 16 << 10
	// hurry is how long a client may be silent whose mail is broken: nobody knows where it ends.
	hurry = 3 * time.Second
)

func newConn(g *Gate, s *setup, tcp *net.TCPConn, source netip.Addr) *conn {
	now, t := time.Now(), &s.opts.Timeouts
	return &conn{Conn: tcp, gate: g, setup: s, id: gate.NewID(), source: source, group: groupOf(source),
		until: now.Add(t.Session.Std()), logIn: now.Add(t.Login.Std())}
}

// An end is the error with which a session is closed from this side, and what the client is told.
type end struct{ bound, says string }

// Error says what the client is told.
func (e *end) Error() string { return "the session was ended: " + e.says }

var (
	endStop    = &end{"", "421 4.3.2 the server is going down, try again later"}
	endIdle    = &end{BoundTime, "421 4.4.2 nothing came for too long"}
	endSession = &end{BoundTime, "421 4.4.2 the session took too long"}
	endLogIn   = &end{BoundTime, "421 4.4.2 nobody logged in for too long, and no mail came"}
	endData    = &end{BoundTime, "421 4.4.2 the mail took too long"}
	endSilent  = &end{}
)

// Read returns what the client says, after the answers have been sent. The error is an *end where the session is over.
func (c *conn) Read(p []byte) (int, error) {
	if err := c.flush(); err != nil {
		return 0, err
	}
	start := time.Now()
	for {
		if why := c.arm(start); why != nil {
			return 0, why
		}
		n, err := c.Conn.Read(p)
		if n > 0 {
			return n, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.seen = true
			return n, err
		}
	}
}

// arm sets the deadline for what comes next, or returns why the session ends.
func (c *conn) arm(start time.Time) *end {
	t, now := &c.setup.opts.Timeouts, time.Now()
	receiving := !c.dataEnd.IsZero()
	idle, over := start.Add(t.Idle.Std()), c.until
	reason := endSession
	if !c.known && c.logIn.Before(over) {
		over, reason = c.logIn, endLogIn
	}
	if receiving {
		over, reason = c.dataEnd, endData
	}
	if c.hurried {
		idle = start.Add(min(hurry, t.Idle.Std()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.gate.Stopping() && !receiving:
		return endStop
	case !now.Before(over):
		return reason
	case !now.Before(idle) && c.hurried:
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

// receive begins to wait for a text, until received is called. Unknown clients have no more time for it than for
// logging in.
func (c *conn) receive() {
	c.dataEnd = time.Now().Add(c.setup.opts.Timeouts.Data.Std())
	if last := c.patience(); last.Before(c.dataEnd) {
		c.dataEnd = last
	}
}

func (c *conn) received() { c.dataEnd = time.Time{} }

// patience is until when a text may come at the latest.
func (c *conn) patience() time.Time {
	if c.known || c.free {
		return forever
	}
	return c.logIn
}

var forever = time.Unix(0, math.MaxInt64)

// wake makes a session that waits for its client look around: the gate stops.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// Write keeps an answer until the client is listened to.
func (c *conn) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	if len(c.out) >= maxOut {
		return len(p), c.flush()
	}
	return len(p), nil
}

// flush sends what has been answered.
func (c *conn) flush() error {
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

// Bounds on how much is read from a client that sends on after its last answer, and for how long. A reset must not
// overtake the answer.
const (
	drainBytes = 256 << 10
	drainTime  = time.Second
)

// Close sends what has been answered and ends the connection.
func (c *conn) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	failed := c.flush()
	if tcp := c.Conn.(*net.TCPConn); failed == nil && !c.seen && tcp.CloseWrite() == nil {
		_ = c.Conn.SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.CopyN(io.Discard, c.Conn, drainBytes)
	}
	return c.Conn.Close()
}

// cut ends the connection at once. The session finds out by itself.
func (c *conn) cut() { _ = c.Conn.Close() }

// SetDeadline, SetReadDeadline and SetWriteDeadline do nothing: deadlines are kept here.
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
