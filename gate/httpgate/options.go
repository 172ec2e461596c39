package httpgate

import (
	"cmp"
	"net/netip"
	"time"

	"weir"
	"weir/admission"
	"weir/gate"
	"weir/gate/httpgate/keys"
	"weir/gate/httpgate/pages"
	"weir/identify"
	"weir/identify/token"
	behind "weir/upstream"
)

// Options configure one HTTP gate.
type Options struct {
	// The address to listen on: ":8080", "127.0.0.1:8080", or a socket of this machine, unix:/run/weir/http.
	Listen string `yaml:"listen"`
	// Who may use the socket, where listen is one.
	Socket Socket `yaml:"socket"`
	// HTTPS, with its certificates. Default: the gate speaks plain HTTP.
	TLS *keys.TLS `yaml:"tls"`
	// Which proxies in front of the gate name the source of a connection, as load balancers for TCP do. Default: none.
	ProxyProtocol ProxyProtocol `yaml:"proxy_protocol"`
	// The service behind the gate: the address of its server, http://127.0.0.1:3000, or a list of them, or a mapping
	// with servers and more.
	Upstream behind.Options `yaml:"upstream"`
	// Proxies in front of the gate, whose forwarding header is believed. Default: none.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// Which header the trusted proxies maintain: x-forwarded-for or forwarded. The other one, which a client can write,
	// is ignored and removed. Default x-forwarded-for.
	ForwardedHeader identify.Header `yaml:"forwarded_header"`
	// Where the account of a request is found: header:X-Api-Key, bearer, query:key, cookie:session, path:1 (the first
	// segment of the path), source (the source address; of IPv6 the /64), cert (the common name of the client's
	// certificate), cert:san (its first alternative name), jwt:sub (a claim of the JSON Web Token, see jwt). Default:
	// none, so that nobody has an account.
	Account []string `yaml:"account"`
	// What happens to a request that names different accounts in different places: refuse, or first, so that the
	// first place of the list counts and the others are not looked at. The source never disagrees. Default refuse.
	AccountConflict identify.Conflict `yaml:"account_conflict"`
	// How JSON Web Tokens are checked, for accounts and plans that they name. An invalid token counts as none. Default:
	// they are not looked at.
	JWT *token.Options `yaml:"jwt"`
	// Headers that are set or left out.
	Headers Headers `yaml:"headers"`
	// The throttles that judge each connection before anything is read from it, in order. A connection that they do not
	// admit is closed. Trusted proxies and clients on a socket of this machine are not counted. With a PROXY header,
	// the client it names is judged.
	Accept []string `yaml:"accept"`
	// How much the upstream can do at once. Clients that paid with a stamp go first; the others wait in the general
	// pool. Default: no limit, and no load is known, so that stamps are asked for only with from_load: 0%.
	Capacity *admission.Options `yaml:"capacity"`
	// The throttles that judge each request, in order.
	Throttles []string `yaml:"throttles"`
	// What people see of the gate: the name of the site, a line of your own, and the language.
	Pages pages.Options `yaml:"pages"`
	// Bounds on what clients may take of the gate.
	Bounds Bounds `yaml:"bounds"`
	// How long the gate waits for clients and for the upstream.
	Timeouts Timeouts `yaml:"timeouts"`
	// Several sites or services behind the gate, by host and path, each with an upstream, throttles and so on of its
	// own. Requests that no route matches go to the upstream of the gate, and get 404 without one. Default: none.
	Routes []Route `yaml:"routes"`
}

// Bounds keep clients from filling the server up.
type Bounds struct {
	// Open connections. For one more, the source with the most loses its newest. If that source is the newcomer's own,
	// or has no more than others, the newcomer is closed at once. Default 20000.
	Connections int `yaml:"connections"`
	// Connections whose PROXY header or TLS handshake is under way. For one more, the same holds. Default 2000.
	Handshakes int `yaml:"-"`
	// Requests under way and waiting. One more gets 503. One source gets few of the last tenth. Default 20000.
	Requests int `yaml:"requests"`
	// Requests that a throttle may hold back at a time. One more gets 503. One source gets few of the last tenth.
	// Default 10000.
	Waiting int `yaml:"waiting"`
	// Memory of all bodies of up to 64 KiB that are read before their requests have a place at the upstream. Default
	// 64 MiB.
	Bodies weir.Size `yaml:"-"`
	// And of those that one client is sending. More gets 429. Default 1 MiB.
	ClientBodies weir.Size `yaml:"-"`
	// Request line and headers. More gets 431. Default 32KiB.
	Header weir.Size `yaml:"header"`
	// The body of a request. More gets 413. Default: no bound, bodies are streamed.
	Body weir.Size `yaml:"body"`
}

