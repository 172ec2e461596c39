package authgate

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"weir"
	"weir/gate"
	"weir/identify"
)

// Options configure one gate for forward-auth: a proxy asks it about each request, and lets pass what it admits.
type Options struct {
	// Where the proxy asks: "127.0.0.1:9003", or a socket of this machine, unix:/run/weir/auth. It speaks no TLS.
	// Default 127.0.0.1:9003.
	Listen string `yaml:"listen"`
	// Who may use the socket, where listen is one.
	Socket gate.Socket `yaml:"socket"`
	// Which proxy asks. Its headers describe the request: nginx (X-Original-URI and the like; refusals have a status
	// that nginx understands), traefik, caddy, haproxy (X-Forwarded-Uri and the like), or auto (the default; by the
	// headers that are there, and a question that has both kinds is refused).
	For Dialect `yaml:"for"`
	// The throttles that judge each request, in order.
	Throttles []string `yaml:"throttles"`
	// Where the account of a request is found: header:X-Api-Key, bearer, query:key, cookie:session, path:1 (the first
	// segment of the path), source (the source address; of IPv6 the /64). Default: none, so that nobody has an account.
	Account []string `yaml:"account"`
	// What happens to a request that names different accounts in different places: refuse, or first, so that the
	// first place of the list counts and the others are not looked at. The source never disagrees. Default refuse.
	AccountConflict identify.Conflict `yaml:"account_conflict"`
	// Who may ask, and is believed: the machines that the proxies run on. Also the proxies in front of those, whose
	// addresses in X-Forwarded-For are passed over. Anybody else gets 403. Default 127.0.0.0/8 and ::1/128; anyone who
	// may use the socket, where listen is one.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// How long an answer may be held back for a turn, where a throttle delays. A request whose turn would come later is
	// refused. The proxy's own timeout must be longer. Default 5s.
	MaxWait weir.Duration `yaml:"max_wait"`
	// Bounds on what proxies may take of the gate.
	Bounds Bounds `yaml:"bounds"`
	// How long the gate waits for proxies.
	Timeouts Timeouts `yaml:"timeouts"`
}

// A Dialect says in which headers a proxy tells what the request was, and which answers it understands.
type Dialect string

// The dialects.
const (
	Auto    Dialect = "auto"
	Nginx   Dialect = "nginx"
	Traefik Dialect = "traefik"
	Caddy   Dialect = "caddy"
	HAProxy Dialect = "haproxy"
)

// Bounds keep what is asked from filling the server up.
type Bounds struct {
	// Open connections. For one more, the address with the most loses its newest. If that is the newcomer's own, or has
	// no more than others, the newcomer is closed at once. Default 10000.
	Connections int `yaml:"connections"`
	// Questions under way and waiting. One more is refused with 503. One client gets few of the last tenth. Default
	// 10000.
	Requests int `yaml:"requests"`
	// Answers that a throttle may hold back at a time. One more is refused with 503, likewise. Default 5000.
	Waiting int `yaml:"-"`
	// Request line and headers, those of the client included. More gets 431. Default 64KiB.
	Header weir.Size `yaml:"-"`
}

// Timeouts for proxies.
type Timeouts struct {
	// For request line and headers. Default 10s.
	Header weir.Duration `yaml:"-"`
	// Between two questions on a connection. It should be longer than the proxy keeps its own connections. Default 2m.
	Idle weir.Duration `yaml:"idle"`
}

// Bounds of the bounds.
const (
	minHeader = 8 << 10
	maxHeader = 16 << 20
	maxCount  = 10_000_000
	maxWait   = weir.Duration(time.Hour)
)

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:9003")
	if network, _ := gate.Split(o.Listen); network == "unix" {
		o.Socket.Mode = cmp.Or(o.Socket.Mode, "0660")
	} else if len(o.TrustedProxies) == 0 {
		o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	o.For = cmp.Or(o.For, Auto)
	o.MaxWait = cmp.Or(o.MaxWait, weir.Duration(5*time.Second))
	o.Bounds.Connections = cmp.Or(o.Bounds.Connections, 10_000)
	o.Bounds.Requests = cmp.Or(o.Bounds.Requests, 10_000)
	o.Bounds.Waiting = cmp.Or(o.Bounds.Waiting, 5000)
	o.Bounds.Header = cmp.Or(o.Bounds.Header, 64<<10)
	o.Timeouts.Header = cmp.Or(o.Timeouts.Header, weir.Duration(10*time.Second))
	o.Timeouts.Idle = cmp.Or(o.Timeouts.Idle, weir.Duration(2*time.Minute))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. It does not know whether the throttles
// exist.
func (o Options) Validate() error {
	var v weir.Mistakes
	listen := gate.Address{Listen: o.Listen, Socket: o.Socket, Default: true, TCP: "127.0.0.1:9003",
		Unix: "unix:/run/weir/auth"}
	listen.Validate(&v)
	v.OneOf("for", string(o.For), string(Auto), string(Nginx), string(Traefik), string(Caddy), string(HAProxy))
	for i, prefix := range o.TrustedProxies {
		at := fmt.Sprintf("trusted_proxies[%d]", i)
		if !prefix.IsValid() {
			v.Add(at, "not a network", "write 10.0.0.0/8 or 2001:db8::/32")
		} else if prefix.Bits() == 0 {
			v.Add(at, fmt.Sprintf("%s lets everybody ask in the name of anybody", prefix),
				"name the machines that your proxies run on")
		}
	}
	gate.ValidateAccounts(&v, o.Account, o.AccountConflict)
	if o.MaxWait < 0 || o.MaxWait > maxWait {
		v.Add("max_wait", fmt.Sprintf("%s is out of bounds", o.MaxWait), fmt.Sprintf("at most %s", maxWait))
	}
	v.Count("bounds.connections", o.Bounds.Connections, maxCount)
	v.Count("bounds.requests", o.Bounds.Requests, maxCount)
	v.Count("bounds.waiting", o.Bounds.Waiting, maxCount)
	v.Size("bounds.header", o.Bounds.Header, minHeader, maxHeader)
	v.Timeout("timeouts.header", o.Timeouts.Header)
	v.Timeout("timeouts.idle", o.Timeouts.Idle)
	return v.Err()
}
