package httpgate

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"time"

	"weir/gate/httpgate/keys"
)

// arrive takes a connection through what comes before HTTP, in a goroutine of its own: the PROXY header and the TLS
// handshake. It reports whether the connection was handed on; if not, it is to be closed. Clients that get nowhere are
// counted and no more: a scan of the network would fill the log.
func (g *Gate) arrive(s *setup, c *conn, header bool) bool {
	timeout := s.opts.Timeouts.Handshake.Std()
	ctx, cancel := context.WithTimeout(g.Serving, timeout)
	defer cancel()
	_ = c.SetDeadline(time.Now().Add(timeout))
	if header {
		local, err := c.readHeader(ctx)
		if err != nil {
			g.nowhere(c, BoundProxyHeader, err)
			return false
		}
		// What a proxy says for itself, such as a health check, is nothing to be counted.
		if !local && !g.admits(s, c.peer) {
			c.resetting()
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

// nowhere notes that a connection got nowhere, unless it is the gate that stops.
func (g *Gate) nowhere(c *conn, bound string, err error) {
	if g.Stopping() {
		return
	}
	g.env.Observer.Bounded(bound)
	g.env.Log.LogAttrs(g.Base, slog.LevelDebug, "a connection got nowhere",
		slog.String("peer", c.RemoteAddr().String()),
		slog.String("bound", bound), slog.Any("error", err))
}

// resetting makes the close that follows one without ceremony.
func (c *conn) resetting() {
	if tcp, ok := c.wire.socket.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0)
	}
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
	c.framing.speaks = onlyHTTP1
	if state.NegotiatedProtocol == "h2" {
		c.framing.speaks = onlyHTTP2
	}
	return nil
}

// clearText is for those who forgot the s of https.
const clearText = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: " +
	"close\r\n\r\nThis port speaks HTTPS.\n"

func looksLikeHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		return true
	}
	return false
}
