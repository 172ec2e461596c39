package identify

import (
	"net/netip"
	"slices"
	"strings"
)

// A Header says which header the trusted proxies maintain. It is one: a client can write the other one.
type Header string

const (
	XForwardedFor   Header = "x-forwarded-for" // Forwarded is ignored; the default
	ForwardedHeader Header = "forwarded"       // X-Forwarded-For is ignored (RFC 7239)
)

const (
	maxHops          = 32  // how many elements are read, from the right
	maxElementLength = 256 // bytes of an element
)

// Fields are the header fields of a request: an http.Header, or a list of them.
type Fields interface {
	// Values returns the values of a name in canonical form. They must not be changed.
	Values(name string) []string
}

// Proxies are the proxies in front of a gate whose headers are trusted. The zero value trusts none.
type Proxies struct {
	trusted []netip.Prefix
	header  Header
}

// NewProxies returns proxies that trust the peers within the prefixes. An empty header means XForwardedFor.
func NewProxies(trusted []netip.Prefix, header Header) Proxies {
	p := Proxies{header: header}
	for _, prefix := range trusted {
		p.trusted = append(p.trusted, PlainPrefix(prefix))
	}
	return p
}

// Trusts reports whether an address belongs to a trusted proxy.
func (p *Proxies) Trusts(addr netip.Addr) bool {
	if len(p.trusted) == 0 {
		return false
	}
	addr = Plain(addr)
	return slices.ContainsFunc(p.trusted, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// An Origin is the source of a request, and how it is known.
type Origin struct {
	Addr          netip.Addr // the source: IPv4 unmapped, without a zone
	Unknown       bool       // a header breaks off: Addr is the last proxy that is known, and not the client
	Proxied       bool       // the peer is a trusted proxy
	XForwardedFor bool       // the peer's X-Forwarded-For is believed
	Forwarded     bool       // the peer's Forwarded is believed
}

// Source returns where a request came from: the peer or, if that is a trusted proxy, the right-most address in the
// forwarding header that is not a trusted proxy. Elements left of it were written by strangers.
//
// An element that is not an address ("unknown", "_hidden", garbage) ends the walk, and so does the 33rd element. The
// source is then the proxy that wrote it, and Unknown is set. It is also set if there is only the header that the
// proxies do not maintain. A request with neither header is the proxy's own.
func (p *Proxies) Source(peer netip.Addr, h Fields) Origin {
	peer = Plain(peer)
	if !p.Trusts(peer) {
		return Origin{Addr: peer}
	}
	return p.Told(peer, h)
}

// Told is Source for a peer that is trusted whatever its address, as on a socket of this machine.
func (p *Proxies) Told(peer netip.Addr, h Fields) Origin {
	peer = Plain(peer)
	o := Origin{Addr: peer, Proxied: true}
	xff, fwd := h.Values("X-Forwarded-For"), h.Values("Forwarded")
	o.XForwardedFor = len(xff) > 0 && p.header != ForwardedHeader
	o.Forwarded = len(fwd) > 0 && p.header == ForwardedHeader
	whole := true
	switch {
	case o.XForwardedFor:
		o.Addr, whole = p.walk(peer, xff, lastXForwardedFor)
	case o.Forwarded:
		o.Addr, whole = p.walk(peer, fwd, lastForwarded)
	default:
		whole = len(xff) == 0 && len(fwd) == 0
	}
	o.Unknown = !whole
	return o
}

// walk reads the elements of a header from the right. Several lines are one list (RFC 9110, 5.3). The walk is complete
// when it reaches an address that is not a trusted proxy, or the start of the list.
func (p *Proxies) walk(from netip.Addr, lines []string, last elementReader) (source netip.Addr, whole bool) {
	hops := 0
	for _, line := range slices.Backward(lines) {
		for rest, more := line, true; more; {
			var node string
			rest, node, more = last(rest)
			addr, ok := parseNode(node)
			if hops++; !ok || hops > maxHops {
				return from, false
			}
			if from = addr; !p.Trusts(addr) {
				return from, true
			}
		}
	}
	return from, true
}

// An elementReader takes the right-most element off a line and returns the node that it names, "" for none.
type elementReader func(line string) (rest, node string, more bool)

func lastXForwardedFor(line string) (rest, node string, more bool) {
	comma := strings.LastIndexByte(line, ',')
	return line[:max(comma, 0)], strings.Trim(line[comma+1:], " \t"), comma >= 0
}

// lastForwarded does the same for RFC 7239.
func lastForwarded(line string) (rest, node string, more bool) {
	rest, element, more := lastElement(line)
	node, after, ok := element7239(element)
	if !ok || after != "" {
		node = ""
	}
	return rest, node, more
}

// parseNode reads an address with or without a port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1]:80.
func parseNode(s string) (netip.Addr, bool) {
	if s == "" || len(s) > maxElementLength {
		return netip.Addr{}, false
	}
	if inner, found := strings.CutPrefix(s, "["); found {
		host, port, closed := strings.Cut(inner, "]")
		if !closed || (port != "" && !isPort(port)) {
			return netip.Addr{}, false
		}
		addr, err := netip.ParseAddr(host)
		return Plain(addr), err == nil && addr.Is6()
	}
	if host, port, found := strings.Cut(s, ":"); found && !strings.Contains(port, ":") {
		if !isPort(s[len(host):]) {
			return netip.Addr{}, false
		}
		s = host
	}
	addr, err := netip.ParseAddr(s)
	return Plain(addr), err == nil
}

// isPort reports whether s is a colon and a port, or an obfuscated port (RFC 7239, 6.3).
func isPort(s string) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	return s[1] == '_' || len(s) <= 6 && strings.Trim(s[1:], "0123456789") == ""
}

// Plain returns an address as throttles know it: IPv4 where it is mapped into IPv6, and without a zone.
func Plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// Network returns the network of an address, by prefix lengths for IPv4 and IPv6; the zero prefix for wrong ones.
func Network(addr netip.Addr, v4bits, v6bits int) netip.Prefix {
	addr = Plain(addr)
	bits := v6bits
	if addr.Is4() {
		bits = v4bits
	}
	prefix, _ := addr.Prefix(bits) // the zero prefix with an error
	return prefix
}