// Timeouts against slow clients and a slow upstream.
type Timeouts struct {
	// For PROXY header and TLS handshake. Default 10s.
	Handshake weir.Duration `yaml:"handshake"`
	// For request line and headers. Default 10s.
	Header weir.Duration `yaml:"header"`
	// Between two reads of a request's body, or two writes of a response: a client that makes no progress for so long
	// is cut off. Default 30s.
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
	o.ForwardedHeader = cmp.Or(o.ForwardedHeader, identify.XForwardedFor)
	if network, _ := gate.Split(o.Listen); network == "unix" {
		o.Socket.Mode = cmp.Or(o.Socket.Mode, "0660")
	}
	o.TLS = o.TLS.WithDefaults()
	if o.JWT != nil {
		full := o.JWT.WithDefaults()
		o.JWT = &full
	}
	if o.Capacity != nil {
		full := o.Capacity.WithDefaults()
		o.Capacity = &full
	}
	o.Upstream = o.Upstream.WithDefaults()
	routes := o.Routes
	o.Routes = nil
	for _, r := range routes {
		o.Routes = append(o.Routes, r.withDefaults())
	}
	o.Bounds.Connections = cmp.Or(o.Bounds.Connections, 20_000)
	o.Bounds.Handshakes = cmp.Or(o.Bounds.Handshakes, 2_000)
	o.Bounds.Requests = cmp.Or(o.Bounds.Requests, 20_000)
	o.Bounds.Waiting = cmp.Or(o.Bounds.Waiting, 10_000)
	o.Bounds.Bodies = cmp.Or(o.Bounds.Bodies, 64<<20)
	o.Bounds.ClientBodies = cmp.Or(o.Bounds.ClientBodies, 1<<20)
	o.Bounds.Header = cmp.Or(o.Bounds.Header, 32<<10)
	o.Timeouts.Handshake = cmp.Or(o.Timeouts.Handshake, weir.Duration(10*time.Second))
	o.Timeouts.Header = cmp.Or(o.Timeouts.Header, weir.Duration(10*time.Second))
	o.Timeouts.Progress = cmp.Or(o.Timeouts.Progress, weir.Duration(30*time.Second))
	o.Timeouts.Idle = cmp.Or(o.Timeouts.Idle, weir.Duration(2*time.Minute))
	o.Timeouts.Connect = cmp.Or(o.Timeouts.Connect, weir.Duration(5*time.Second))
	o.Timeouts.Response = cmp.Or(o.Timeouts.Response, weir.Duration(time.Minute))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. Whether the throttles exist is for others
// to say.
func (o Options) Validate() error {
	var v weir.Mistakes
	o.validateListen(&v)
	if o.Forwards() || len(o.Routes) == 0 {
		v.Under("upstream", o.Upstream.Validate())
	} else if o.Capacity != nil {
		v.Add("capacity", "the gate has no upstream whose capacity it could be", "move it to the routes that need it")
	}
	o.validateRoutes(&v)
	gate.ValidateProxies(&v, "trusted_proxies", o.TrustedProxies)
	v.OneOf("forwarded_header", string(o.ForwardedHeader), string(identify.XForwardedFor),
		string(identify.ForwardedHeader))
	if o.Capacity != nil {
		v.Under("capacity", o.Capacity.Validate())
	}
	accounts, err := identify.ParseAccounts(o.Account)
	v.Under("account", err)
	o.AccountConflict.Validate(&v, &accounts)
	o.validateIdentity(&v, &accounts)
	v.Under("pages", o.Pages.Validate())
	v.Count("bounds.connections", o.Bounds.Connections, maxCount)
	v.Count("bounds.handshakes", o.Bounds.Handshakes, maxCount)
	v.Count("bounds.requests", o.Bounds.Requests, maxCount)
	v.Count("bounds.waiting", o.Bounds.Waiting, maxCount)
	v.Size("bounds.header", o.Bounds.Header, minHeader, maxHeader)
	if o.Bounds.Body < 0 {
		v.Add("bounds.body", "a body cannot be smaller than nothing", "leave it out for no bound")
	}
	v.Timeout("timeouts.handshake", o.Timeouts.Handshake)
	v.Timeout("timeouts.header", o.Timeouts.Header)
	v.Timeout("timeouts.progress", o.Timeouts.Progress)
	v.Timeout("timeouts.idle", o.Timeouts.Idle)
	v.Timeout("timeouts.connect", o.Timeouts.Connect)
	v.Timeout("timeouts.response", o.Timeouts.Response)
	return v.Err()
}
