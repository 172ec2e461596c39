package httpgate

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"weir"
	"weir/admission"
	"weir/identify"
)

// Options configure one HTTP gate.
type Options struct {
	// The address to listen on: ":8080", "127.0.0.1:8080".
	Listen string `yaml:"listen"`
	// The service behind the gate: http://127.0.0.1:3000. With h2c://, HTTP/2 without TLS is spoken to it; with https://, TLS.
	Upstream string `yaml:"upstream"`
	// Proxies in front of the gate, whose Forwarded and X-Forwarded-For headers are believed. Default: none.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// Which header the trusted proxies maintain: x-forwarded-for, forwarded, or either. With either, a request that brings both
	// and names different sources in them counts as coming from the proxy itself. Default either.
	ForwardedHeader identify.Header `yaml:"forwarded_header"`
	// Where the account of a request is found, the first present counts: header:X-Api-Key, bearer, query:key, cookie:session,
	// path:1 (the first segment of the path), source (the source address; of IPv6 the /64). Default: none, so that nobody has an account.
	Account []string `yaml:"account"`
	// The throttles that judge each connection before anything is read from it, in order. What they do not admit is closed. Trusted
	// proxies are not counted.
	Accept []string `yaml:"accept"`
	// How much the upstream can do at once. Who paid with a stamp goes first; the others wait in the general pool. Default: no limit, and
	// no load is known, so that stamps are not asked for.
	Capacity *admission.Options `yaml:"capacity"`
	// The throttles that judge each request, in order.
	Throttles []string `yaml:"throttles"`
	// Bounds on what clients may take of the gate.
	Bounds Bounds `yaml:"bounds"`
	// How long the gate waits for clients and for the upstream.
	Timeouts Timeouts `yaml:"timeouts"`
}

// Bounds keep clients from filling the server up.
type Bounds struct {
	// Open connections. One more is closed at once. Default 20000.
	Connections int `yaml:"connections"`
	// Requests under way and waiting. One more gets 503. Default 20000.
	Requests int `yaml:"requests"`
	// Requests that a throttle may hold back at a time. One more gets 503. Default 10000.
	Waiting int `yaml:"waiting"`
	// Request line and headers. More gets 431. Default 32KiB.
	Header weir.Size `yaml:"header"`
	// The body of a request. More gets 413. Default: no bound, bodies are streamed.
	Body weir.Size `yaml:"body"`
}

// Timeouts against slow clients and a slow upstream.
type Timeouts struct {
	// For request line and headers. Default 10s.
	Header weir.Duration `yaml:"header"`
	// Between two reads of a request's body, or two writes of a response: a client that makes no progress for so long is cut off.
	// Default 30s.
	Progress weir.Duration `yaml:"progress"`
	// Between two requests on a connection. Default 2m.
	Idle weir.Duration `yaml:"idle"`
	// For a connection to the upstream. Default 5s.
	Connect weir.Duration `yaml:"connect"`
	// From the end of the request to the upstream's response headers. Default 1m.
	Response weir.Duration `yaml:"response"`
}

// Bounds of the bounds.
const (
	minHeader = 512
	maxHeader = 16 << 20
	maxCount  = 10_000_000
)

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.ForwardedHeader = cmp.Or(o.ForwardedHeader, identify.EitherHeader)
	if o.Capacity != nil {
		full := o.Capacity.WithDefaults()
		o.Capacity = &full
	}
	o.Bounds.Connections = cmp.Or(o.Bounds.Connections, 20_000)
	o.Bounds.Requests = cmp.Or(o.Bounds.Requests, 20_000)
	o.Bounds.Waiting = cmp.Or(o.Bounds.Waiting, 10_000)
	o.Bounds.Header = cmp.Or(o.Bounds.Header, 32<<10)
	o.Timeouts.Header = cmp.Or(o.Timeouts.Header, weir.Duration(10*time.Second))
	o.Timeouts.Progress = cmp.Or(o.Timeouts.Progress, weir.Duration(30*time.Second))
	o.Timeouts.Idle = cmp.Or(o.Timeouts.Idle, weir.Duration(2*time.Minute))
	o.Timeouts.Connect = cmp.Or(o.Timeouts.Connect, weir.Duration(5*time.Second))
	o.Timeouts.Response = cmp.Or(o.Timeouts.Response, weir.Duration(time.Minute))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. Whether the throttles exist is for others to say.
