package httpgate

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// parse makes a request of a head that the framing has checked. What net/http's server would refuse is refused here
// too, with the status that is returned.
func (s *session) parse(head []byte) (*http.Request, int) {
	text := string(head) // one allocation for all of it
	line, rest, _ := strings.Cut(text, "\r\n")
	method, target, ok1 := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(target, " ")
	if !ok1 || !ok2 {
		return nil, http.StatusBadRequest
	}
	r := &s.request
	*r = *s.blank
	r.Method, r.RequestURI, r.Proto, r.RemoteAddr = method, target, version, s.remote
	switch version {
	case "HTTP/1.1":
		r.ProtoMajor, r.ProtoMinor = 1, 1
	case "HTTP/1.0":
		r.ProtoMajor = 1
	default:
		return nil, http.StatusBadRequest
	}
	if r.URL = parseTarget(&s.url, method, target); r.URL == nil {
		return nil, http.StatusBadRequest
	}
	n := strings.Count(rest, "\r\n") - 1
	if s.header == nil {
		s.header = make(http.Header, 8)
	}
	clear(s.header)
	r.Header = s.header
	if cap(s.values) < n {
		s.values = make([]string, n+4)
	}
	values := s.values[:n]
	hosts, length, chunked := 0, int64(0), false
	for i := range n {
		line, rest, _ = strings.Cut(rest, "\r\n")
		colon := strings.IndexByte(line, ':')
		if colon <= 0 || line[0] == ' ' || line[0] == '\t' {
			return nil, http.StatusBadRequest
		}
		name, value := textproto.CanonicalMIMEHeaderKey(line[:colon]), strings.Trim(line[colon+1:], " \t")
		switch name {
		case "Host":
			hosts++
			r.Host = value
			continue
		case "Content-Length":
			for _, c := range []byte(value) {
				length = length*10 + int64(c-'0')
			}
		case "Transfer-Encoding":
			chunked = true
			continue
		}
		if known := r.Header[name]; known != nil {
			r.Header[name] = append(known, value)
			continue
		}
		values[i] = value
		r.Header[name] = values[i : i+1 : i+1]
	}
	if hosts > 1 || r.Host == "" && r.ProtoMinor == 1 && method != http.MethodConnect || !validHost(r.Host) {
		return nil, http.StatusBadRequest
	}
	if r.URL.Host != "" { // RFC 9112, section 3.2.2: the target overrides Host
		if r.Host = r.URL.Host; !validHost(r.Host) {
			return nil, http.StatusBadRequest
		}
	}
	if connection := r.Header["Connection"]; r.ProtoMinor == 0 {
		r.Close = !httpguts.HeaderValuesContainsToken(connection, "keep-alive")
	} else if connection != nil {
		r.Close = httpguts.HeaderValuesContainsToken(connection, "close")
	}
	if names := r.Header["Trailer"]; names != nil && chunked && !announceTrailers(r, names) {
		return nil, http.StatusBadRequest
	}
	r.ContentLength = length
	if chunked {
		r.ContentLength, r.TransferEncoding = -1, chunkedCoding
		delete(r.Header, "Content-Length")
	}
	if chunked || length > 0 { // the sender of the body may look at the request for a moment longer
		own, u := *r, *r.URL
		own.URL = &u
		r, s.header, s.values = &own, nil, nil
	}
	s.beginBody(r, chunked)
	return r, 0
}

var chunkedCoding = []string{"chunked"}

// announceTrailers moves the names of trailers to r.Trailer. It reports false for one that frames the request.
func announceTrailers(r *http.Request, lists []string) bool {
	delete(r.Header, "Trailer")
	for _, list := range lists {
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
