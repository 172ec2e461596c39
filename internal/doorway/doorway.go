// Package doorway is how connections come in to a gate: accepted one after the other, also through times when the
// system has no room for more, and handed to the server of the hour; and what whoever asks over HTTP is told of limits.
package doorway

import (
	"net"
	"sync"
)

// A Doorway is what one server takes for its listener. The gate accepts by itself and hands each connection through the
// doorway that is open now, so that a reload can put another server in the place of the old one without closing the
// socket. Its methods may be called from several goroutines.
type Doorway struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

// New returns an open doorway. The server is told that it listens on addr.
func New(addr net.Addr) *Doorway {
	return &Doorway{conns: make(chan net.Conn), done: make(chan struct{}), addr: addr}
}

// Hand gives a connection to the server and reports whether it was taken; it is not when the doorway is closed.
func (d *Doorway) Hand(c net.Conn) bool {
	select {
	case d.conns <- c:
		return true
	case <-d.done:
		return false
	}
}

// Accept is for the server: it waits for the next connection.
func (d *Doorway) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

// Close lets nothing more through. What has been handed over stays with the server.
func (d *Doorway) Close() error {
	d.once.Do(func() { close(d.done) })
	return nil
}

// Addr is what New was given.
func (d *Doorway) Addr() net.Addr { return d.addr }
