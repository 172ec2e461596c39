package httpgate

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"weir/gate"
	"weir/gate/httpgate/keys"
	"weir/identify"
)

// receive lets a connection in. One too many is closed at once, before anything is read from it, unless another source
// has to make room.
func (g *Gate) receive(accepted net.Conn) {
	s, sock := g.Setup.Load(), accepted.(socket)
	peer := peerOf(sock)
	header := s.wantsHeader(peer)
	if !header && !g.admits(s, peer) {
		gate.Reset(sock)
		return
	}
	c := newConn(g, sock, peer)
	source := peer
	if header || s.proxies.Trusts(peer) { // it is not the client's
		source = netip.Addr{}
	}
	c.seat = g.crowd.Enter(source, s.opts.Bounds.Connections, c.makeRoom(BoundConnections))
	if c.seat == nil {
		_ = sock.Close()
		g.env.Observer.Bounded(BoundConnections)
		return
	}
	g.Open.Add(1)
	c.trusted = s.opts.Socket.Trusted && !peer.IsValid()
	if !header && s.opts.TLS == nil {
		g.take(c)
		return
	}
	c.arrives = g.hasty.Enter(source, s.opts.Bounds.Handshakes, c.makeRoom(BoundHandshakes))
	if c.arrives == nil {
		_ = c.Close()
		g.env.Observer.Bounded(BoundHandshakes)
		return
	}
	g.arriving.Add(1)
	g.arrivals.Go(func() {
		in := false
		defer func() {
			g.arriving.Add(-1)
			c.arrives.Leave()
			if !in {
				_ = c.Close()
			}
		}()
		defer g.Recover("a connection ended in a panic", nil, slog.String("peer", c.RemoteAddr().String()))
		in = g.arrive(s, c, header)
	})
}

// wantsHeader reports whether a connection from a peer must begin with a PROXY header.
func (s *setup) wantsHeader(peer netip.Addr) bool {
	if !peer.IsValid() {
		return s.opts.ProxyProtocol.Socket
	}
	return slices.ContainsFunc(s.headerFrom, func(from netip.Prefix) bool { return from.Contains(peer) })
}

// admits reports whether the door lets a connection in. Clients on a socket of this machine have no address and are not
// counted.
func (g *Gate) admits(s *setup, peer netip.Addr) bool {
	return s.door == nil || !peer.IsValid() || s.door.Admit(peer, g.env.Clock.Now())
}

// arrive takes a connection through what comes before HTTP, in a goroutine of its own: the PROXY header and the TLS
// handshake. It reports whether the connection was handed on; if not, the caller closes it. Clients that fail are
// counted, and logged only for debugging: a scan of the network would fill the log.
func (g *Gate) arrive(s *setup, c *conn, header bool) bool {
	timeout := s.opts.Timeouts.Handshake.Std()
	ctx, cancel := context.WithTimeout(g.arrivable, timeout)
	defer cancel()
	_ = c.SetDeadline(time.Now().Add(timeout))
	if header {
		local, err := c.readHeader(ctx)
		if err != nil {
			g.nowhere(c, BoundProxyHeader, err)
			return false
		}
		if !s.proxies.Trusts(c.peer) {
			c.seat.Of(c.peer)
			c.arrives.Of(c.peer)
		}
		// A proxy that speaks for itself, as for a health check, is not counted.
		if !local && !g.admits(s, c.peer) {
			if tcp, ok := c.socket.(interface{ SetLinger(int) error }); ok {
				_ = tcp.SetLinger(0) // the close that follows is a reset
			}
			return false
		}
	}
	if config := s.keys.Config(g.env.Clock.Now()); config != nil {
		if err := c.shakeHands(ctx, config); err != nil {
			g.nowhere(c, BoundHandshake, err)
			return false
		}
		if c.state.NegotiatedProtocol == keys.ProofProtocol {
			return false // the authority has seen what it came for
		}
	}
	_ = c.SetDeadline(time.Time{})
	g.take(c)
	return true
}

// readHeader reads the PROXY header that a connection begins with. The client that it names becomes the peer. It
// reports whether the proxy speaks for itself, without addresses, as for a health check; then it stays the peer.
func (c *conn) readHeader(ctx context.Context) (local bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(past) })
	defer stop()
	header, err := gate.ReadProxyHeader(c.socket)
	if err != nil {
		return false, err
	}
	c.ahead = header.Ahead
	if header.From == nil {
		return true, nil
	}
	c.peer, c.remote, c.trusted = identify.Plain(header.From.AddrPort().Addr()), header.From, false
	return false, nil
}

// makeRoom returns what ends the connection where it has to make room for another source.
func (c *conn) makeRoom(bound string) func() {
	return func() {
		c.gate.env.Observer.Bounded(bound)
		gate.Reset(c.socket)
	}
}

// nowhere counts a connection that got nowhere, unless the gate stops.
func (g *Gate) nowhere(c *conn, bound string, err error) {
	if g.Stopping() {
		return
	}
	g.env.Observer.Bounded(bound)
	g.env.Log.LogAttrs(g.Base, slog.LevelDebug, "a connection ended without a request",
		slog.String("peer", c.RemoteAddr().String()),
		slog.String("bound", bound), slog.Any("error", err))
}

// shakeHands puts TLS between the wire and HTTP.
func (c *conn) shakeHands(ctx context.Context, config *tls.Config) error {
	over := tls.Server(&c.wire, config)
	if err := over.HandshakeContext(ctx); err != nil {
		if not, ok := errors.AsType[tls.RecordHeaderError](err); ok && not.Conn != nil &&
			looksLikeHTTP(not.RecordHeader) {
			c.linger.Store(true)
			_, _ = io.WriteString(&c.wire, clearText)
		}
		return err
	}
	state := over.ConnectionState()
	c.tls, c.state = over, &state
	c.speaks = onlyHTTP1
	if state.NegotiatedProtocol == "h2" {
		c.speaks = onlyHTTP2
	}
	return nil
}

// clearText is for clients that speak HTTP to the port for HTTPS.
const clearText = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: " +
	"close\r\n\r\nThis port speaks HTTPS.\n"

func looksLikeHTTP(header [5]byte) bool {
	return slices.Contains([]string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH"}, string(header[:]))
}
