package gate

import (
	"net"
	"net/netip"
	"slices"
)

// OwnNetworks are the networks of this machine alone: loopback, and each address of an interface.
func OwnNetworks() []netip.Prefix {
	all := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	nets, _ := net.InterfaceAddrs()
	for _, n := range nets {
		prefix, err := netip.ParsePrefix(n.String())
		if err != nil {
			continue
		}
		addr := prefix.Addr().Unmap().WithZone("")
		if !addr.IsLoopback() {
			all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return all
}

// IsOwn reports whether an address is one of this machine.
func IsOwn(addr netip.Addr) bool {
	return slices.ContainsFunc(OwnNetworks(), func(own netip.Prefix) bool { return own.Contains(addr) })
}
