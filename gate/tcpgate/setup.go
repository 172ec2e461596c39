package tcpgate

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"weir/gate"
	"weir/identify"
	"weir/policy"
)

// A setup is what a connection needs to know of the gate's options. It does not change. A reload replaces it, and a
// connection keeps the one that it began with.
type setup struct {
	opts    Options // with defaults
	door    *policy.Door
	chain   *policy.Chain
	metered bool // a throttle of the chain counts bytes
	proxies identify.Proxies

	network, address string       // of the upstream
	remote           *net.UDPAddr // of the upstream, for udp, once it has been looked up
}

func newSetup(o Options, accept, chain *policy.Chain) (*setup, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	if chain == nil {
		chain, _ = policy.New(nil, nil)
	}
	s := &setup{opts: o, chain: chain, metered: chain.Meters(), proxies: identify.NewProxies(o.TrustedProxies, "")}
	s.network, s.address = gate.Split(o.Upstream)
	if accept != nil {
		s.door = policy.NewDoor(accept, s.proxies.Trusts)
	}
	return s, nil
}

// lookUp finds the upstream's address for udp beforehand, as packets must not wait for the lookup of a name.
func (s *setup) lookUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeouts.Connect.Std())
	defer cancel()
	host, port, _ := net.SplitHostPort(s.address)
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("cannot look up the upstream %s: %w", host, err)
	}
	n, _ := strconv.ParseUint(port, 10, 16)
	s.remote = net.UDPAddrFromAddrPort(netip.AddrPortFrom(addrs[0].Unmap(), uint16(n)))
	return nil
}
