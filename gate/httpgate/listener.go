package httpgate

import (
	"log/slog"
	"net"
	"net/netip"

	"weir/gate"
)

// receive lets a connection in. The one too many is closed at once, before anything is read from it.
func (g *Gate) receive(accepted net.Conn) {
	s, sock := g.Setup.Load(), accepted.(socket)
	peer := peerOf(sock)
	header := s.wantsHeader(peer)
	if !header && !g.admits(s, peer) {
		gate.Reset(sock)
		return
	}
	if !g.Enter(s.opts.Bounds.Connections) {
		_ = sock.Close()
		g.env.Observer.Bounded(BoundConnections)
		return
	}
	c := newConn(g, sock, peer, int(s.opts.Bounds.Header))
	c.trusted = s.opts.Socket.Trusted && !peer.IsValid()
	if !header && s.opts.TLS == nil {
		g.take(c)
		return
	}
	if g.arriving.Add(1) > int64(s.opts.Bounds.Handshakes) {
		g.arriving.Add(-1)
		_ = c.Close()
		g.env.Observer.Bounded(BoundHandshakes)
		return
	}
	g.arrivals.Go(func() {
		in := false
		defer func() {
			g.arriving.Add(-1)
			if !in {
				_ = c.Close()
			}
		}()
		defer g.Recover("a connection ended in a panic", nil, slog.String("peer", c.RemoteAddr().String()))
		in = g.arrive(s, c, header)
	})
}

// admits reports whether the door lets a connection in. Clients on a socket of this machine have no address, and are
// not counted.
func (g *Gate) admits(s *setup, peer netip.Addr) bool {
	return s.door == nil || !peer.IsValid() || s.door.Admit(peer, g.env.Clock.Now())
}
