package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"weir/farm"
)

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
