package httpgate

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"weir/gate"
	"weir/identify"
)

// A ProxyProtocol says which proxies name the source of a connection by a PROXY header in front of everything else.
type ProxyProtocol struct {
	// The networks of proxies that do. Each of their connections begins with a PROXY header of version 1 or 2, or is
	// closed. What others send is never taken for one. Default: none.
	From []netip.Prefix `yaml:"from"`
	// Whether those who use the socket do, where listen is one. Default false.
	Socket bool `yaml:"socket"`
}

// wantsHeader reports whether a connection from a peer must begin with a PROXY header.
func (s *setup) wantsHeader(peer netip.Addr) bool {
	if !peer.IsValid() {
		return s.opts.ProxyProtocol.Socket
	}
	return slices.ContainsFunc(s.headerFrom, func(from netip.Prefix) bool { return from.Contains(peer) })
}

// readHeader reads the PROXY header that a connection begins with, and takes the client that it names for the peer. It
// reports whether the proxy speaks for itself: without addresses, as in a health check, it stays the peer.
func (c *conn) readHeader(ctx context.Context) (local bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.wire.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	header, err := gate.ReadProxyHeader(c.wire.socket)
	if err != nil {
		return false, err
	}
	c.wire.ahead = header.Ahead
	if header.From == nil {
		return true, nil
	}
	c.peer, c.remote, c.trusted = identify.Plain(header.From.AddrPort().Addr()), header.From, false
	return false, nil
}
