package console

import (
	"net"
	"sync"
)

// boundedListener closes connections beyond a bound at once. They do not queue behind those that are open.
type boundedListener struct {
	net.Listener
	max     int
	known   func(net.Addr) bool
	reached func()

	mu   sync.Mutex
	open int
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		bound := l.max
		if !l.known(c.RemoteAddr()) {
			bound = max(1, l.max/8)
		}
		l.mu.Lock()
		full := l.open >= bound
		if !full {
			l.open++
		}
		l.mu.Unlock()
		if !full {
			return &boundedConn{Conn: c, gone: l.leave}, nil
		}
		l.reached()
		c.Close()
	}
}

func (l *boundedListener) leave() {
	l.mu.Lock()
	l.open--
	l.mu.Unlock()
}

type boundedConn struct {
	net.Conn
	once sync.Once
	gone func()
}

func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.gone)
	return err
}
