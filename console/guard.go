package console

import (
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"weir/console/access"
	"weir/store"
)

// A guard says who may see the console, and by which name.
type guard struct {
	allow    []netip.Prefix
	hosts    []string
	profiles *[sha256.Size]byte // of the password for profiles; nil while they are off
	proxy    Proxy
	anybody  access.Role // of those who have not logged in
}

func newGuard(o Options) *guard {
	return &guard{allow: o.Allow, hosts: o.Hosts, profiles: profilesSum(o.ProfilesPassword), proxy: o.Proxy,
		anybody: o.WithoutLogin}
}

// peer is the address that a connection comes from.
func peer(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr().Unmap().WithZone("")
}

// proxied reports whether a request comes from the proxy.
func (g *guard) proxied(r *http.Request) bool { return g.isProxy(peer(r)) }

func (g *guard) isProxy(from netip.Addr) bool {
	return slices.ContainsFunc(g.proxy.From, func(p netip.Prefix) bool { return p.Contains(from) })
}

// source is who is behind a request: behind the proxy, the last address that it has added.
func (g *guard) source(r *http.Request) netip.Addr {
	if g.proxied(r) {
		if said := r.Header.Values("X-Forwarded-For"); len(said) > 0 {
			last := said[len(said)-1]
			last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
			if a, err := netip.ParseAddr(last); err == nil {
				return a.Unmap().WithZone("")
			}
		}
	}
	return peer(r)
}

// secure reports whether the client speaks TLS, with weir or with the proxy.
func (g *guard) secure(r *http.Request) bool {
	return r.TLS != nil || g.proxied(r) && r.Header.Get("X-Forwarded-Proto") == "https"
}

// named is who the proxy says has logged in, or "". Of two names none counts.
func (g *guard) named(r *http.Request) string {
	if g.proxy.Header == "" || !g.proxied(r) {
		return ""
	}
	names := r.Header.Values(g.proxy.Header)
	if len(names) != 1 || checkLine("name", names[0], store.MaxOperatorName, false) != nil {
		return ""
	}
	return names[0]
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
// name is checked, unless any will do, because a web page can make its own name resolve to this machine and then read
// the answer.
func (g *guard) check(r *http.Request, anyName bool) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !g.admitsAddr(peer.Addr()) {
		return "your address is not in console.allow"
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if anyName || host == "" || host == "localhost" || slices.Contains(g.hosts, host) {
		return ""
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ""
	}
	return fmt.Sprintf("the name %q is not in console.hosts", host)
}
