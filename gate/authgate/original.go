package authgate

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"weir/identify"
)

// The headers in which proxies describe a request.
const (
	originalURI     = "X-Original-Uri"
	originalMethod  = "X-Original-Method"
	originalHost    = "X-Original-Host"
	realIP          = "X-Real-Ip"
	forwardedURI    = "X-Forwarded-Uri"
	forwardedMethod = "X-Forwarded-Method"
	forwardedHost   = "X-Forwarded-Host"
	forwardedFor    = "X-Forwarded-For"
)

// An original is the request that is asked about.
type original struct {
	method string
	host   string // as the client wrote it
	raw    string // the path as it came
	path   string // unescaped
	query  string
	source netip.Addr
	broken bool // the list of addresses breaks off: the source is the proxy that reported it
}

// A malformedError says why a question cannot be answered. Such a question is never admitted.
type malformedError string

func (e malformedError) Error() string { return string(e) }

// What may be wrong with a question.
const (
	errNothing malformedError = "no header says what the request was: neither X-Original-URI nor X-Forwarded-Uri " +
		"is there"
	errBothKinds malformedError = "the headers of two kinds of proxies are there, X-Original-… and X-Forwarded-Uri " +
		"or -Method: write which one asks (for:)"
	errNoURI    malformedError = "the header with the URI of the request is missing, or comes twice"
	errNoMethod malformedError = "the header with the method of the request is missing, or comes twice"
	errHost     malformedError = "the header with the host of the request comes twice"
	errMethod   malformedError = "the method of the request is not valid"
	errURI      malformedError = "the URI of the request is not a path with or without a query"
	errEscapes  malformedError = "the path of the request has wrong escapes"
	errNoSource malformedError = "no header says where the request came from"
	errSources  malformedError = "the headers name different clients: X-Real-IP and X-Forwarded-For"
	errRealIP   malformedError = "X-Real-IP is not an address, or comes twice"
)

// dialect returns which headers a question uses: those of Nginx, or HAProxy for all other proxies.
func (s *setup) dialect(h http.Header) (Dialect, error) {
	switch s.opts.For {
	case Nginx:
		return Nginx, nil
	case Auto:
		// Proxies pass on what clients write. Only headers that the proxy itself always writes can be believed. Where
		// those of another kind are there as well, a client has written one of them.
		nginx := has(h, originalURI) || has(h, originalMethod)
		others := has(h, forwardedURI) || has(h, forwardedMethod)
		switch {
		case nginx && others:
			return Nginx, errBothKinds
		case nginx:
			return Nginx, nil
		case !others:
			return HAProxy, errNothing
		}
	}
	return HAProxy, nil
}

func has(h http.Header, name string) bool { return len(h[name]) > 0 }

// read reads from the headers what the request was. The peer is a trusted proxy.
func (o *original) read(d Dialect, peer netip.Addr, p *identify.Proxies, h http.Header) error {
	uri, method, host := forwardedURI, forwardedMethod, forwardedHost
	if d == Nginx {
		uri, method, host = originalURI, originalMethod, originalHost
	}
	var ok bool
	if o.method, ok = only(h[method]); !ok {
		return errNoMethod
	}
	if len(o.method) > maxMethod || !httpguts.ValidHeaderFieldName(o.method) { // a method is a token, too
		return errMethod
	}
	if len(h[host]) > 1 {
		return errHost
	}
	o.host, _ = only(h[host]) // HTTP/1.0 needs none
	text, ok := only(h[uri])
	if !ok {
		return errNoURI
	}
	if err := o.readURI(text); err != nil {
		return err
	}
	return o.readSource(d, peer, p, h)
}

// only returns the one value of a header.
func only(values []string) (string, bool) {
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	return values[0], true
}

// maxMethod is how long a method may be. None that is registered is longer.
const maxMethod = 32

// readURI takes a path and a query apart. Proxies leave the scheme and the host out; a tunnel (CONNECT) and OPTIONS *
// have no path.
func (o *original) readURI(uri string) error {
	if uri[0] != '/' {
		return errURI
	}
	o.raw, o.query, _ = strings.Cut(uri, "?")
	// For nginx a path ends at '#', and a query too, but it passes all of it on. identify.Route handles that for paths.
	o.query, _, _ = strings.Cut(o.query, "#")
	if strings.IndexByte(o.raw, '#') >= 0 {
		o.query = ""
	}
	var err error
	if o.path, err = url.PathUnescape(o.raw); err != nil {
		return errEscapes
	}
	return nil
}

// readSource finds the source of the request: the right-most address in X-Forwarded-For that is not a trusted proxy, or
// X-Real-IP. nginx passes on what a client wrote into a header that its operator did not set, so both headers must
// agree. The other proxies always write X-Forwarded-For, and X-Real-IP is ignored.
func (o *original) readSource(d Dialect, peer netip.Addr, p *identify.Proxies, h http.Header) error {
	listed := has(h, forwardedFor)
	if listed {
		origin := p.Source(peer, h)
		o.source, o.broken = origin.Addr, origin.Unknown
	}
	if d != Nginx || !has(h, realIP) {
		if !listed {
			return errNoSource
		}
		return nil
	}
	text, _ := only(h[realIP])
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return errRealIP
	}
	addr = identify.Plain(addr)
	switch {
	case !listed:
		o.source = addr
	case !p.Trusts(addr) && addr != o.source:
		// if X-Real-IP is a trusted proxy, X-Forwarded-For says who was in front of it
		return errSources
	}
	return nil
}
