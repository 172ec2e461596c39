package rlsgate

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weir"
	"weir/gate/refusal"
	"weir/identify"
)

// authorize answers Envoy. What is not admitted is denied. Nothing that a client sends makes the call an error, as
// Envoy may be configured to let requests pass after an error.
func (g *Gate) authorize(ctx context.Context, req *auth.CheckRequest) (resp *auth.CheckResponse, err error) {
	v, err := g.enter(ctx)
	code := CodeFailed
	defer v.leave(ServiceAuthz, &code, &err)
	if err != nil {
		return nil, err
	}
	if v.setup.authz == nil {
		return nil, status.Error(codes.Unimplemented, "external authorization is not configured")
	}
	code = CodeDenied
	why := v.identify(req.GetAttributes())
	if why != nil {
		return v.deny(*why, nil), nil
	}
	p := v.pass()
	v.setup.authz.Judge(ctx, &v.event, p)
	if p.Answer.Verdict == weir.Wait {
		if err := v.await(ctx, p); err != nil && ctx.Err() != nil {
			return nil, status.FromContextError(err).Err()
		}
	}
	a := &p.Answer
	if a.Ban {
		g.env.Offend(&v.event, a)
	}
	if a.Verdict != weir.Admit {
		return v.deny(refusal.OfUnpayable(a, v.now), a.Figures), nil
	}
	code = CodeOK
	v.settle(true)
	return v.allow(a), nil
}

// identify fills in the event from Envoy's description of a request, or returns what is wrong with it.
func (v *visit) identify(a *auth.AttributeContext) *refusal.Refusal {
	ev := &v.event
	*ev = weir.Event{Time: v.now, Kind: "http"}
	var peer netip.Addr
	if text := a.GetSource().GetAddress().GetSocketAddress().GetAddress(); text != "" {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return badRequest("The source of the request is not an address.")
		}
		peer = identify.Plain(addr)
	}
	h := a.GetRequest().GetHttp()
	if h == nil { // a connection, which Envoy's filter for TCP asks about
		ev.Kind, ev.Source = "tcp", peer
		ev.Account = v.setup.accounts.OfSource(peer)
		return nil
	}
	header := headerOf(h)
	origin := v.setup.proxies.Source(peer, header)
	ev.Source, ev.SourceUnknown = origin.Addr, origin.Unknown
	ev.ID, ev.Agent = requestID(h.Id, header), header.Get("User-Agent")
	u, err := url.ParseRequestURI(h.Path)
	if err != nil && h.Path != "*" && h.Method != http.MethodConnect {
		return badRequest("The path of the request is malformed.")
	}
	if err != nil || u.Path == "*" {
		u = &url.URL{Path: "/"}
	}
	if h.Query != "" && u.RawQuery == "" {
		u.RawQuery = h.Query
	}
	ev.Route = identify.Route(h.Method, h.Host, identify.Escaped(u), header)
	r := http.Request{Method: h.Method, Host: h.Host, URL: u, Header: header}
	account, err := v.setup.accounts.Account(&r, ev.Source)
	if err == nil {
		v.parts, err = v.setup.accounts.PartsOf(v.parts[:0], &r)
		ev.Parts = v.parts
	}
	if err != nil {
		v.gate.env.Observer.Bounded(BoundAccount)
		return badRequest(refusal.Sentence(err))
	}
	ev.Account = account
	return nil
}

func badRequest(detail string) *refusal.Refusal {
	doc := refusal.Problem(http.StatusBadRequest, detail)
	return &doc
}

// headerOf returns the headers of a request. Envoy passes them on as a map, or as they came.
func headerOf(h *auth.AttributeContext_HttpRequest) http.Header {
	header := make(http.Header, len(h.Headers))
	add := func(key, value string) {
		if key != "" && key[0] != ':' {
			key = http.CanonicalHeaderKey(key)
			header[key] = append(header[key], value)
		}
	}
	for key, value := range h.Headers {
		add(key, value)
	}
	for _, hv := range h.GetHeaderMap().GetHeaders() {
		value := hv.Value
		if value == "" {
			value = string(hv.RawValue)
		}
		add(hv.Key, value)
	}
	return header
}

// maxID is how long the id of a request may be.
const maxID = 128

// requestID is the id by which Envoy knows the request, or "" if it is not fit to be shown.
func requestID(id string, header http.Header) string {
	if given := header.Get("X-Request-Id"); given != "" {
		id = given
	}
	if len(id) > maxID || strings.ContainsFunc(id,
		func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
		return ""
	}
	return id
}
