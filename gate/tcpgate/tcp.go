package tcpgate

import (
	"net"

	"weir/identify"
)

// receive lets a connection in unless it is one too many or the door turns it away.
func (g *Gate) receive(c net.Conn) {
	s := g.Setup.Load()
	if !g.Enter(s.opts.Bounds.Connections) {
		g.env.Observer.Bounded(BoundConnections)
		reset(c)
		return
	}
	in := false
	defer func() {
		if !in {
			g.Open.Add(-1)
			reset(c)
		}
	}()
	source := identify.Plain(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	if in = s.door.Admit(source, g.env.Clock.Now()); in {
		g.Go(newConn(g, s, c.(*net.TCPConn), source).serve)
	}
}

// reset closes a connection at once, and tells the peer that this is no proper end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
