package httpgate

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir/gate"
	"weir/internal/http1"
)

// A conn is a client's connection. It reads inside TLS where there is TLS, cuts off a client that takes nothing of a
// response for too long, and is counted until it is closed. A read and a write may go on at the same time, two reads
// may not.
//
// net/http, which serves HTTP/2, does not know of TLS: the gate has done the handshake (arrive.go), and ServeHTTP tells
// requests of it.
type conn struct {
	wire
	peer    netip.Addr           // unmapped, without a zone; invalid on a socket of this machine
	trusted bool                 // the peer has no address, and is a proxy all the same
	remote  net.Addr             // as a PROXY header says; nil without one
	seat    *gate.Seat           // among all connections
	arrives *gate.Seat           // among those whose PROXY header or TLS handshake is under way; nil for others
	tls     *tls.Conn            // nil without TLS
	state   *tls.ConnectionState // of tls, once hands are shaken
	speaks  protocol
	told    atomic.Pointer[origin] // about a request of HTTP/2; see exchange.told

	pending  []byte // what a session has read that belongs to HTTP/2
	prefaced int    // bytes of the preface that have come, where TLS settled on HTTP/2

	alone  bool        // a session has it: nobody reads ahead while a request is under way
	deaf   atomic.Bool // nothing more is read: the answer is the last one
	linger atomic.Bool // the client may still be sending: a reset must not overtake the answer
	closed sync.Once
}

// A protocol is what may be spoken on a connection. TLS may have settled it.
type protocol uint8

const (
	either protocol = iota
	onlyHTTP1
	onlyHTTP2
)

func newConn(g *Gate, s socket, peer netip.Addr) *conn {
	return &conn{wire: wire{socket: s, gate: g}, peer: peer}
}

// Read reads what the client sends. After an error of the connection, such as a deadline, the next call goes on.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.pending) > 0 {
		n := copy(p, c.pending)
		if c.pending = c.pending[n:]; len(c.pending) == 0 {
			c.pending = nil
		}
		return n, nil
	}
	if c.deaf.Load() {
		return 0, io.EOF
	}
	n, err := c.read(p)
	if c.speaks == onlyHTTP2 && c.prefaced < len(preface) && !c.begins(p[:n]) {
		c.gate.malformed(c, errNoPreface)
		c.deaf.Store(true)
		return 0, io.EOF
	}
	return n, err
}

// preface is what a client that settled on HTTP/2 begins with. If it does not, it is not answered: it would misread an
// answer of HTTP/1 (RFC 9113, section 3.4).
const (
	preface      = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	errNoPreface = http1.Mistake("HTTP/1 where HTTP/2 was settled")
)

// begins compares what has come with the preface.
func (c *conn) begins(piece []byte) bool {
	piece = piece[:min(len(piece), len(preface)-c.prefaced)]
	c.prefaced += len(piece)
	return string(piece) == preface[c.prefaced-len(piece):c.prefaced]
}

func (c *conn) read(p []byte) (int, error) {
	if c.tls != nil {
		return c.tls.Read(p)
	}
	return c.wire.Read(p)
}

// Write writes all of p, or what the client takes of it.
func (c *conn) Write(p []byte) (written int, err error) {
	if c.tls != nil {
		return c.tls.Write(p)
	}
	return c.wire.Write(p)
}

// Close closes the connection. A client that may still be sending is first given the chance to read the answer.
func (c *conn) Close() error {
	var err error
	c.closed.Do(func() {
		if c.linger.Load() && !c.gate.Stopping() && c.CloseWrite() == nil {
			go c.drain()
			return
		}
		err = c.shut()
	})
	return err
}

// Bounds on how much is read from a client that sends on after its last answer, and for how long.
const (
	drainBytes = 256 << 10
	drainTime  = time.Second
)

func (c *conn) drain() {
	_ = c.SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, c.socket, drainBytes)
	_ = c.shut()
}

func (c *conn) shut() error {
	c.seat.Leave()
	c.gate.Open.Add(-1)
	if c.state != nil {
		return c.tls.Close()
	}
	return c.wire.Close()
}

// hangUp makes the answer under way the last one. What the client has yet to send is not read.
func (c *conn) hangUp() {
	c.linger.Store(true)
	c.deaf.Store(true)
}

// CloseWrite tells the client that nothing more comes, inside TLS and below.
func (c *conn) CloseWrite() error {
	if c.tls != nil {
		if err := c.tls.CloseWrite(); err != nil {
			return err
		}
	}
	return c.wire.CloseWrite()
}

// RemoteAddr is where the client is, by the word of the proxy in front where there is one.
func (c *conn) RemoteAddr() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.wire.RemoteAddr()
}
