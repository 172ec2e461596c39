package apigate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxHeader is the most that net/http reads of a request's line and headers. A token needs no more.
const maxHeader = 8 << 10

// A server is one http.Server and the doorway that it gets its connections through.
type server struct {
	http    *http.Server
	doorway *doorway
	opts    serverOptions
	done    chan struct{} // closed when Serve has returned
}

// serve puts a new server in place. The old one, if any, takes no more connections: idle ones are closed, those that have just
// been made get their first answer, and requests under way go on. g.mu is held.
func (g *Gate) serve(o serverOptions) {
	next := &server{doorway: newDoorway(g.tcp.Addr()), opts: o, done: make(chan struct{})}
	next.http = &http.Server{
		Handler:                      g,
		ReadHeaderTimeout:            o.header,
		IdleTimeout:                  o.idle,
		MaxHeaderBytes:               maxHeader,
		BaseContext:                  func(net.Listener) context.Context { return g.base },
		DisableGeneralOptionsHandler: true,
		// What net/http has to say is about clients that misbehave.
		ErrorLog: slog.NewLogLogger(g.env.Log.Handler(), slog.LevelDebug),
	}
	old := g.server.Swap(next)
	g.servers = append(g.servers, next)
	go func() {
		defer close(next.done)
		_ = next.http.Serve(next.doorway)
	}()
	if old != nil {
		go g.retire(old)
	}
}

// retire ends a server whose place another one has taken.
func (g *Gate) retire(old *server) {
	_ = old.doorway.Close()
	old.http.SetKeepAlivesEnabled(false)
	// Shutdown drops connections whose first request has not been read; by then the header timeout has dealt with them.
	patience := time.NewTimer(old.opts.header + time.Second)
	defer patience.Stop()
	select {
	case <-patience.C:
	case <-g.stop:
		return // Stop takes care of it
	}
	_ = old.http.Shutdown(g.base)
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, s := range g.servers {
		if s == old {
			g.servers = append(g.servers[:i:i], g.servers[i+1:]...)
			return
		}
	}
}

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
		if g.open.Add(1) > int64(g.setup.Load().opts.Bounds.Connections) {
			g.open.Add(-1)
			g.env.Observer.Bounded(BoundConnections)
			_ = tcp.Close()
			continue
		}
		g.hand(&conn{TCPConn: tcp, gate: g})
	}
}

// hand gives a connection to the server of the hour. A closed doorway means that its successor is in place, or that the gate
// stops.
func (g *Gate) hand(c *conn) {
	for {
		d := g.server.Load().doorway
		select {
		case d.conns <- c:
			return
		case <-d.done:
		}
		if g.stopping() {
			_ = c.Close()
			return
		}
	}
}

// A conn is one that counts until it is closed.
type conn struct {
	*net.TCPConn
	gate *Gate
	once sync.Once
}

// Close closes the connection and makes room for another one.
func (c *conn) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() { c.gate.open.Add(-1) })
	return err
}
