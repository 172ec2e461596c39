package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

// What a server of https speaks, if it is known. Our own client speaks HTTP/1.1 and net/http's HTTP/2. The HTTP/1.1 of
// net/http gives an answer that came too early to the next request.
const (
	speaksUnknown = int32(iota)
	speaksHTTP1
	speaksHTTP2
)

// errHTTP2 says that a server speaks HTTP/2.
var errHTTP2 = errors.New("the server speaks HTTP/2")

// encrypt starts TLS on a connection, or closes it. only1 is for requests that HTTP/2 cannot carry.
func (s *server) encrypt(ctx context.Context, nc net.Conn, o *Options, only1 bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Connect.Std())
	defer cancel()
	offers := []string{"h2", "http/1.1"}
	if only1 || s.speaks.Load() == speaksHTTP1 {
		offers = offers[1:]
	}
	config := s.tls.config(s.to.domain)
	config.NextProtos = offers
	over := tls.Client(nc, config)
	err := over.HandshakeContext(ctx)
	switch {
	case err != nil:
		s.speaks.Store(speaksUnknown)
		_ = nc.Close()
		return nil, err
	case over.ConnectionState().NegotiatedProtocol == "h2":
		s.speaks.Store(speaksHTTP2)
		_ = over.Close()
		return nil, errHTTP2
	case !only1:
		s.speaks.Store(speaksHTTP1)
	}
	return over, nil
}

// past is a deadline that ends a read at once.
var past = time.Unix(1, 0)

// tlsPeeker is peeker for TLS: neither the socket nor the buffer of TLS may hold anything. Messages of TLS itself,
// which are rare on an idle connection, count too.
func tlsPeeker(over *tls.Conn) func() bool {
	below := peeker(over.NetConn())
	var one [1]byte
	return func() bool {
		if below != nil && !below() {
			return false
		}
		_ = over.SetReadDeadline(past)
		n, err := over.Read(one[:])
		return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
	}
}
