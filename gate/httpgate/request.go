package httpgate

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"weir/internal/http1"
)

// Why a head that is well formed is no request for the gate.
const (
	errTarget   = http1.Mistake("malformed request target")
	errHost     = http1.Mistake("malformed or missing host")
	errTrailing = http1.Mistake("a trailer that frames or routes the message")
)

// parse makes a request of a head, for whoever wants one as net/http has it. It has no Header: that is built only for
// those who need it (exchange.full). What net/http's server would refuse is refused here too.
func (s *session) parse() (*http.Request, error) {
	h, r := s.head, &s.request
	forget(r)
	s.fields = &h.Fields
	r.Method, r.RequestURI, r.RemoteAddr, r.Host = h.Method, h.Target, s.remote, h.Host
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, h.Minor
	r.Close = h.Close
	if h.Minor == 0 {
		r.Proto, r.Close = "HTTP/1.0", !h.KeepAlive
	}
	r.URL = parseTarget(&s.url, h.Method, h.Target)
	s.plain = r.URL == &s.url
	if r.URL == nil {
		return nil, errTarget
	}
	if h.Hosts() > 1 || h.Host == "" && h.Minor == 1 && h.Method != http.MethodConnect || !s.goodHost(h.Host) {
		return nil, errHost
	}
	if r.URL.Host != "" { // RFC 9112, section 3.2.2: the target overrides Host
		if r.Host = r.URL.Host; !validHost(r.Host) {
			return nil, errHost
		}
	}
	if !h.Chunked && h.Length <= 0 {
		s.body, r.Body = nil, http.NoBody
		return r, nil
	}
	// The sender of the body may look at the request for a moment longer.
	own, u := *r, *r.URL
	own.URL, r = &u, &own
	if r.ContentLength = h.Length; h.Chunked {
		r.ContentLength, r.TransferEncoding = -1, chunkedCoding
		if !announceTrailers(r, h) {
			return nil, errTrailing
		}
	}
	s.beginBody(r, h)
	s.head = new(http1.Head)
	return r, nil
}

// forget empties a request, but for its context: that is the same for all requests of a connection.
func forget(r *http.Request) {
	r.Method, r.URL, r.Proto, r.ProtoMajor, r.ProtoMinor, r.Header = "", nil, "", 0, 0, nil
	r.Body, r.GetBody, r.ContentLength, r.TransferEncoding, r.Close, r.Host = nil, nil, 0, nil, false, ""
	r.Form, r.PostForm, r.MultipartForm, r.Trailer, r.RemoteAddr, r.RequestURI = nil, nil, nil, nil, "", ""
	r.TLS, r.Response, r.Pattern = nil, nil, ""
}

// goodHost is validHost. Most requests of a connection have the host of the one before.
func (s *session) goodHost(host string) bool {
	if host == s.host && host != "" {
		return true
	}
	if !validHost(host) {
		return false
	}
	s.host = host
	return true
}

var chunkedCoding = []string{"chunked"}

// announceTrailers moves the names of trailers to r.Trailer. It reports false for one that frames the request.
func announceTrailers(r *http.Request, h *http1.Head) bool {
	for _, list := range h.Fields.Values("Trailer") {
		for name := range strings.SplitSeq(list, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			switch name {
			case "":
				continue
			case "Transfer-Encoding", "Trailer", "Content-Length":
				return false
			}
			if r.Trailer == nil {
				r.Trailer = http.Header{}
			}
			r.Trailer[name] = nil
		}
	}
	h.Fields.Del("Trailer")
	return true
}

// parseTarget reads the target of a request. A plain path, as most are, goes into u without an allocation.
func parseTarget(u *url.URL, method, target string) *url.URL {
	path, query, asked := strings.Cut(target, "?")
	plain := len(path) > 0 && path[0] == '/'
	for i := range len(path) {
		plain = plain && plainPath[path[i]]
	}
	if plain && (query != "" || !asked) {
		*u = url.URL{Path: path, RawQuery: query}
		return u
	}
	authority := method == http.MethodConnect && !strings.HasPrefix(target, "/")
	if authority {
		target = "http://" + target
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	if authority {
		u.Scheme = ""
		return u
	}
	if !validTarget(u) {
		return nil
	}
	return u
}

// validTarget reports whether u is a path, or a URL of HTTP with a host and without a user (RFC 9110, sections 4.2.1
// and 4.2.4).
func validTarget(u *url.URL) bool {
	return u.Scheme == "" || (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

// plainPath are the bytes that stand for themselves in a path, escaped or not.
var plainPath = byteSet("$&+,/:;=@-_.~")

// validHost reports whether host is one, with a port or without. HTTP/1.0 may have an empty one.
func validHost(host string) bool {
	if !httpguts.ValidHostHeader(host) {
		return false
	}
	name, port := host, ""
	if at := strings.LastIndexByte(host, ':'); at >= 0 && strings.IndexByte(host[at:], ']') < 0 {
		name, port = host[:at], host[at+1:]
	}
	if len(port) > 5 || strings.Trim(port, "0123456789") != "" || len(port) == 5 && port > "65535" {
		return false
	}
	if inside, ok := strings.CutPrefix(name, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		return ok && inside != "" && !strings.ContainsAny(inside, "[]")
	}
	return !strings.ContainsAny(name, "[]:")
}
