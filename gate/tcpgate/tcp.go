package tcpgate

import (
	"net"

	"weir/gate"
	"weir/identify"
)

// receive lets a connection in unless it is one too many or the door turns it away.
func (g *Gate) receive(c net.Conn) {
	s := g.Setup.Load()
	if !g.Enter(s.opts.Bounds.Connections) {
		g.env.Observer.Bounded(BoundConnections)
		gate.Reset(c)
		return
	}
	in := false
	defer func() {
		if !in {
			g.Open.Add(-1)
			gate.Reset(c)
		}
	}()
	source := identify.Plain(c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	if in = s.door.Admit(source, g.env.Clock.Now()); in {
		g.Go(newConn(g, s, c.(*net.TCPConn), source).serve)
	}
}
