package app

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"weir"
	"weir/identify"
	"weir/internal/readfile"
	"weir/throttle/stamp"
)

// look updates the difficulty of stamps at gates without traffic, so that the status shows what would be asked.
func (a *App) look(g *generation) {
	now := a.clock.Now()
	for _, gt := range g.gates {
		for _, at := range gt.bottlenecks() {
			share, delay := at.Load(now)
			for _, link := range at.chain.Links() {
				if t, ok := link.Throttle.(*stamp.Throttle); ok {
					t.Observe(weir.Load{Of: at.of, Share: share, Delay: delay}, now)
				}
			}
		}
	}
}

// How bots are looked up.
const (
	maxLookups    = 16 // at once
	lookupTimeout = 5 * time.Second
)

// meet verifies clients that claim to be a known bot: the address must have a name that resolves to the same address.
// At most MaxUnsure lookups are open.
func (a *App) meet(t *stamp.Throttle) {
	t.Exempt().Unsure(func(addr netip.Addr) {
		a.background.Go(func() {
			select {
			case a.lookups <- struct{}{}:
				defer func() { <-a.lookups }()
			case <-a.retreat.Done():
				return
			}
			ctx, cancel := context.WithTimeout(a.retreat, lookupTimeout)
			defer cancel()
			names, err := confirmed(ctx, net.DefaultResolver, addr)
			if err != nil { // nobody knows: it is asked again before long
				t.Exempt().Unanswered(addr)
				return
			}
			t.Exempt().Confirm(addr, names, a.clock.Now())
		})
	})
}

// A resolver looks names up.
type resolver interface {
	LookupAddr(ctx context.Context, addr string) ([]string, error)
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// maxNames is how many names of one address are looked at.
const maxNames = 4

// confirmed returns the names of an address that lead back to it. No name is an answer; a failed lookup is an error.
func confirmed(ctx context.Context, r resolver, addr netip.Addr) (names []string, err error) {
	found, err := r.LookupAddr(ctx, addr.String())
	if err != nil && !notFound(err) {
		return nil, err
	}
	for _, name := range found[:min(len(found), maxNames)] {
		name = strings.TrimSuffix(name, ".")
		back, err := r.LookupNetIP(ctx, "ip", name)
		if err != nil && !notFound(err) {
			return nil, err
		}
		for _, b := range back {
			if b.Unmap() == addr.Unmap() {
				names = append(names, name)
				break
			}
		}
	}
	return names, nil
}

func notFound(err error) bool {
	e, ok := errors.AsType[*net.DNSError](err)
	return ok && e.IsNotFound
}

// readList reads a file of networks, or as much of it as shows that it is too large.
func readList(path string) ([]byte, error) {
	return readfile.Read(path, identify.MaxExemptFile)
}
