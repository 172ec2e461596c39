package tcpgate

import (
	"net"

	"weir/identify"
)

// receive lets a connection in unless it is one too many or the door turns it away.
func (g *Gate) receive(tcp *net.TCPConn) {
	in := false
	defer func() {
		if what := recover(); what != nil {
			g.panicked("", what)
		}
		if !in {
			g.open.Add(-1)
			reset(tcp)
		}
	}()
	s := g.setup.Load()
	if g.open.Add(1) > int64(s.opts.Bounds.Connections) {
		g.env.Observer.Bounded(BoundConnections)
		return
	}
	peer := tcp.RemoteAddr().(*net.TCPAddr)
	source := identify.Plain(peer.AddrPort().Addr())
	if !s.door.Admit(source, g.env.Clock.Now()) {
		return
	}
	g.running.Go(newConn(g, s, tcp, source).serve)
	in = true
}

// reset closes a connection at once, and tells the peer that this is no proper end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
