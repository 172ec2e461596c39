package httpgate

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
	"sync"

	"weir/gate/httpgate/pages"
	"weir/identify"
)

// An onward is the request that goes to the upstream. It is used again and again: its memory is a good part of what
// passing a request on costs. One with a body is not, as its sender may look at it for a moment longer.
type onward struct {
	request http.Request
	header  http.Header
	values  [6]string // of the headers that the gate adds
	used    int
}

var onwards = sync.Pool{New: func() any { return &onward{header: http.Header{}} }}

// set sets a header that has one value.
func (o *onward) set(name, value string) {
	if o.used == len(o.values) {
		o.header[name] = []string{value}
		return
	}
	o.values[o.used] = value
	o.header[name] = o.values[o.used : o.used+1 : o.used+1]
	o.used++
}

func (o *onward) free() {
	clear(o.header)
	*o = onward{header: o.header}
	onwards.Put(o)
}

// forward passes the request on and its answer back.
func (x *exchange) forward() {
	in := x.r
	if x.hasBody() {
		x.breakable() // while nobody reads the body, net/http does not notice that the client leaves
	}
	o := onwards.Get().(*onward)
	x.makeOnward(o)
	upgrade := ""
	if o.header["Upgrade"] != nil {
		upgrade = o.header["Upgrade"][0]
	}
	out := &o.request
	if x.hasBody() {
		out = out.WithContext(x.ctx) // a copy, which outlives this function
		x.wrapBody(out)
	}
	res, err := x.setup.servers.Do(out, x)
	if !x.hasBody() {
		defer o.free()
	}
	if err != nil {
		x.failed(err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		x.upgrade(res, upgrade)
		return
	}
	x.respond(res, in.Method)
}

// makeOnward writes the request that goes to the upstream: without what concerns one connection only, with what the
// gate has to say.
func (x *exchange) makeOnward(o *onward) {
	in, s := x.r, x.setup
	o.request = *in
	out := &o.request
	out.Header, out.Close, out.TransferEncoding, out.Trailer = o.header, false, nil, nil
	upgrade := upgradeOf(in.Header)
	copyEndToEnd(o.header, in.Header)
	for name := range o.header {
		if aboutOrigin(name) && !x.believed(name) || framesByAnotherName(name) || rewritesTarget(name) ||
			s.accounts.Alias(name) {
			delete(o.header, name)
		}
	}
	if x.cookies {
		if lines := s.accounts.Cookies(in.Header["Cookie"]); lines != nil {
			o.header["Cookie"] = lines
		} else {
			delete(o.header, "Cookie")
		}
	}
	if hasWord(in.Header["Te"], "trailers") {
		o.set("Te", "trailers")
	}
	if upgrade != "" && !dangerousUpgrade(upgrade) {
		o.header["Connection"], o.header["Upgrade"] = []string{"Upgrade"}, []string{upgrade}
	}
	if s.till != nil {
		pages.Strip(o.header)
	}
	x.forwardHeaders(in, o)
	o.set("X-Request-Id", x.event.ID)
	s.request.apply(o.header)
}

// wrapBody puts the gate's bounds around the body of the request that goes to the upstream.
func (x *exchange) wrapBody(out *http.Request) {
	b := &requestBody{x: x, src: out.Body, bound: int64(x.setup.opts.Bounds.Body)}
	if len(x.r.Trailer) > 0 {
		out.Trailer = make(http.Header, len(x.r.Trailer))
		for name := range x.r.Trailer {
			if x.trails(name) {
				out.Trailer[name] = nil
			}
		}
		if len(out.Trailer) == 0 {
			out.Trailer = nil
		}
		b.trailer = out.Trailer
	}
	out.Body = b
}

// believed reports whether a field about the origin may go on as it came. A trusted proxy that does not write
// X-Real-IP hands on what its client wrote, so that must say what the gate goes by.
func (x *exchange) believed(name string) bool {
	if !x.origin.Proxied || isRewritten(name) {
		return false
	}
	if name != "X-Real-Ip" {
		return true
	}
	values := x.r.Header[name]
	addr, err := netip.ParseAddr(values[0])
	return err == nil && len(values) == 1 && identify.Plain(addr) == x.origin.Addr
}

// isRewritten reports whether a field is one that the gate always writes itself, or has signs in its name that some
// servers take for '-'.
func isRewritten(name string) bool {
	switch name {
	case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id":
		return true
	}
	return strings.ContainsAny(name, signs)
}

// signs may stand in the name of a field, besides '-' (RFC 9110, 5.6.2).
const signs = "!#$%&'*+.^_`|~"

// aboutOrigin reports whether a field says where a request came from, or is one that some servers take for such a
// field, as they know no difference between two signs. Only trusted proxies may say more of it than the gate does, and
// in a proper way.
func aboutOrigin(name string) bool {
	const more = "X-Forwarded-"
	if len(name) < len("Forwarded") || name[0] != 'X' && name[0] != 'F' {
		return false
	}
	return name == "Forwarded" || identify.Alike(name, "X-Real-Ip") || identify.Alike(name, "X-Request-Id") ||
		len(name) > len(more) && identify.Alike(name[:len(more)], more)
}

// framesByAnotherName reports whether a field is one to many servers on which hangs where a message ends.
func framesByAnotherName(name string) bool {
	return name != "Content-Length" && identify.Alike(name, "Content-Length") || name != "Transfer-Encoding" &&
		identify.Alike(name, "Transfer-Encoding")
}

// rewritesTarget reports whether a field tells some servers that the request is for another path than its target
// says, past every rule.
func rewritesTarget(name string) bool {
	return identify.Alike(name, "X-Original-Url") || identify.Alike(name, "X-Rewrite-Url")
}

// trails reports whether a field may come behind the body of a request: not one that says where the request came
// from, who sends it, what it is for or where it ends, as servers may take trailers for headers.
func (x *exchange) trails(name string) bool {
	if x.setup.accounts.Names(name) || rewritesTarget(name) {
		return false
	}
	name = http.CanonicalHeaderKey(strings.Map(func(r rune) rune {
		if strings.ContainsRune(signs, r) {
			return '-'
		}
		return r
	}, name))
	switch name {
	case "Authorization", "Cookie", "Content-Length", "Content-Encoding", "Content-Type", "Content-Range", "Expect",
		"Host":
		return false
	}
	return !hopByHop(name) && !aboutOrigin(name)
}

// Ends are the addresses of the client and of the gate, for the PROXY protocol.
func (x *exchange) Ends() (client, local netip.AddrPort) {
	client = netip.AddrPortFrom(x.origin.Addr, 0)
	if ap, err := netip.ParseAddrPort(x.r.RemoteAddr); err == nil && !x.origin.Proxied {
		client = netip.AddrPortFrom(x.origin.Addr, ap.Port())
	}
	if x.conn != nil {
		if tcp, ok := x.conn.LocalAddr().(*net.TCPAddr); ok {
			local = tcp.AddrPort()
		}
	}
	return client, local
}

// Early passes an informational answer on.
func (x *exchange) Early(status int, header http.Header) error {
	h := x.w.Header()
	copyEndToEnd(h, header)
	x.WriteHeader(status)
	clear(h)
	return nil
}

// Waits tells that the answer takes its time. From now on somebody watches whether the client leaves.
func (x *exchange) Waits() context.Context {
	if x.alone() {
		x.breakable()
		x.watchLeaving()
	}
	return x.ctx
}

// Sent tells that the request has been written. Those who wait go one after the other: the next one when this one has
// been written. A body may take its time, so that the headers must do where there is one.
func (x *exchange) Sent() {
	if x.waited {
		x.pass.Away(x.gate.env.Clock.Now())
	}
}

// hopByHop reports whether a header is about one connection and not about the message (RFC 9110, section 7.6.1, and
// what came before it).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// copyEndToEnd adds the headers of a message that are passed on. The values are shared, and not changed by anybody.
func copyEndToEnd(to, from http.Header) {
	for name, values := range from {
		if !hopByHop(name) {
			if before := to[name]; before != nil {
				values = append(before[:len(before):len(before)], values...)
			}
			to[name] = values
		}
	}
	for _, list := range from["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = textproto.TrimString(name); name != "" {
				delete(to, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	}
}

// upgradeOf is what a message wants to turn its connection into, if anything.
func upgradeOf(h http.Header) string {
	if u := h["Upgrade"]; len(u) > 0 && hasWord(h["Connection"], "upgrade") {
		return u[0]
	}
	return ""
}

// hasWord looks for a word in lists of them, whatever its case.
func hasWord(lists []string, word string) bool {
	for _, list := range lists {
		for part := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(textproto.TrimString(part), word) {
				return true
			}
		}
	}
	return false
}

// dangerousUpgrade reports whether an upgrade would turn the connection into one for more HTTP, whose requests would
// reach the upstream without passing a throttle.
func dangerousUpgrade(protocols string) bool {
	for protocol := range strings.SplitSeq(strings.ToLower(protocols), ",") {
		protocol = strings.TrimSpace(protocol)
		if strings.HasPrefix(protocol, "h2") || strings.HasPrefix(protocol, "http") ||
			strings.HasPrefix(protocol, "tls") {
			return true
		}
	}
	return false
}

// forwardHeaders tells the upstream where the request came from. What the peer says is passed on only where it is
// believed; anything else is replaced, so that nobody can tell the upstream another story than the gate goes by.
func (x *exchange) forwardHeaders(in *http.Request, o *onward) {
	peer := x.origin.Addr
	if x.conn != nil {
		peer = x.conn.peer
	} else if ap, err := netip.ParseAddrPort(in.RemoteAddr); err == nil {
		peer = ap.Addr().Unmap()
	}
	spoken, host := "http", in.Host
	if in.TLS != nil {
		spoken = "https"
	}
	proto := spoken
	if x.origin.Proxied {
		if v := in.Header.Get("X-Forwarded-Proto"); v == "http" || v == "https" {
			proto = v
		}
		if v := in.Header.Get("X-Forwarded-Host"); v != "" {
			host = v
		}
	}
	var room [128]byte
	b := room[:0]
	switch {
	case x.origin.Forwarded && identify.WellForwarded(in.Header["Forwarded"]):
		b = append(append(b, strings.Join(in.Header["Forwarded"], ", ")...), ", "...)
	case x.origin.Forwarded:
		// A client broke the grammar left of what the proxies wrote. The upstream is told what the gate made of it.
		b, _, _ = appendFor(b, x.origin.Addr)
		b = append(b, ", "...)
	}
	b, from, to := appendFor(b, peer)
	if in.Host != "" { // HTTP/1.0 may have none
		b = appendHost(append(b, ";host="...), in.Host)
	}
	forwarded := string(append(append(b, ";proto="...), spoken...))
	address := forwarded[from:to] // no memory of its own
	if x.origin.XForwardedFor {
		prior := strings.Join(in.Header["X-Forwarded-For"], ", ")
		if address != "" {
			prior += ", " + address
		}
		address = prior
	}
	if address != "" {
		o.set("X-Forwarded-For", address)
	}
	o.set("X-Forwarded-Proto", proto)
	if host != "" {
		o.set("X-Forwarded-Host", host)
	}
	o.set("Forwarded", forwarded)
}

// appendFor writes an address as the "for" of an element (RFC 7239, 6), and returns where the bare address stands.
func appendFor(b []byte, addr netip.Addr) (_ []byte, from, to int) {
	b = append(b, "for="...)
	switch {
	case addr.Is6():
		b = append(b, `"[`...)
		from = len(b)
		b = addr.AppendTo(b)
		to = len(b)
		b = append(b, `]"`...)
	case addr.IsValid():
		from = len(b)
		b = addr.AppendTo(b)
		to = len(b)
	default: // on a socket of this machine
		b = append(b, "unknown"...)
	}
	return b, from, to
}

// appendHost writes a host as a token where it is one, and else as a quoted string. Hosts that net/http lets through
// have neither quotes nor backslashes that would need an escape, but a proxy should not count on that.
func appendHost(b []byte, host string) []byte {
	token := host != ""
	for i := range len(host) {
		token = token && tokenBytes[host[i]]
	}
	if token {
		return append(b, host...)
	}
	b = append(b, '"')
	for i := range len(host) {
		if host[i] == '"' || host[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, host[i])
	}
	return append(b, '"')
}
