package console

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// boundedListener closes connections beyond a bound at once. They do not queue behind those that are open.
type boundedListener struct {
	net.Listener
	max     int
	known   func(net.Addr) bool
	spare   int // connections beyond max for peers that are known, for checks of health; the newest have them
	reached func()

	mu     sync.Mutex
	open   int
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

// admit returns the connection if there is room for it, and the one that has to go for it.
func (l *boundedListener) admit(c net.Conn) (b, oldest *boundedConn) {
	known, bound := l.known(c.RemoteAddr()), l.max
	if !known {
		bound = max(1, l.max/8)
	}
	b = &boundedConn{Conn: c, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open < bound:
		l.open++
	case known && l.spare > 0:
		b.spare = true
		if len(l.spared) == l.spare {
			oldest, l.spared = l.spared[0], slices.Delete(l.spared, 0, 1)
		}
		l.spared = append(l.spared, b)
	default:
		b = nil
	}
	return b, oldest
}

func (l *boundedListener) leave(c *boundedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !c.spare {
		l.open--
	} else if at := slices.Index(l.spared, c); at >= 0 {
		l.spared = slices.Delete(l.spared, at, at+1)
	}
}

type boundedConn struct {
	net.Conn
	of    *boundedListener
	spare bool // beyond the bound
	once  sync.Once
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
