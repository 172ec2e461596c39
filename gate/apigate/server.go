package apigate

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"weir/internal/doorway"
)

// maxHeader is the most that net/http reads of a request's line and headers. A token needs no more.
const maxHeader = 8 << 10

// A server is one http.Server and the doorway that it gets its connections through.
type server struct {
	http    *http.Server
	doorway *doorway.Doorway
	opts    serverOptions
	done    chan struct{} // closed when Serve has returned
}

// serve puts a new server in place. The old one, if any, takes no more connections: idle ones are closed, those that
// have just been made get their first answer, and requests under way go on. g.mu is held.
func (g *Gate) serve(o serverOptions) {
	next := &server{doorway: doorway.New(g.tcp.Addr()), opts: o, done: make(chan struct{})}
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

// receive lets a connection in. The one too many is closed at once, before anything is read from it.
func (g *Gate) receive(tcp *net.TCPConn) {
	if g.open.Add(1) > int64(g.setup.Load().opts.Bounds.Connections) {
		g.open.Add(-1)
		g.env.Observer.Bounded(BoundConnections)
		_ = tcp.Close()
		return
	}
	g.hand(&conn{TCPConn: tcp, gate: g})
}

// hand gives a connection to the server of the hour. A closed doorway means that its successor is in place, or that the
// gate stops.
func (g *Gate) hand(c *conn) {
	for !g.server.Load().doorway.Hand(c) {
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
