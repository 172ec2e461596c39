package httpgate

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/http/httpguts"

	"weir/gate/httpgate/pages"
	"weir/identify"
	"weir/internal/http1"
	behind "weir/upstream"
)

// onwards are calls to the upstream whose memory is used again, except for a request with a body, whose sender may look
// at it for a moment longer.
var onwards = sync.Pool{New: func() any { return new(onward) }}

// An onward is a call to the upstream.
type onward struct {
	behind.Call
	request http.Request
}

func (o *onward) free() {
	if o.Request == &o.request {
		o.request = http.Request{}
	}
	o.Reset()
	onwards.Put(o)
}

// forward passes the request on and its answer back.
func (x *exchange) forward() {
	if x.hasBody() {
		x.breakable() // only a watch notices that the client leaves while nobody reads the body
	}
	o := onwards.Get().(*onward)
	x.makeOnward(o)
	if x.hasBody() {
		o.Request = o.Request.WithContext(x.ctx) // a copy, which outlives this function
		x.wrapBody(o.Request)
	}
	var err error
	if !x.parsedHere() {
		err = behind.Sendable(&o.Call)
	}
	if err == nil {
		err = x.setup.servers.Send(&o.Call, x)
	}
	if !x.hasBody() {
		defer o.free()
	}
	if err != nil {
		x.failed(err)
		return
	}
	defer o.Body.Close()
	if o.Answer.Status == http.StatusSwitchingProtocols {
		x.upgrade(&o.Call)
		return
	}
	x.respond(&o.Call)
}

