package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"weir/farm"
)

const (
	clusterName   = "weir"
	maxPending    = 8 << 20          // bytes that wait for one peer, or for this node
	writeDeadline = 2 * time.Second  // for one write to a peer
	handshake     = 2 * time.Second  // for a stranger
	startWithin   = 10 * time.Second // binding a port takes no time
	startPoll     = time.Millisecond
	// A route on which nothing came back for so many questions is closed, and made anew: TCP would wait as long again
	// as the cut took. New ones are tried every two seconds.
	routePing     = time.Second
	routePingsOut = 2
	overhead      = 4 << 10 // bytes of a message besides what is sent
)

// noPort is where the server is told to listen for clients. There is no such port, and that is the point: the server
// opens its route listener only after it has tried to open the other one (DontListen waits forever, and so does the
// shutdown after it). When that fails it goes on, and clients come through InProcessConn alone.
const noPort = 1 << 16

// serverOptions are the options of the server in the process. The server writes into them: make them anew for each use.
func (b *Bus) serverOptions(secured *tls.Config, routes []netip.AddrPort) *server.Options {
	host, port := b.host, b.port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o := &server.Options{
		ServerName:            b.node.Address(),
		Host:                  "127.0.0.1",
		Port:                  noPort,
		NoLog:                 true,
		NoSigs:                true,
		NoSystemAccount:       true,
		NoFastProducerStall:   true, // a slow reader loses messages; it slows nobody down
		MaxPayload:            farm.MaxMessage + overhead,
		MaxPending:            maxPending,
		WriteDeadline:         writeDeadline,
		PingInterval:          10 * time.Second,
		MaxPingsOut:           2,
		ConnectErrorReports:   1, // troubles leaves repetitions out
		ReconnectErrorReports: 1,
		Cluster: server.ClusterOpts{
			Name:         clusterName,
			Host:         host,
			Port:         port,
			TLSConfig:    secured,
			TLSTimeout:   handshake.Seconds(),
			AuthTimeout:  handshake.Seconds(),
			PoolSize:     -1,
			Compression:  server.CompressionOpts{Mode: server.CompressionOff},
			PingInterval: routePing,
			MaxPingsOut:  routePingsOut,
			NoAdvertise:  true,
		},
	}
	for _, r := range routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: r.String()})
	}
	return o
}

// startServer starts the server in the process, and returns when it listens.
func (b *Bus) startServer(ctx context.Context) error {
	s, err := server.NewServer(b.serverOptions(b.secured, nil))
	if err != nil {
		return fmt.Errorf("farm: the server of the bus: %w", err)
	}
	s.SetLogger(b.troubles, b.debug, false)
	go s.Start()
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for s.ClusterAddr() == nil {
		err := b.troubles.failed()
		if err == nil {
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
				err = errors.New("the server of the bus did not start")
			}
		}
		s.Shutdown()
		if errors.Is(err, syscall.EADDRINUSE) {
			err = syscall.EADDRINUSE
		}
		return fmt.Errorf("farm: cannot listen at %s: %w (farm.listen)", b.options.Listen, err)
	}
	b.server, b.addr = s, s.ClusterAddr()
	return nil
}

// splitListen returns where to listen, as the server wants it: without a host it would take IPv4 alone.
func splitListen(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fmt.Errorf("farm: cannot listen at %q: write :7400, or an address and a port (farm.listen)", listen)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("farm: cannot listen at %q: the port is a number up to 65535 (farm.listen)", listen)
	}
	if host == "" {
		host = wildcard()
	}
	return host, int(n), nil
}

// wildcard is the address that stands for all of a machine, IPv6 included where there is one.
func wildcard() string {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return "0.0.0.0"
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).IP.String()
}
