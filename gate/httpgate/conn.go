package httpgate

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a client's connection as net/http sees it. It reads strictly (framing), inside TLS as well, cuts off a
// client that takes nothing of a response for too long, and is counted until it is closed. A read and a write may go on
// at the same time, two reads may not.
//
// net/http does not know of TLS: the gate has done the handshake (arrive.go), and ServeHTTP tells requests of it.
type conn struct {
	wire
	peer    netip.Addr           // unmapped, without a zone; invalid on a socket of this machine
	trusted bool                 // the peer has no address, and is a proxy all the same
	remote  net.Addr             // as a PROXY header says; nil without one
	tls     *tls.Conn            // nil without TLS
	state   *tls.ConnectionState // of tls, once hands are shaken

	framing framing
	pending []byte   // what framing let through and nobody has read yet
	scanned *scanned // for pending and the line under way; nil while there is neither

	alone  bool        // a session has it: nobody reads ahead while a request is under way
	deaf   atomic.Bool // nothing more is read: the answer is the last one
	linger atomic.Bool // the client may still be sending: a reset must not overtake the answer
	closed sync.Once
}

func newConn(g *Gate, s socket, peer netip.Addr, headerBound int) *conn {
	return &conn{wire: wire{socket: s, gate: g}, peer: peer, framing: newFraming(headerBound)}
}

// Read returns what net/http may see. After an error of the connection, such as a deadline, the next call goes on.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if len(c.pending) > 0 {
			n := copy(p, c.pending)
			c.pending = c.pending[n:]
			c.release()
			return n, nil
		}
		if c.deaf.Load() || c.framing.noPreface() {
			return 0, io.EOF
		}
		switch c.framing.state {
		case raw:
			return c.read(p)
		case broken:
			// net/http has got all that it needs to refuse. Until then it reads ahead to notice that the client leaves.
			// To a request before the broken one, an end of the stream would look as if the client had left.
			if _, err := c.read(p); err != nil {
				return 0, err
			}
			continue
		case tooLarge:
			for i := range p {
				p[i] = 'a'
			}
			return len(p), nil
		}
		if left := c.framing.counting(); left > 0 {
			n, err := c.read(p[:min(int64(len(p)), left)])
			if n > 0 {
				c.framing.counted(n)
			}
			return n, err
		}
		n, err := c.read(p)
		if n == 0 {
			return 0, err
		}
		if c.scanned == nil {
			c.scanned = scans.Get().(*scanned)
			c.framing.line = c.scanned.line[:0]
		}
		c.scanned.out = c.framing.scan(p[:n], c.scanned.out[:0])
		if c.pending = c.scanned.out; c.framing.noPreface() {
			c.pending = nil
		}
		if c.framing.why != "" {
			c.linger.Store(true)
			c.gate.malformed(c)
		}
	}
}

// scanned is the memory that reading a head takes. A connection needs none while its request is under way or waits, so
// that many share a few.
type scanned struct{ line, out []byte }

var scans = sync.Pool{New: func() any { return &scanned{make([]byte, 0, 256), make([]byte, 0, 1024)} }}

// maxScanned is how large the memory may be that is kept.
const maxScanned = 8 << 10

// release gives the memory back when there is nothing in it.
func (c *conn) release() {
	if c.scanned == nil || len(c.pending) > 0 || len(c.framing.line) > 0 {
		return
	}
	c.scanned.line = c.framing.line[:0]
	if cap(c.scanned.line) <= maxScanned && cap(c.scanned.out) <= maxScanned {
		scans.Put(c.scanned)
	}
	c.scanned, c.pending, c.framing.line = nil, nil, nil
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
