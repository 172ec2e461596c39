package httpgate

import "net"

// receive lets a connection in. The one too many is closed at once, before anything is read from it.
func (g *Gate) receive(tcp *net.TCPConn) {
	s := g.setup.Load()
	if !g.admits(s, tcp) {
		return
	}
	if g.open.Add(1) > int64(s.opts.Bounds.Connections) {
		g.open.Add(-1)
		_ = tcp.Close()
		g.env.Observer.Bounded(BoundConnections)
		return
	}
	g.hand(newConn(g, tcp, int(s.opts.Bounds.Header)))
}

// admits reports whether a connection may come in; otherwise it is closed.
func (g *Gate) admits(s *setup, tcp *net.TCPConn) bool {
	if s.door == nil || s.door.Admit(peerOf(tcp), g.env.Clock.Now()) {
		return true
	}
	// A reset leaves nothing behind on this side: no state that waits for packets of somebody who floods.
	_ = tcp.SetLinger(0)
	_ = tcp.Close()
	return false
}

// hand gives a connection to the server of the hour. A closed doorway means that its successor is in place, or that the gate
// stops.
func (g *Gate) hand(c *conn) {
	for !g.server.Load().doorway.Hand(c) {
		if g.stopping() {
			_ = c.Close()
			return
		}
	}
}
