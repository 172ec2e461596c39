package gate

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Enter counts a connection in Open, of which there may be most. It reports false, and counts nothing, when it is one
// too many.
func (k *Skeleton[S]) Enter(most int) bool {
	if k.Open.Add(1) > int64(most) {
		k.Open.Add(-1)
		return false
	}
	return true
}

// Counted counts a connection until it is closed. For one too many it calls bounded and returns nil; the connection is
// closed at once, before anything is read from it.
func (k *Skeleton[S]) Counted(c net.Conn, most int, bounded func()) *Conn {
	if !k.Enter(most) {
		bounded()
		_ = c.Close()
		return nil
	}
	return &Conn{Conn: c, leave: sync.OnceFunc(func() { k.Open.Add(-1) })}
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
