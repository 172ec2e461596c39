package authgate

import (
	"bytes"
	"net"
	"sync"
)

// receive lets a connection in. The one too many is closed at once, before anything is read from it.
func (g *Gate) receive(c net.Conn) {
	if g.open.Add(1) > int64(g.setup.Load().opts.Bounds.Connections) {
		g.open.Add(-1)
		g.env.Observer.Bounded(BoundConnections)
		_ = c.Close()
		return
	}
	g.servers.Hand(&conn{Conn: c, gate: g})
}

// A conn is one that counts until it is closed.
type conn struct {
	net.Conn
	gate *Gate
	once sync.Once
}

// Close closes the connection and makes room for another one.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.gate.open.Add(-1) })
	return err
}

// headTooLarge is how an answer begins that only net/http gives, and that it tells nobody of.
var headTooLarge = []byte("HTTP/1.1 431 ")

// Write writes, and counts heads that were too large.
func (c *conn) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, headTooLarge) {
		c.gate.env.Observer.Bounded(BoundHeader)
	}
	return c.Conn.Write(p)
}
