package authgate

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"weir/identify"
)

// The headers that proxies tell of a request in.
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
	errNoURI    malformedError = "the header with the URI of the request is missing, or there twice"
	errNoMethod malformedError = "the header with the method of the request is missing, or there twice"
	errHost     malformedError = "the header with the host of the request is there twice"
	errMethod   malformedError = "the method of the request is none"
	errURI      malformedError = "the URI of the request is not a path with or without a query"
	errEscapes  malformedError = "the path of the request has wrong escapes"
	errNoSource malformedError = "no header says where the request came from"
	errSources  malformedError = "the headers name different clients: X-Real-IP and X-Forwarded-For"
	errRealIP   malformedError = "X-Real-IP is no address, or there twice"
)

// dialect returns in whose words a question is put: Nginx, or HAProxy for all who use the others'.
func (s *setup) dialect(h http.Header) (Dialect, error) {
	switch s.opts.For {
	case Nginx:
		return Nginx, nil
	case Auto:
		// Proxies hand on what clients write. Only the headers that the proxy itself writes, always, can be believed;
		// where those of another kind are there as well, some client has written one of them.
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
	// For nginx a path ends at '#', and a query too, though it hands all of it on. identify.Route knows that of paths.
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

// readSource finds out where the request came from: the right-most address in X-Forwarded-For that is not one of a
// trusted proxy, or X-Real-IP. nginx hands on what a client wrote into the one that the operator forgot, so that both
// must say the same; the other proxies write X-Forwarded-For always, and X-Real-IP is not looked at.
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
		// of a trusted proxy in front, X-Forwarded-For says who was in front of that
		return errSources
	}
	return nil
}