func (o Options) Validate() error {
	var v weir.Mistakes
	if o.Listen == "" {
		v.Add("listen", "the gate has no address to listen on", `write listen: ":8080"`)
	} else if _, port, err := net.SplitHostPort(o.Listen); err != nil {
		v.Add("listen", fmt.Sprintf("%q is not an address with a port", o.Listen), `write ":8080" or "127.0.0.1:8080"`)
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		v.Add("listen", fmt.Sprintf("%q is not a port", port), "a number up to 65535")
	}
	if _, mistake := parseUpstream(o.Upstream); mistake != nil {
		v = append(v, mistake)
	}
	for i, prefix := range o.TrustedProxies {
		at := fmt.Sprintf("trusted_proxies[%d]", i)
		if !prefix.IsValid() {
			v.Add(at, "not a network", "write 10.0.0.0/8 or 2001:db8::/32")
		} else if prefix.Bits() == 0 {
			v.Add(at, fmt.Sprintf("%s trusts everybody to name any source address", prefix), "name the networks of your proxies")
		}
	}
	switch o.ForwardedHeader {
	case "", identify.EitherHeader, identify.XForwardedFor, identify.ForwardedHeader:
	default:
		v.Add("forwarded_header", fmt.Sprintf("unknown header %q", o.ForwardedHeader), "one of x-forwarded-for, forwarded, either")
	}
	if o.Capacity != nil {
		v.Under("capacity", o.Capacity.Validate())
	}
	_, err := identify.ParseAccounts(o.Account)
	v.Under("account", err)
	v.Count("bounds.connections", o.Bounds.Connections, maxCount)
	v.Count("bounds.requests", o.Bounds.Requests, maxCount)
	v.Count("bounds.waiting", o.Bounds.Waiting, maxCount)
	v.Size("bounds.header", o.Bounds.Header, minHeader, maxHeader)
	if o.Bounds.Body < 0 {
		v.Add("bounds.body", "a body cannot be smaller than nothing", "leave it out for no bound")
	}
	v.Timeout("timeouts.header", o.Timeouts.Header)
	v.Timeout("timeouts.progress", o.Timeouts.Progress)
	v.Timeout("timeouts.idle", o.Timeouts.Idle)
	v.Timeout("timeouts.connect", o.Timeouts.Connect)
	v.Timeout("timeouts.response", o.Timeouts.Response)
	return v.Err()
}

// parseUpstream reads the address of the service behind the gate.
func parseUpstream(s string) (*url.URL, *weir.FieldError) {
	const hint = "write http://127.0.0.1:3000, https://… or h2c://…"
	if s == "" {
		return nil, &weir.FieldError{Path: "upstream", Msg: "the gate has no upstream", Hint: hint}
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, &weir.FieldError{Path: "upstream", Msg: fmt.Sprintf("%q is not a URL", s), Hint: hint}
	}
	switch u.Scheme {
	case "http", "https", "h2c":
	default:
		return nil, &weir.FieldError{Path: "upstream", Msg: fmt.Sprintf("%q is not an upstream that a gate can speak to", s), Hint: hint}
	}
	switch {
	case u.Hostname() == "":
		return nil, &weir.FieldError{Path: "upstream", Msg: fmt.Sprintf("%q names no host", s), Hint: hint}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, &weir.FieldError{Path: "upstream", Msg: "an upstream has no user, query or fragment", Hint: hint}
	}
	return u, nil
}
