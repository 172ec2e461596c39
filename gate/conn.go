package gate

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// Counted counts a connection until it is closed, of which there may be most. At the bound the source with the most
// connections loses its newest, if that leaves it with no fewer than the newcomer's; else it is the newcomer that is
// closed, before anything is read from it, and Counted returns nil. Clients without an address never have to make room.
// bounded is called for each that is closed.
func (k *Skeleton[S]) Counted(c net.Conn, most int, bounded func()) *Conn {
	var source netip.Addr
	if peer, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		source = peer.AddrPort().Addr()
	}
	seat := k.crowd.Enter(source, most, func() {
		bounded()
		Reset(c)
	})
	if seat == nil {
		bounded()
		_ = c.Close()
		return nil
	}
	k.Open.Add(1)
	return &Conn{Conn: c, leave: sync.OnceFunc(func() {
		seat.Leave()
		k.Open.Add(-1)
	})}
}

// A Conn is a connection that is counted until it is closed.
type Conn struct {
	net.Conn
	leave func()
}

// Close closes the connection and makes room for another one.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// CloseWrite says that nothing more will be written. net/http does that before it closes a connection whose client may
// still be sending.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Reset closes a connection at once, and tells the peer that this is no proper end. It leaves nothing behind on this
// side: no state that waits for packets of a client that floods.
func Reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// NewID returns an id for a connection: enough to find its lines in a log.
func NewID() string { return strconv.FormatUint(rand.Uint64N(1<<40), 32) }

// HTTPOptions are those that net/http takes once and for all.
type HTTPOptions struct {
	Header, Idle, Write time.Duration // ReadHeaderTimeout, IdleTimeout, WriteTimeout
	HeaderBytes         int           // MaxHeaderBytes
}

// HTTPServer returns a server for Hooks.Server. Its requests end with Base, and it answers nothing by itself, not even
// OPTIONS *.
func (k *Skeleton[S]) HTTPServer(h http.Handler, o HTTPOptions) *http.Server {
	return &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            o.Header,
		IdleTimeout:                  o.Idle,
		WriteTimeout:                 o.Write,
		MaxHeaderBytes:               o.HeaderBytes,
		BaseContext:                  func(net.Listener) context.Context { return k.Base },
		DisableGeneralOptionsHandler: true,
		// What net/http has to say is about clients that misbehave.
		ErrorLog: slog.NewLogLogger(k.env.Log.Handler(), slog.LevelDebug),
	}
}
