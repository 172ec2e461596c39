package console

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"weir/gate"
	"weir/identify"
)

// boundedListener closes connections beyond a bound at once, or one of the source with most. They do not queue behind
// those that are open.
type boundedListener struct {
	net.Listener
	max   int
	known func(net.Addr) bool
	many  func(netip.Addr) bool // reports whether many are behind a peer; nil: behind none
	// connections beyond max for peers that are known, for checks of health; the newest have them
	spare   int
	reached func()
	crowd   gate.Crowd

	mu     sync.Mutex
	spared []*boundedConn // the oldest first
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		b, oldest := l.admit(c)
		if oldest != nil {
			l.reached()
			oldest.Close()
		}
		if b != nil {
			return b, nil
		}
		l.reached()
		c.Close()
	}
}

// admit returns the connection if there is room for it, and the spare one that has to go for it.
func (l *boundedListener) admit(c net.Conn) (b, oldest *boundedConn) {
	b = &boundedConn{Conn: c, of: l}
	known := l.known(c.RemoteAddr())
	if known || l.crowd.Len() < max(1, l.max/8) {
		b.seat = l.crowd.Enter(l.source(c), l.max, func() {
			l.reached()
			c.Close()
		})
	}
	switch {
	case b.seat != nil:
	case known && l.spare > 0:
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.spared) == l.spare {
			oldest, l.spared = l.spared[0], slices.Delete(l.spared, 0, 1)
		}
		l.spared = append(l.spared, b)
	default:
		b = nil
	}
	return b, oldest
}

// source is whose connection it is, or the zero Addr if it may be that of many.
func (l *boundedListener) source(c net.Conn) netip.Addr {
	peer, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	if addr := identify.Plain(peer.AddrPort().Addr()); l.many == nil || !l.many(addr) {
		return addr
	}
	return netip.Addr{}
}

func (l *boundedListener) leave(c *boundedConn) {
	c.seat.Leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.spared, c); at >= 0 {
		l.spared = slices.Delete(l.spared, at, at+1)
	}
}

type boundedConn struct {
	net.Conn
	of   *boundedListener
	seat *gate.Seat // nil for a spare one
	once sync.Once
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.of.leave(c) })
	return err
}

// boundedConnOf is the connection of a request to a server with withConn.
func boundedConnOf(r *http.Request) *boundedConn {
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	b, _ := c.(*boundedConn)
	return b
}
