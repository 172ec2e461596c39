package httpgate

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir/identify"
)

// A conn is a client's connection as net/http sees it. It reads strictly (framing), cuts off a client that takes nothing of a
// response for too long, and gives its place back when it is closed. Reads and writes may go on at the same time, as net/http
// does; two reads may not.
type conn struct {
	tcp  *net.TCPConn
	gate *Gate
	peer netip.Addr // unmapped, without a zone

	framing framing
	pending []byte   // what framing let through and nobody has read yet
	room    *scanned // for pending and the line under way; nil while there is neither

	deaf   atomic.Bool // nothing more is read: the answer is the last one
	linger atomic.Bool // the client may still be sending: a reset must not overtake the answer
	closed sync.Once
}

func newConn(g *Gate, tcp *net.TCPConn, headerBound int) *conn {
	return &conn{tcp: tcp, gate: g, peer: peerOf(tcp), framing: newFraming(headerBound)}
}

// peerOf is the address at the other end.
func peerOf(tcp *net.TCPConn) netip.Addr {
	if addr, ok := tcp.RemoteAddr().(*net.TCPAddr); ok {
		return identify.Plain(addr.AddrPort().Addr())
	}
	return netip.Addr{}
}

// Read returns what net/http may see. An error of the connection, such as a deadline, spoils nothing: the next call goes on.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if len(c.pending) > 0 {
			n := copy(p, c.pending)
			c.pending = c.pending[n:]
			c.giveRoomBack()
			return n, nil
		}
		if c.deaf.Load() {
			return 0, io.EOF
		}
		switch c.framing.state {
		case raw:
			return c.tcp.Read(p)
		case broken:
			// net/http has got all that it needs to refuse. Until it comes to that, it reads ahead to notice that the client
			// leaves; an end of the stream would look like that to a request before the broken one.
			if _, err := c.tcp.Read(p); err != nil {
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
			n, err := c.tcp.Read(p[:min(int64(len(p)), left)])
			if n > 0 {
				c.framing.counted(n)
			}
			return n, err
		}
		n, err := c.tcp.Read(p)
		if n == 0 {
			return 0, err
		}
		c.takeRoom()
		c.room.out = c.framing.scan(p[:n], c.room.out[:0])
		c.pending = c.room.out
		if c.framing.why != "" {
			c.linger.Store(true)
			c.gate.malformed(c)
		}
	}
}

// scanned is the room that reading a head takes. A connection needs none while its request is under way or waits, so that many
// share a few.
type scanned struct{ line, out []byte }

var scannedRooms = sync.Pool{New: func() any { return &scanned{make([]byte, 0, 256), make([]byte, 0, 1024)} }}

// maxScanned is how large a room may be that is kept.
const maxScanned = 8 << 10

func (c *conn) takeRoom() {
	if c.room == nil {
		c.room = scannedRooms.Get().(*scanned)
		c.framing.line = c.room.line[:0]
	}
}

func (c *conn) giveRoomBack() {
	if c.room == nil || len(c.pending) > 0 || len(c.framing.line) > 0 {
		return
	}
	c.room.line = c.framing.line[:0]
	if cap(c.room.line) <= maxScanned && cap(c.room.out) <= maxScanned {
		scannedRooms.Put(c.room)
	}
	c.room, c.pending, c.framing.line = nil, nil, nil
}

// Write writes all of p. A client that takes none of it within the progress timeout is cut off; one that is merely slow is not.
func (c *conn) Write(p []byte) (written int, err error) {
	for {
		_ = c.tcp.SetWriteDeadline(time.Now().Add(c.gate.progress()))
		n, err := c.tcp.Write(p[written:])
		written += n
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		return written, err
	}
}

// Close closes the connection. When the client may still be sending, it is first given the chance to read the answer.
func (c *conn) Close() error {
	var err error
	c.closed.Do(func() {
		if c.linger.Load() && !c.gate.stopping() && c.tcp.CloseWrite() == nil {
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
	_ = c.tcp.SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, c.tcp, drainBytes)
	_ = c.shut()
}

func (c *conn) shut() error {
	c.gate.open.Add(-1)
	return c.tcp.Close()
}

// hangUp makes the answer under way the last one: what the client has yet to send is not waited for.
func (c *conn) hangUp() {
	c.linger.Store(true)
	c.deaf.Store(true)
}

// unframed lets everything through from here on. No read may be under way.
func (c *conn) unframed() { c.framing.state = raw }

// CloseWrite is how net/http says that no more will be written.
func (c *conn) CloseWrite() error { return c.tcp.CloseWrite() }

func (c *conn) LocalAddr() net.Addr                { return c.tcp.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr               { return c.tcp.RemoteAddr() }
func (c *conn) SetDeadline(t time.Time) error      { return c.tcp.SetDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.tcp.SetReadDeadline(t) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.tcp.SetWriteDeadline(t) }

// SyscallConn gives access to the socket below, for the hang-up watch.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.tcp.SyscallConn() }