// makeOnward makes the request that goes to the upstream: without headers about one connection, with those of the gate.
func (x *exchange) makeOnward(o *onward) {
	in, s := x.fields, x.setup
	if o.Request = x.r; x.bodied || x.r.Close { // or else it is all the same
		o.request = *x.r
		o.request.Header, o.request.Close, o.request.TransferEncoding, o.request.Trailer = nil, false, nil, nil
		o.Request = &o.request
	}
	if x.reply != nil && x.reply.session.plain {
		o.Target = x.r.RequestURI
	}
	f := &o.Fields
	named := namedBy(in)
	cookies := x.cookies
	for i := range in.Len() {
		name, _ := in.At(i)
		switch {
		case hopByHop(name) || slices.Contains(named, name):
		case aboutOrigin(name) && !x.believed(name) || framesByAnotherName(name) || rewritesTarget(name) ||
			identify.OverridesByAnotherName(name) || s.accounts.Alias(name):
		case name == "Cookie" && x.cookies:
			if cookies {
				cookies = false
				for _, line := range s.accounts.Cookies(in.Values("Cookie")) {
					f.Add(name, line)
				}
			}
		default:
			f.Copy(in, i)
		}
	}
	if httpguts.HeaderValuesContainsToken(in.Values("Te"), "trailers") {
		f.Set("Te", "trailers")
	}
	if upgrade := upgradeOf(in); upgrade != "" && !dangerousUpgrade(upgrade) {
		f.Set("Connection", "Upgrade")
		f.Set("Upgrade", upgrade)
	}
	if s.stamps {
		pages.Strip(f)
	}
	x.forwardHeaders(f)
	f.Set("X-Request-Id", x.event.ID)
	f.Set(hopsHeader, written[x.hops()])
	x.traceOnward(f)
	x.cutPrefix(o)
	s.request.apply(f)
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

// believed reports whether a field about the origin may go on as it came. A trusted proxy that does not write X-Real-IP
// passes on what its client wrote, so that it must name the source that the gate found.
func (x *exchange) believed(name string) bool {
	if !x.origin.Proxied || isRewritten(name) {
		return false
	}
	if name != "X-Real-Ip" {
		return true
	}
	values := x.fields.Values(name)
	addr, err := netip.ParseAddr(values[0])
	return err == nil && len(values) == 1 && identify.Plain(addr) == x.origin.Addr
}

// isRewritten reports whether the gate always writes a field itself, or its name has signs that some servers take for
// '-'.
func isRewritten(name string) bool {
	switch name {
	case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Request-Id":
		return true
	}
	return strings.ContainsAny(name, signs)
}

// signs may stand in the name of a field, besides '-' (RFC 9110, 5.6.2).
const signs = "!#$%&'*+.^_`|~"

// aboutOrigin reports whether a field says where a request came from, or some servers take it for such a field, as they
// do not tell two signs apart. Only trusted proxies may add such fields.
func aboutOrigin(name string) bool {
	const more = "X-Forwarded-"
	if len(name) < len("Forwarded") || name[0] != 'X' && name[0] != 'F' {
		return false
	}
	return name == "Forwarded" || identify.Alike(name, "X-Real-Ip") || identify.Alike(name, "X-Request-Id") ||
		len(name) > len(more) && identify.Alike(name[:len(more)], more)
}

// framesByAnotherName reports whether many servers take a field for one that says where a message ends.
func framesByAnotherName(name string) bool {
	return name != "Content-Length" && identify.Alike(name, "Content-Length") || name != "Transfer-Encoding" &&
		identify.Alike(name, "Transfer-Encoding")
}

// rewritesTarget reports whether a field names another path than the target to some servers, past every rule.
func rewritesTarget(name string) bool {
	return identify.Alike(name, "X-Original-Url") || identify.Alike(name, "X-Rewrite-Url")
}

// trails reports whether a field may be a trailer. Servers may take trailers for headers, so that none may say where
// the request came from, who sends it, what it is for or where it ends.
func (x *exchange) trails(name string) bool {
	if x.setup.accounts.Names(name) || rewritesTarget(name) || identify.OverridesMethod(name) {
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
func (x *exchange) Early(status int, f *http1.Fields) error {
	x.passOn(f)
	x.taking.Add(1)
	x.WriteHeader(status)
	x.taking.Add(-1)
	clear(x.w.Header())
	return nil
}

// Waits is called when the answer takes its time. From now on there is a watch for a client that leaves.
func (x *exchange) Waits() context.Context {
	x.slow = true
	x.waits()
	if x.alone() {
		x.watchLeaving()
	}
	return x.ctx
}

// Received reports whether all of the request has come from the client.
func (x *exchange) Received() bool { return !x.hasBody() || x.bodyRead.Load() }

// Sent is called when the request has been written, or its headers if it has a body. Only then does the next of those
// that waited go on.
func (x *exchange) Sent() {
	if x.waited {
		x.pass.Away(x.gate.env.Clock.Now())
	}
}

// hopByHop reports whether a header is about one connection (RFC 9110, section 7.6.1, and its predecessors).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// copyEndToEnd adds the headers of a message that are passed on.
func copyEndToEnd(to http.Header, from *http1.Fields) {
	values := make([]string, from.Len())
	for i, named := 0, namedBy(from); i < from.Len(); i++ {
		name, value := from.At(i)
		if hopByHop(name) || slices.Contains(named, name) {
			continue
		}
		values[i] = value
		if before := to[name]; before != nil {
			to[name] = append(before, value)
		} else {
			to[name] = values[i : i+1 : i+1]
		}
	}
}

// passOn is copyEndToEnd for the answer under way.
func (x *exchange) passOn(from *http1.Fields) {
	if x.reply == nil {
		copyEndToEnd(x.w.Header(), from)
		return
	}
	for i, named := 0, namedBy(from); i < from.Len(); i++ {
		if name, _ := from.At(i); !hopByHop(name) && !slices.Contains(named, name) {
			x.reply.passed.Copy(from, i)
		}
	}
}

// namedBy returns the headers that Connection names: they are about one connection too.
func namedBy(f *http1.Fields) (all []string) {
	for _, list := range f.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			switch name = textproto.TrimString(name); name {
			case "", "close", "keep-alive", "Keep-Alive", "upgrade", "Upgrade": // these are left out anyway
			default:
				all = append(all, textproto.CanonicalMIMEHeaderKey(name))
			}
		}
	}
	return all
}

// upgradeOf is the protocol that a message wants its connection to switch to, or empty.
func upgradeOf(f *http1.Fields) string {
	if u := f.Get("Upgrade"); u != "" && httpguts.HeaderValuesContainsToken(f.Values("Connection"), "upgrade") {
		return u
	}
	return ""
}

// dangerousUpgrade reports whether an upgrade leads to more HTTP, whose requests would pass no throttle.
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

// forwardHeaders tells the upstream where the request came from. What the peer says is passed on only if the gate
// believes it, so that gate and upstream go by the same source.
func (x *exchange) forwardHeaders(f *http1.Fields) {
	in := x.fields
	told := x.told()
	if told != nil && told.host == x.r.Host && told.forwarded != "" {
		told.add(f)
		return
	}
	spoken, host := "http", x.r.Host
	if x.r.TLS != nil {
		spoken = "https"
	}
	proto := spoken
	if x.origin.Proxied {
		if v := in.Get("X-Forwarded-Proto"); v == "http" || v == "https" {
			proto = v
		}
		if v := in.Get("X-Forwarded-Host"); v != "" {
			host = v
		}
	}
	var room [128]byte
	b := room[:0]
	switch {
	case x.origin.Forwarded && identify.WellForwarded(in.Values("Forwarded")):
		b = append(append(b, strings.Join(in.Values("Forwarded"), ", ")...), ", "...)
	case x.origin.Forwarded:
		// A client broke the grammar left of what the proxies wrote. The upstream gets the source that the gate found.
		b, _, _ = appendFor(b, x.origin.Addr)
		b = append(b, ", "...)
	}
	b, from, to := appendFor(b, x.peer())
	if x.r.Host != "" { // HTTP/1.0 may have none
		b = appendHost(append(b, ";host="...), x.r.Host)
	}
	forwarded := string(append(append(b, ";proto="...), spoken...))
	address := forwarded[from:to] // no memory of its own
	if x.origin.XForwardedFor {
		prior := strings.Join(in.Values("X-Forwarded-For"), ", ")
		if address != "" {
			prior += ", " + address
		}
		address = prior
	}
	o := origin{forwarded, address, host, proto}
	if told != nil {
		*told = o
		if x.reply == nil {
			x.conn.told.Store(told)
		}
	}
	o.add(f)
}

// An origin is what the upstream is told about where requests come from.
type origin struct{ forwarded, address, host, proto string }

func (o *origin) add(f *http1.Fields) {
	f.Set("Forwarded", o.forwarded)
	if o.address != "" {
		f.Set("X-Forwarded-For", o.address)
	}
	if o.host != "" {
		f.Set("X-Forwarded-Host", o.host)
	}
	f.Set("X-Forwarded-Proto", o.proto)
}

// told is what was said about the last request of the same connection. It is the same for the next one to that host,
// unless a proxy says who sends it; then there is none.
func (x *exchange) told() *origin {
	if x.origin.Proxied || x.origin.Forwarded || x.origin.XForwardedFor || x.reply == nil && x.conn == nil {
		return nil
	}
	if x.reply != nil {
		return &x.reply.session.told
	}
	if o := x.conn.told.Load(); o != nil && o.host == x.r.Host { // other streams may look at it
		return o
	}
	return new(origin)
}

// appendFor writes an address as the "for" of an element (RFC 7239, 6), and returns where the bare address stands.
func appendFor(b []byte, addr netip.Addr) (_ []byte, from, to int) {
	b = append(b, "for="...)
	if !addr.IsValid() { // on a socket of this machine
		return append(b, "unknown"...), 0, 0
	}
	if addr.Is6() {
		b = append(b, `"[`...)
	}
	from = len(b)
	b = addr.AppendTo(b)
	to = len(b)
	if addr.Is6() {
		b = append(b, `]"`...)
	}
	return b, from, to
}

// appendHost writes a host as a token if it is one, and else as a quoted string. net/http lets no quotes and
// backslashes through, but a proxy should not count on that.
func appendHost(b []byte, host string) []byte {
	if http1.IsToken(host) {
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
