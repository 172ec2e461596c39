package httpgate

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// A streamConn is a client's connection on which net/http serves HTTP/2. It gathers what net/http writes: each answer
// comes in two pieces, and each of them would be a record of TLS, a call of the system, and the same again for the
// client. A goroutine that lasts until everything is sent writes what has gathered while others were running.
//
// Pieces are sent in the order in which they came. A client that takes nothing is cut off by the wire, as always; no
// more than gathered bytes, and one piece, wait for it.
//
// It also reads ahead where there is no TLS, which does so itself: net/http asks for the head of a frame, and then for
// the rest.
type streamConn struct {
	*conn
	fresher freshReader
	ahead   []byte // what has been read and not been asked for; in room
	room    *block // nil while there is nothing

	mu      sync.Mutex // of everything below, which is about writing
	out     []byte     // what is to be sent; in block
	block   *block     // nil while there is nothing
	woken   bool       // there is a goroutine that sends what is gathered
	sending bool       // somebody sends what was gathered before, or a large piece
	sent    sync.Cond  // of mu: nobody does any more
	err     error      // nothing more is sent
	closing bool       // the last one who sends closes the connection
}

// gathered is how many bytes are gathered at most.
const gathered = len(block{})

// handStreams gives a connection to net/http, which serves HTTP/2.
func (g *Gate) handStreams(c *conn) {
	g.Hand(newStreamConn(c))
}

func newStreamConn(c *conn) *streamConn {
	s := &streamConn{conn: c}
	s.sent.L = &s.mu
	s.fresher.begin(c)
	return s
}

// Read reads what the client sends. A connection that waits has no buffer.
func (c *streamConn) Read(p []byte) (int, error) {
	if len(c.ahead) == 0 {
		if c.fresher.raw == nil || len(p) >= len(block{}) || len(c.pending)+len(c.wire.ahead) > 0 || c.deaf.Load() {
			return c.conn.Read(p)
		}
		b, n, err := c.fresher.read()
		if err != nil {
			return 0, err
		}
		c.room, c.ahead = b, b[:n]
	}
	n := copy(p, c.ahead)
	if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
		blocks.Put(c.room)
		c.room, c.ahead = nil, nil
	}
	return n, nil
}

// Write takes all of p. If it cannot be sent, a later call says so, and the connection is closed.
func (c *streamConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && !c.closing && len(c.out)+len(p) > gathered {
		switch {
		case c.sending:
			c.sent.Wait()
		case len(c.out) > 0: // the goroutine has not begun, and is not waited for
			c.flush()
		default:
			return c.send(p)
		}
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case c.closing:
		return 0, net.ErrClosed
	}
	if c.block == nil {
		c.block = blocks.Get().(*block)
		c.out = c.block[:0]
	}
	c.out = append(c.out, p...)
	if !c.woken {
		c.woken = true
		go c.sendGathered()
	}
	return len(p), nil
}

// sendGathered sends what is gathered, in a goroutine of its own. The other goroutines that can run do so first: they
// may have something for this client.
func (c *streamConn) sendGathered() {
	runtime.Gosched()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && len(c.out) > 0 {
		if c.sending {
			c.sent.Wait()
		} else {
			c.flush()
		}
	}
	c.woken = false
	c.closeAtLast()
}

// flush sends what is gathered. mu is locked, and unlocked meanwhile.
func (c *streamConn) flush() {
	b, room := c.out, c.block
	c.out, c.block = nil, nil
	_, _ = c.send(b)
	blocks.Put(room)
}

// send sends a piece. mu is locked, and unlocked meanwhile.
func (c *streamConn) send(p []byte) (int, error) {
	c.sending = true
	c.mu.Unlock()
	n, err := c.conn.Write(p)
	if err != nil {
		_ = c.conn.Close() // who reads learns of it
	}
	c.mu.Lock()
	c.sending = false
	if err != nil {
		c.err = err
		if c.block != nil {
			blocks.Put(c.block)
			c.out, c.block = nil, nil
		}
	}
	c.sent.Broadcast()
	c.closeAtLast()
	return n, err
}

// closeAtLast closes the connection where Close has left that to the last one who sends. mu is locked, and unlocked
// meanwhile.
func (c *streamConn) closeAtLast() {
	if c.closing && !c.woken && !c.sending {
		c.mu.Unlock()
		_ = c.conn.Close()
		c.mu.Lock()
	}
}

// Close closes the connection. What net/http has written before is sent, if the client takes it in a moment.
func (c *streamConn) Close() error {
	c.mu.Lock()
	first, busy := !c.closing, c.woken || c.sending
	c.closing = true
	c.mu.Unlock()
	if !busy {
		return c.conn.Close()
	}
	if first {
		_ = c.SetReadDeadline(past) // nobody reads on
		time.AfterFunc(drainTime, func() { _ = c.wire.Close() })
	}
	return nil
}
