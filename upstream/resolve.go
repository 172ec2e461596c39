package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"weir"
	"weir/internal/clock"
)

// A Family says which addresses of a name are used.
type Family string

// Families of addresses.
const (
	AnyFamily Family = "any"
	IPv4      Family = "ipv4"
	IPv6      Family = "ipv6"
)

// Network is what a Resolver is asked for.
func (f Family) Network() string {
	switch f {
	case IPv4:
		return "ip4"
	case IPv6:
		return "ip6"
	}
	return "ip"
}

func (o *Options) validateNames(v *weir.Mistakes) {
	v.Lasts("resolve", o.Resolve, MinResolve, maxTime)
	v.OneOf("family", string(o.Family), string(AnyFamily), string(IPv4), string(IPv6))
	switch {
	case o.Family != "" && o.Resolve == 0:
		v.Add("family", "names are not looked up", "write resolve: 30s, or leave family out")
	case o.Resolve != 0 && len(o.Names()) == 0:
		v.Add("resolve", "no server has a name that could be looked up", "leave resolve out")
	}
}

// Names are the names of servers that are looked up, and the servers with them.
func (o *Options) Names() map[string]string {
	all := map[string]string{}
	if o.Resolve != 0 {
		for _, s := range o.Servers {
			if to, mistake := parseTarget(s); mistake == nil && to.isName() {
				all[s] = to.domain
			}
		}
	}
	return all
}

// isName reports whether a target has a name that can be looked up.
func (t *target) isName() bool {
	_, err := netip.ParseAddr(t.domain)
	return t.domain != "" && err != nil
}

// with is the target at one of the addresses of its name.
func (t target) with(addr netip.Addr) target {
	_, port, _ := net.SplitHostPort(t.address)
	t.source, t.name = t.name, fmt.Sprintf("%s (%s)", t.name, addr)
	t.address = net.JoinHostPort(addr.String(), port)
	return t
}

// Bounds on lookups.
const (
	lookupTime  = 5 * time.Second // for an answer
	lookupPause = time.Second     // between two lookups of a name
)

// A name is what a server is called, with its addresses. It is guarded by the pool's lock.
type name struct {
	to     target
	addrs  []netip.Addr // in order
	looked bool         // once at least
	busy   bool
	began  time.Time   // the last lookup
	timer  clock.Timer // of the next one
}

func (n *name) stop() {
	if n.timer != nil {
		n.timer.Stop()
		n.timer = nil
	}
}

// knownNames returns the names in the options that are looked up, with the addresses that the pool knows of them.
func (p *Pool) knownNames(o *Options) (all []*name) {
	if o.Resolve == 0 {
		return nil
	}
	for _, s := range o.Servers {
		to, _ := parseTarget(s)
		if !to.isName() {
			continue
		}
		n := &name{to: to}
		if p != nil && p.opts.Family == o.Family {
			p.mu.Lock()
			if i := slices.IndexFunc(p.names, func(old *name) bool { return old.to.name == to.name }); i >= 0 {
				n.addrs, n.looked = p.names[i].addrs, p.names[i].looked
			}
			p.mu.Unlock()
		}
		all = append(all, n)
	}
	return all
}

// targets are where the servers are, with the addresses of names as they are known. p.mu is held.
func (p *Pool) targets() (all []target) {
	for _, s := range p.opts.Servers {
		i := slices.IndexFunc(p.names, func(n *name) bool { return n.to.name == s })
		if i < 0 {
			to, _ := parseTarget(s)
			all = append(all, to)
			continue
		}
		n := p.names[i]
		for _, addr := range n.addrs[:min(len(n.addrs), p.share())] {
			all = append(all, n.to.with(addr))
		}
	}
	return all
}

// startLookups begins to look names up. p.mu is held.
func (p *Pool) startLookups() {
	for _, n := range p.names {
		p.startLookup(n)
	}
	p.noteReady()
}

// noteReady lets requests go on that wait for addresses, when each name has been looked up. p.mu is held.
func (p *Pool) noteReady() {
	select {
	case <-p.ready:
		return
	default:
	}
	if !slices.ContainsFunc(p.names, func(n *name) bool { return !n.looked }) {
		close(p.ready)
	}
}

// startLookup looks a name up. p.mu is held.
func (p *Pool) startLookup(n *name) {
	if n.busy || p.closed {
		return
	}
	n.stop()
	n.busy, n.began = true, p.env.Clock.Now()
	go p.lookUp(n)
}

// lookAgain looks a name up soon: a connection to one of its addresses did not come about. Sources of servers that have
// no name are empty.
func (p *Pool) lookAgain(source string) {
	if source == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.names, func(n *name) bool { return n.to.name == source })
	if i >= 0 && p.env.Clock.Now().Sub(p.names[i].began) >= lookupPause {
		p.startLookup(p.names[i])
	}
}

var errNoAddress = errors.New("the name has no address that can be used")

// lookUp asks for the addresses of a name. If there is no answer, those that are known stay.
func (p *Pool) lookUp(n *name) {
	ctx, cancel := context.WithTimeout(p.base, lookupTime)
	defer cancel()
	found, err := p.env.Resolver.LookupNetIP(ctx, p.opts.Family.Network(), n.to.domain)
	if found = usable(found); err == nil && len(found) == 0 {
		err = errNoAddress
	}
	gone, known, more := p.found(n, found, err)
	for _, s := range gone { // what is under way goes on
		s.release()
		p.env.Observer.Left(s.to.name)
	}
	if more {
		p.env.Observer.Bounded(BoundAddresses)
	}
	if p.base.Err() == nil {
		p.env.Observer.Resolved(n.to.name, known, err)
	}
}

// found takes the addresses of a name. It returns the servers that are gone, how many addresses are known, and whether
// there are more than can be used.
func (p *Pool) found(n *name, found []netip.Addr, err error) (gone []*server, known int, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n.busy = false
	if p.closed {
		return nil, 0, false
	}
	n.timer = p.env.Clock.AfterFunc(p.opts.Resolve.Std(), func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.startLookup(n)
	})
	if err == nil {
		if most := p.share(); len(found) > most {
			found, more = found[:most], true
		}
		if !slices.Equal(found, n.addrs) {
			n.addrs = found
			gone = p.populate(nil)
		}
	}
	n.looked = true
	p.noteReady()
	return gone, len(n.addrs), more
}

// share is how many addresses each name may have. p.mu is held.
func (p *Pool) share() int { return (MaxServers - len(p.opts.Servers) + len(p.names)) / len(p.names) }

// usable puts addresses in order. Those that cannot be connected to are left out.
func usable(all []netip.Addr) []netip.Addr {
	good := make([]netip.Addr, 0, len(all))
	for _, a := range all {
		if a = a.Unmap(); a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() {
			good = append(good, a)
		}
	}
	slices.SortFunc(good, netip.Addr.Compare)
	return slices.Compact(good)
}

// await waits until names have been looked up for the first time, and no longer than for a connection.
func (p *Pool) await(ctx context.Context, by Caller) error {
	select {
	case <-p.ready:
	default:
		if by != nil {
			ctx = by.Waits()
		}
		ctx, cancel := context.WithTimeoutCause(ctx, p.opts.Timeouts.Connect.Std(), p.unavailable(nil))
		defer cancel()
		select {
		case <-p.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if len(p.servers()) == 0 {
		return p.unavailable(nil)
	}
	return nil
}
