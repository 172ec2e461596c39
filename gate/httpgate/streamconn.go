package httpgate

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// A streamConn is a client's connection on which net/http serves HTTP/2. It gathers what net/http writes: each answer
// comes in one piece or two, and each of them would be a record of TLS, a call of the system, and the same again for
// the client. A goroutine that lasts until everything is sent writes what has gathered while others were running.
//
// Write may be called while another Write, a Read or Close goes on. A client that takes nothing is cut off by the wire,
// as always; no more than gathered bytes, and one piece, wait for it.
type streamConn struct {
	*conn

	mu      sync.Mutex // of everything below
	out     []byte     // what is to be sent; in block
	block   *block     // nil while there is nothing
	writing bool       // somebody writes what was in out, and goes on with what is
	written sync.Cond  // writing has ended, or out is empty again
	err     error      // nothing more is sent
	closing bool       // whoever writes closes the connection at the end
}

// gathered is how many bytes are gathered at most. A piece that is larger is written by itself.
const gathered = len(block{})

// handStreams gives a connection to net/http, which serves HTTP/2.
func (g *Gate) handStreams(c *conn) {
	s := &streamConn{conn: c}
	s.written.L = &s.mu
	g.Hand(s)
}

// Write takes all of p. What cannot be sent is told by a later call.
func (c *streamConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	large := len(p) > gathered
	for c.err == nil && c.writing && (large || len(c.out)+len(p) > gathered) {
		c.written.Wait()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case c.closing:
		return 0, net.ErrClosed
	case large: // nobody writes, so that nothing is gathered
		c.writing = true
		c.mu.Unlock()
		n, err := c.conn.Write(p)
		c.mu.Lock()
		c.ended(err)
		return n, err
	}
	if c.block == nil {
		c.block = blocks.Get().(*block)
		c.out = c.block[:0]
	}
	c.out = append(c.out, p...)
	if !c.writing {
		c.writing = true
		go c.send()
	}
	return len(p), nil
}

// send sends what is gathered, in a goroutine of its own. The other goroutines that can run do so first: they may have
// something for this client.
func (c *streamConn) send() {
	runtime.Gosched()
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for err == nil && len(c.out) > 0 {
		b, room := c.out, c.block
		c.out, c.block = nil, nil
		c.written.Broadcast()
		c.mu.Unlock()
		_, err = c.conn.Write(b)
		blocks.Put(room)
		c.mu.Lock()
	}
	c.ended(err)
}

// ended is called by whoever has written, with mu locked.
func (c *streamConn) ended(err error) {
	c.writing = false
	if err != nil {
		c.err = err
		if c.block != nil {
			blocks.Put(c.block)
			c.out, c.block = nil, nil
		}
	}
	c.written.Broadcast()
	if err != nil || c.closing {
		c.mu.Unlock()
		_ = c.conn.Close() // who reads learns of it
		c.mu.Lock()
	}
}

// Close closes the connection. What net/http has written before is sent, if the client takes it in a moment.
func (c *streamConn) Close() error {
	c.mu.Lock()
	first, writing := !c.closing, c.writing
	c.closing = true
	c.mu.Unlock()
	if !writing {
		return c.conn.Close()
	}
	if first {
		_ = c.SetReadDeadline(past) // nobody reads on
		time.AfterFunc(drainTime, func() { _ = c.wire.Close() })
	}
	return nil
}
