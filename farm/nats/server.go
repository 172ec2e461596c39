package nats

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
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

// maxRoutes bounds the addresses that peers may stand for: every node of the largest farm, under two addresses.
const maxRoutes = 2 * farm.MaxNodes

// lookupFor bounds the lookup of one name.
const lookupFor = 4 * time.Second

// peers finds the addresses of the other nodes. One goroutine uses it.
type peers struct {
	log     *slog.Logger
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	self    func(netip.AddrPort) bool

	known   map[string][]netip.AddrPort // what a peer stood for when it last resolved
	silent  map[string]bool             // names that do not resolve
	alone   map[string]bool             // peers that are this node and nobody else
	tooMany bool
}

// addresses resolves all peers. A name that does not resolve stands for what it stood for before.
func (p *peers) addresses(ctx context.Context, listed []string) []netip.AddrPort {
	var all []netip.AddrPort
	known, alone := map[string][]netip.AddrPort{}, map[string]bool{}
	for _, peer := range listed {
		found := p.lookup(ctx, peer)
		known[peer] = found
		others := slices.DeleteFunc(slices.Clone(found), p.self)
		if len(found) > 0 && len(others) == 0 {
			alone[peer] = true
		}
		all = append(all, others...)
	}
	if len(all) > 0 {
		clear(alone) // a list of all nodes has this one in it
	}
	for peer := range alone {
		if !p.alone[peer] {
			p.log.Info(fmt.Sprintf("peers: %s is this node itself; nobody else was found there", peer))
		}
	}
	p.known, p.alone = known, alone
	slices.SortFunc(all, netip.AddrPort.Compare)
	all = slices.Compact(all)
	if tooMany := len(all) > maxRoutes; tooMany != p.tooMany {
		p.tooMany = tooMany
		if tooMany {
			p.log.Warn(fmt.Sprintf("peers: they stand for %d addresses; the first %d are used: name fewer", len(all), maxRoutes))
		}
	}
	return all[:min(len(all), maxRoutes)]
}

// lookup returns the addresses that a peer stands for.
func (p *peers) lookup(ctx context.Context, peer string) []netip.AddrPort {
	host, text, err := net.SplitHostPort(peer)
	port, portErr := strconv.ParseUint(text, 10, 16)
	if err != nil || portErr != nil {
		p.fails(peer, errors.New("it is not a host and a port"))
		return nil
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.AddrPort{netip.AddrPortFrom(addr.Unmap(), uint16(port))}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupFor)
	defer cancel()
	addrs, err := p.resolve(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = errors.New("it stands for no address")
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			p.fails(peer, err)
		}
		return p.known[peer]
	}
	if p.silent[peer] {
		delete(p.silent, peer)
		p.log.Info(fmt.Sprintf("peers: %s resolves again", peer))
	}
	found := make([]netip.AddrPort, len(addrs))
	for i, a := range addrs {
		found[i] = netip.AddrPortFrom(a.Unmap(), uint16(port))
	}
	return found
}

// fails logs once that a name does not resolve.
func (p *peers) fails(peer string, err error) {
	if p.silent[peer] || len(p.silent) >= maxRoutes {
		return
	}
	p.silent[peer] = true
	p.log.Warn(fmt.Sprintf("peers: %s does not resolve: %v; weir goes on with what it knows", peer, err))
}

// ownAddress returns a function that knows the addresses at which this node itself listens.
func ownAddress(listen *net.TCPAddr) func(netip.AddrPort) bool {
	own := listen.AddrPort()
	at := own.Addr().Unmap()
	return func(a netip.AddrPort) bool {
		switch {
		case a.Port() != own.Port():
			return false
		case !at.IsUnspecified():
			return a.Addr() == at
		case a.Addr().IsLoopback() || a.Addr().IsUnspecified():
			return true
		}
		return slices.ContainsFunc(interfaces(), func(i netip.Addr) bool { return i == a.Addr().WithZone("") })
	}
}

// interfaces returns the addresses of this machine. They may change while it runs.
func interfaces() (all []netip.Addr) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil // NATS notices a route to itself as well
	}
	for _, a := range addrs {
		if n, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, n.Addr().Unmap())
		}
	}
	return all
}

// findPeers resolves the peers now and then, until the bus is closed.
func (b *Bus) findPeers(ctx context.Context) {
	p := &peers{log: b.log, resolve: b.resolve, self: ownAddress(b.addr), silent: map[string]bool{}}
	tick := time.NewTicker(b.every)
	defer tick.Stop()
	var before []netip.AddrPort
	for ctx.Err() == nil {
		found := p.addresses(ctx, b.peerList())
		if ctx.Err() == nil && !slices.Equal(found, before) {
			before = found
			b.setRoutes(found)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-b.renew:
		}
	}
}
