package console

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// A guard says who may see the console, and by which name.
type guard struct {
	allow    []netip.Prefix
	hosts    []string
	profiles *[sha256.Size]byte // of the password for profiles; nil while they are off
}

// admits reports whether a peer may connect.
func (g *guard) admits(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	return ok && g.admitsAddr(tcp.AddrPort().Addr())
}

func (g *guard) admitsAddr(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// check returns why a request is refused, or "". The address is that of the connection: headers can be forged. The host
// name is checked because a web page can make its own name resolve to this machine and then read the answer.
func (g *guard) check(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !g.admitsAddr(peer.Addr()) {
		return "your address is not in console.allow"
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || slices.Contains(g.hosts, host) {
		return ""
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ""
	}
	return fmt.Sprintf("the name %q is not in console.hosts", host)
}
