package gate

import (
	"net"
	"sync"
)

// An inbox is the listener of one server. The gate accepts by itself and puts each connection into the inbox of the
// current server, so that a reload can replace the server without closing the socket. Its methods may be called from
// several goroutines.
type inbox struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

// newInbox returns an open inbox. The server is told that it listens on addr.
func newInbox(addr net.Addr) *inbox {
	return &inbox{conns: make(chan net.Conn), done: make(chan struct{}), addr: addr}
}

// put gives a connection to the server. It reports false when the inbox is closed.
func (b *inbox) put(c net.Conn) bool {
	select {
	case b.conns <- c:
		return true
	case <-b.done:
		return false
	}
}

// Accept is for the server: it waits for the next connection.
func (b *inbox) Accept() (net.Conn, error) {
	select {
	case c := <-b.conns:
		return c, nil
	case <-b.done:
		return nil, net.ErrClosed
	}
}

// Close lets nothing more through. The server keeps what it has been given.
func (b *inbox) Close() error {
	b.once.Do(func() { close(b.done) })
	return nil
}

// Addr is what newInbox was given.
func (b *inbox) Addr() net.Addr { return b.addr }
