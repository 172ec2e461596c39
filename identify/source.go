package identify

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
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

// lastElement splits the right-most element off a line of a Forwarded header (RFC 7239, 4). It reads from the right, so
// that a quote that a client left open does not swallow what the proxy appended. A comma within quotes does not
// separate elements. If a quote is not closed, the element is the whole line, which is malformed.
func lastElement(line string) (before, element string, more bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch {
		case line[i] == '"' && (!quoted || !escaped(line[:i])):
			quoted = !quoted
		case line[i] == ',' && !quoted:
			return line[:i], line[i+1:], true
		}
	}
	return "", line, false
}

// escaped reports whether s ends in a backslash that escapes what follows. Two of them are one escaped backslash.
func escaped(s string) bool {
	return (len(s)-len(strings.TrimRight(s, `\`)))%2 == 1
}

// element7239 reads the element that s starts with: its "for", "" for none, and what follows, a comma and more.
func element7239(s string) (node, rest string, ok bool) {
	rest = strings.TrimLeft(s, " \t")
	seen := false
	for rest != "" && rest[0] != ',' {
		name := token(rest)
		if name == "" || len(rest) <= len(name) || rest[len(name)] != '=' {
			return "", rest, false
		}
		var value string
		if value, rest, ok = value7239(rest[len(name)+1:]); !ok {
			return "", rest, false
		}
		if strings.EqualFold(name, "for") {
			if seen {
				return "", rest, false
			}
			node, seen = value, true
		}
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" || rest[0] == ',' {
			break
		}
		if rest[0] != ';' {
			return "", rest, false
		}
		rest = strings.TrimLeft(rest[1:], " \t")
	}
	return node, rest, true
}

// WellForwarded reports whether lines of a Forwarded header keep to the grammar: servers read others differently.
func WellForwarded(lines []string) bool {
	for _, rest := range lines {
		for more := true; more; {
			var ok bool
			if _, rest, ok = element7239(rest); !ok {
				return false
			}
			if more = rest != ""; more {
				rest = rest[1:]
			}
		}
	}
	return true
}

// value7239 reads a token or a quoted string and returns what follows it.
func value7239(s string) (value, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		value = token(s)
		// Many proxies write addresses with colons without quotes.
		for len(value) < len(s) && strings.IndexByte(":[]", s[len(value)]) >= 0 {
			value = s[:len(value)+1+len(token(s[len(value)+1:]))]
		}
		return value, s[len(value):], value != ""
	}
	escaped := false
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			escaped = true
			i++
		case s[i] == '"':
			if escaped {
				// An address never has a backslash.
				return "\\", s[i+1:], true
			}
			return s[1:i], s[i+1:], true
		}
	}
	return "", "", false
}

// token returns the token (RFC 9110, 5.6.2) that s starts with.
func token(s string) string {
	i := 0
	for i < len(s) && tokenBytes[s[i]] {
		i++
	}
	return s[:i]
}

// IsToken reports whether s is a token (RFC 9110, 5.6.2), as methods and names of headers are.
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return len(s) > 0
}

var tokenBytes = func() (is [256]bool) {
	for c := range byte(utf8.RuneSelf) {
		is[c] = isLetter(c) || isDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
	}
	return is
}()

// How an unlisted proxy is found.
const (
	maxUnlisted  = 8         // addresses that are watched at a time
	unlistedFrom = 20        // requests with a forwarding header, after which an address is named
	unlistedLife = time.Hour // after which an address that sends none is forgotten
)

// An UnlistedProxy is an address that nobody trusts and that sends a forwarding header again and again. It may be a
// proxy that the operator forgot, all of whose clients count as one. Or a client writes the header itself.
type UnlistedProxy struct {
	Addr   netip.Addr // invalid for a socket of this machine
	Header string     // the header that came last
}

// Unlisted finds unlisted proxies. Of many addresses, it always finds those that send more than one in nine of the
// requests with such a header. The zero value is ready. Goroutines may share it.
type Unlisted struct {
	mu   sync.Mutex
	seen [maxUnlisted]unlisted
}

type unlisted struct {
	UnlistedProxy
	requests int // less those by which others made room; 0: the place is free
	last     time.Time
	told     bool
}

// Note counts a request of an address that is not trusted. It reports whether the address has just been found to be an
// unlisted proxy.
func (u *Unlisted) Note(peer netip.Addr, h Fields, now time.Time) (p UnlistedProxy, found bool) {
	switch {
	case len(h.Values("X-Forwarded-For")) > 0:
		p.Header = "X-Forwarded-For"
	case len(h.Values("Forwarded")) > 0:
		p.Header = "Forwarded"
	case len(h.Values("X-Real-Ip")) > 0:
		p.Header = "X-Real-IP"
	default:
		return p, false
	}
	p.Addr = Plain(peer)
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.place(p.Addr, now)
	if at < 0 {
		return p, false
	}
	s := &u.seen[at]
	s.UnlistedProxy, s.last = p, now
	s.requests++
	found = s.requests >= unlistedFrom && !s.told
	s.told = s.told || found
	return p, found
}

// place returns where an address is counted. If there is no room for it, everybody else loses a request instead.
func (u *Unlisted) place(addr netip.Addr, now time.Time) int {
	free := -1
	for i := range u.seen {
		switch s := &u.seen[i]; {
		case s.requests > 0 && s.Addr == addr:
			return i
		case s.requests == 0 || now.Sub(s.last) >= unlistedLife:
			free = i
		}
	}
	if free >= 0 {
		u.seen[free] = unlisted{}
		return free
	}
	for i := range u.seen {
		u.seen[i].requests--
	}
	return -1
}

// Found returns the unlisted proxies of the last hour that are not trusted meanwhile, the busiest first.
func (u *Unlisted) Found(trusted func(netip.Addr) bool, now time.Time) (all []UnlistedProxy) {
	u.mu.Lock()
	seen := u.seen
	u.mu.Unlock()
	slices.SortStableFunc(seen[:], func(a, b unlisted) int { return cmp.Compare(b.requests, a.requests) })
	for _, s := range seen {
		if s.told && s.requests > 0 && now.Sub(s.last) < unlistedLife && !trusted(s.Addr) {
			all = append(all, s.UnlistedProxy)
		}
	}
	return all
}
