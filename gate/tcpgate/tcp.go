package tcpgate

import (
	"net"
	"time"

	"weir/identify"
)

// accept takes connections until the listener is closed.
func (g *Gate) accept(l *net.TCPListener) {
	var pause time.Duration
	for {
		tcp, err := l.AcceptTCP()
		if err != nil {
			if !g.falter("cannot accept connections for the moment", err, &pause) {
				return
			}
			continue
		}
		pause = 0
		if !g.receive(tcp) {
			reset(tcp)
		}
	}
}

// receive lets a connection in unless it is one too many or the door turns it away; then it reports false.
func (g *Gate) receive(tcp *net.TCPConn) (in bool) {
	defer func() {
		if what := recover(); what != nil {
			g.panicked("", what)
			in = false
		}
		if !in {
			g.open.Add(-1)
		}
	}()
	s := g.setup.Load()
	if g.open.Add(1) > int64(s.opts.Bounds.Connections) {
		g.env.Observer.Bounded(BoundConnections)
		return false
	}
	peer := tcp.RemoteAddr().(*net.TCPAddr)
	source := identify.Plain(peer.AddrPort().Addr())
	if !s.door.Admit(source, g.env.Clock.Now()) {
		return false
	}
	c := newConn(g, s, tcp, source)
	g.running.Go(c.serve)
	return true
}

// reset closes a connection at once, and tells the peer that this is no proper end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
