package httpgate

import (
	"errors"
	"net"
	"sync"
	"time"
)

// A doorway is what one http.Server takes for its listener. The gate accepts by itself and hands each connection through the
// doorway that is open now, so that a reload can put another server in the place of the old one without closing the socket.
type doorway struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newDoorway(addr net.Addr) *doorway {
	return &doorway{conns: make(chan net.Conn), done: make(chan struct{}), addr: addr}
}

// hand gives a connection to the server and reports whether it was taken; it is not when the doorway is closed.
func (d *doorway) hand(c net.Conn) bool {
	select {
	case d.conns <- c:
		return true
	case <-d.done:
		return false
	}
}

func (d *doorway) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

func (d *doorway) Close() error {
	d.once.Do(func() { close(d.done) })
	return nil
}

func (d *doorway) Addr() net.Addr { return d.addr }

// How long the gate waits when the system has no room for another connection, such as when descriptors run out.
const (
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// accept takes connections until the listener is closed. The one too many is closed at once, before anything is read from it.
func (g *Gate) accept(l *net.TCPListener) {
	defer close(g.accepting)
	pause := acceptPause
	for {
		tcp, err := l.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || g.stopping() {
				return
			}
			g.env.Log.Warn("cannot accept connections for the moment", "error", err, "again_in", pause)
			select {
			case <-time.After(pause):
			case <-g.stop:
				return
			}
			pause = min(2*pause, maxAcceptPause)
			continue
		}
		pause = acceptPause
		s := g.setup.Load()
		if !g.admits(s, tcp) {
			continue
		}
		if g.open.Add(1) > int64(s.opts.Bounds.Connections) {
			g.open.Add(-1)
			_ = tcp.Close()
			g.env.Observer.Bounded(BoundConnections)
			continue
		}
		g.hand(newConn(g, tcp, int(s.opts.Bounds.Header)))
	}
}

// admits reports whether a connection may come in; otherwise it is closed.
func (g *Gate) admits(s *setup, tcp *net.TCPConn) bool {
	if s.door == nil || s.door.Admit(peerOf(tcp), g.env.Clock.Now()) {
		return true
	}
	// A reset leaves nothing behind on this side: no state that waits for packets of somebody who floods.
	_ = tcp.SetLinger(0)
	_ = tcp.Close()
	return false
}

// hand gives a connection to the server of the hour. A closed doorway means that its successor is in place, or that the gate
// stops.
func (g *Gate) hand(c *conn) {
	for {
		server := g.server.Load()
		if server.doorway.hand(c) {
			return
		}
		if g.stopping() {
			_ = c.Close()
			return
		}
	}
}
