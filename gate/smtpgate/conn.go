package smtpgate

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/gate"
	"weir/identify"
)

// A conn is the connection of a client, below TLS. It keeps answers until the next read, so that answers to pipelined
// commands leave together, and it keeps the deadlines. It belongs to the goroutine of its session. Others may call wake
// and cut.
type conn struct {
	net.Conn // TCP
	gate     *Gate
	setup    *setup
	id       string
	source   netip.Addr
	group    netip.Addr
	until    time.Time  // the end of the session
	logIn    time.Time  // its end if no user is known by then
	seat     *gate.Seat // among strangers; nil where the source is known. Guarded by the gate

	known   bool      // a user has logged in, or sent a message without AUTH
	free    bool      // the client may send without AUTH
	dataEnd time.Time // until when the text may come; zero: there is none
	hurried bool      // the rest is ignored, and the client has a moment to end
	seen    bool      // the client has closed its half
	closed  bool
	out     []byte

	mu     sync.Mutex  // held while the deadline is set
	ousted atomic.Bool // another source needs the room
}

const (
	maxOut = 16 << 10
	// hurry is how long a client may be silent whose text is malformed: it is unknown where the text ends.
	hurry = 3 * time.Second
)

func newConn(g *Gate, s *setup, tcp *net.TCPConn, source netip.Addr) *conn {
	now, t := time.Now(), &s.opts.Timeouts
	return &conn{Conn: tcp, gate: g, setup: s, id: gate.NewID(), source: source,
		group: identify.Network(source, 32, 64).Addr(), until: now.Add(t.Session.Std()), logIn: now.Add(t.Login.Std())}
}

// An end is the error of a session that this side ends, with the last answer.
type end struct{ bound, says string }

func (e *end) Error() string { return "the session was ended: " + e.says }

var (
	endStop    = &end{"", "421 4.3.2 the server is going down, try again later"}
	endIdle    = &end{BoundTime, "421 4.4.2 idle for too long"}
	endSession = &end{BoundTime, "421 4.4.2 the session took too long"}
	endLogIn   = &end{BoundTime, "421 4.4.2 nobody logged in for too long, and no mail came"}
	endData    = &end{BoundTime, "421 4.4.2 the mail took too long"}
	endRoom    = &end{"", "421 4.7.0 too many sessions, try again later"}
	endSilent  = &end{}
)

// Read sends the answers, and reads from the client. The error is an *end if this side ends the session.
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
	case c.ousted.Load():
		return endRoom
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

// receive begins to wait for a text, until received is called. Unknown clients have no more time for it than for a
// login.
func (c *conn) receive() {
	c.dataEnd = time.Now().Add(c.setup.opts.Timeouts.Data.Std())
	if !c.known && !c.free && c.logIn.Before(c.dataEnd) {
		c.dataEnd = c.logIn
	}
}

func (c *conn) received() { c.dataEnd = time.Time{} }

// makeRoom ends the session of a stranger within a second. Any goroutine may call it.
func (c *conn) makeRoom() {
	c.gate.env.Observer.Bounded(BoundSessions)
	c.ousted.Store(true)
	c.wake()
	time.AfterFunc(drainTime, c.cut)
}

// wake ends the wait for the client when the gate stops.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// Write keeps an answer until the next read.
func (c *conn) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	if len(c.out) >= maxOut {
		return len(p), c.flush()
	}
	return len(p), nil
}

// flush sends the answers.
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

// How much is read from a client that still sends after its last answer, and for how long. A reset must not overtake
// the answer.
const (
	drainBytes = 256 << 10
	drainTime  = time.Second
)

// Close sends the answers and ends the connection.
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

// cut ends the connection at once. The session gets an error.
func (c *conn) cut() { _ = c.Conn.Close() }

// SetDeadline, SetReadDeadline and SetWriteDeadline do nothing, since conn sets the deadlines itself.
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
