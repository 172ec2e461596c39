package httpgate

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
)

// rewrite makes the request that goes to the upstream. The proxy has stripped hop-by-hop and forwarding headers from it.
func (s *setup) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In)
	in, out := pr.In, pr.Out
	out.URL.RawQuery = in.URL.RawQuery
	if s.accounts.Queries() {
		// Where the account is named in the query, the upstream must not read another name there than the gate did: pairs that
		// could be read in several ways are left out.
		out.URL.RawQuery = cleanQuery(in.URL.RawQuery)
	}
	pr.SetURL(s.upstream)
	out.Host = in.Host
	if dangerousUpgrade(out.Header.Get("Upgrade")) {
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	if s.till != nil {
		withoutOurs(out.Header)
	}
	x.forwardHeaders(in, out)
	out.Header.Set("X-Request-Id", x.event.ID)
	if out.Body == nil {
		return
	}
	b := &requestBody{x: x, src: out.Body, bound: int64(s.opts.Bounds.Body)}
	if len(out.Trailer) > 0 {
		b.trailer = out.Trailer
		// In HTTP/1 only a chunked body has trailers; HTTP/2 knows no such thing.
		out.ContentLength = -1
		out.Header.Del("Content-Length")
	}
	out.Body = b
}

// keepTrailers makes room for the trailers of a response: in HTTP/1 only a body without a length has any.
func keepTrailers(res *http.Response) error {
	if len(res.Trailer) > 0 && res.Request.Method != http.MethodHead {
		res.Header.Del("Content-Length")
	}
	return nil
}

// dangerousUpgrade reports whether an upgrade would turn the connection into one for more HTTP, whose requests would reach the
// upstream without passing a throttle.
func dangerousUpgrade(protocols string) bool {
	for protocol := range strings.SplitSeq(strings.ToLower(protocols), ",") {
		protocol = strings.TrimSpace(protocol)
		if strings.HasPrefix(protocol, "h2") || strings.HasPrefix(protocol, "http") || strings.HasPrefix(protocol, "tls") {
			return true
		}
	}
	return false
}

// cleanQuery leaves pairs out that have a semicolon or a wrong escape.
func cleanQuery(query string) string {
	var kept []string
	for pair := range strings.SplitSeq(query, "&") {
		if strings.IndexByte(pair, ';') < 0 && escapesWell(pair) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

func escapesWell(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return false
			}
			i += 2
		}
	}
	return true
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// forwardHeaders tells the upstream where the request came from. What the peer says is passed on only where it is believed;
// anything else is replaced, so that nobody can tell the upstream another story than the gate goes by.
func (x *exchange) forwardHeaders(in, out *http.Request) {
	peer := x.origin.Addr
	if x.conn != nil {
		peer = x.conn.peer
	} else if ap, err := netip.ParseAddrPort(in.RemoteAddr); err == nil {
		peer = ap.Addr().Unmap()
	}
	proto, host := "http", in.Host
	var prior string
	if x.origin.Proxied {
		if v := in.Header.Get("X-Forwarded-Proto"); v == "http" || v == "https" {
			proto = v
		}
		if v := in.Header.Get("X-Forwarded-Host"); v != "" {
			host = v
		}
	}
	if x.origin.XForwardedFor {
		prior = strings.Join(in.Header["X-Forwarded-For"], ", ") + ", "
	}
	out.Header.Set("X-Forwarded-For", prior+peer.String())
	out.Header.Set("X-Forwarded-Proto", proto)
	out.Header.Set("X-Forwarded-Host", host)

	var b strings.Builder
	if x.origin.Forwarded {
		b.WriteString(strings.Join(in.Header["Forwarded"], ", ") + ", ")
	}
	b.WriteString("for=")
	if peer.Is6() {
		b.WriteString(`"[` + peer.String() + `]"`)
	} else {
		b.WriteString(peer.String())
	}
	b.WriteString(";host=" + quotedHost(in.Host) + ";proto=http")
	out.Header.Set("Forwarded", b.String())
}

// quotedHost writes a host as a token where it is one, and else as a quoted string. Hosts that net/http lets through have
// neither quotes nor backslashes that would need an escape, but a proxy should not count on that.
func quotedHost(host string) string {
	if isToken([]byte(host)) {
		return host
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(host) + `"`
}
