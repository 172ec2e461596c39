package upstream

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
	"time"

	"weir"
)

// Bounds on what an operator may write.
const (
	MaxServers    = 64 // addresses of names included
	MaxIdle       = 1_000_000
	MaxChecks     = 1000
	MaxConcurrent = 1_000_000
	MaxBody       = 16 << 20 // of a body that is kept for another try
	MaxBodies     = 64 << 30 // of all of them
	MinResolve    = time.Second
	maxTime       = time.Hour
)

// A Balance says which server gets the next request.
type Balance string

// How requests are spread.
const (
	LeastConnections Balance = "least-connections"
	InTurn           Balance = "in-turn"
	First            Balance = "first"
)

// A ProxyProtocol says how a server is told who the client is, before any HTTP.
type ProxyProtocol string

// Versions of the PROXY protocol.
const (
	NoProxyProtocol ProxyProtocol = ""
	ProxyV1         ProxyProtocol = "v1"
	ProxyV2         ProxyProtocol = "v2"
)

// Options configure the service behind a gate. The short form is its servers alone.
type Options struct {
	// The servers on which the service runs: http://127.0.0.1:3000, a socket of this machine as unix:/run/service.sock,
	// https://… with TLS, or h2c://… for HTTP/2 without TLS. A path goes before the paths of requests.
	Servers []string `yaml:"servers"`
	// Which server gets the next request: least-connections (the one with the fewest under way; the default), in-turn,
	// or first (the first healthy server; the others are spares).
	Balance Balance `yaml:"balance"`
	// When a server counts as healthy. An unhealthy server gets no requests, unless none is healthy.
	Health Health `yaml:"health"`
	// When a request that failed is given to another server.
	Retries Retries `yaml:"retries"`
	// How many requests each server works on at once. One more goes to another server. If all have as many, it is
	// answered with 503. Default: no bound.
	Concurrent int `yaml:"concurrent"`
	// How often the names of servers are looked up, from 1s on; and again when no connection comes about. Each address
	// of a name is then a server of its own, up to 64 servers in all. While a lookup fails, the addresses that are
	// known stay. Default: off; each new connection looks the name up, and uses one address.
	Resolve weir.Duration `yaml:"resolve"`
	// Which addresses of a name are used with resolve: any, ipv4 or ipv6. Default any.
	Family Family `yaml:"family"`
	// How servers with https:// are verified, and what is shown to them. Default: they are verified by the authorities
	// that this machine trusts, and are shown nothing.
	TLS *TLS `yaml:"tls"`
	// Tell the servers who the client is by the PROXY protocol, v1 or v2. A connection then carries one request only.
	// Only for http:// and unix:. Default: off.
	ProxyProtocol ProxyProtocol `yaml:"proxy_protocol"`
	// How many connections to each server are kept open for the next request. Default 4096.
	Idle int `yaml:"-"`
	// How long idle connections are kept. It should be shorter than the servers' own idle timeout. Default 1m.
	IdleTime weir.Duration `yaml:"idle_time"`
	// How long servers are waited for. The gate says it.
	Timeouts Timeouts `yaml:"-"`
}

// Health says when a server counts as healthy.
type Health struct {
	// A path to check; an answer of 2xx or 3xx is a good one. Default: none, only what becomes of requests counts.
	Path string `yaml:"path"`
	// How often the path is checked. Without a path: how long an unhealthy server gets no requests before one is tried
	// again. Default 5s.
	Every weir.Duration `yaml:"every"`
	// How long a good answer may take. Default 2s.
	Timeout weir.Duration `yaml:"timeout"`
	// How many good answers in a row make a server healthy again. Default 2.
	Healthy int `yaml:"healthy"`
	// How many failures in a row, of requests or of checks, make a server unhealthy. What a client causes does not
	// count. Default 3.
	Unhealthy int `yaml:"unhealthy"`
	// Answers that count as failures too, as in [500, 502, 503]. From 500 to 599. Default: none, any answer is a good
	// one.
	Statuses []int `yaml:"statuses"`
	// Answer 503 with Retry-After at once while no server is healthy. Default: all servers are tried then.
	FailFast bool `yaml:"fail_fast"`
}

// Retries bound how much more work there is when servers fail.
type Retries struct {
	// After what a request is given to another server: connect (no connection came about), broken (the connection ended
	// before an answer began), timeout, or an answer of 500, 502, 503 or 504. Of such an answer nothing is passed on.
	// Only requests that may safely come twice (GET, PUT and the like), or that cannot have arrived, are given to
	// another server, and only if nothing of their body was read, or all of that was kept. Default
	// [connect, broken, timeout].
	On []string `yaml:"on"`
	// How many requests may be given to another server, as a share of all. Requests that cannot have arrived do not
	// count. 0% for no retries at all. Default 10%.
	Budget *weir.Share `yaml:"budget"`
	// How many other servers may be tried for one request. Default 1.
	Servers int `yaml:"servers"`
	// Try the same server again where there is no other one, after 25 to 50 ms, and twice as long each time. Every
	// such try counts for the budget. Default false.
	Same bool `yaml:"same"`
	// Methods that may come twice besides GET, HEAD, OPTIONS, TRACE, PUT and DELETE, as in [POST]. Only if the service
	// notices a request that comes twice. Default: none.
	Methods []string `yaml:"methods"`
	// How large a body may be that is kept, so that it can be sent again: up to 16MiB. Default: none is kept.
	Body weir.Size `yaml:"body" zero:"same"`
	// How much memory the kept bodies of all requests may take together. A request that finds no room is not tried
	// again. Default 64MiB.
	Bodies weir.Size `yaml:"bodies"`
}

// Timeouts say how long servers are waited for.
type Timeouts struct {
	// For a connection. Default 5s.
	Connect weir.Duration
	// From the end of the request to the headers of the answer; and how long a server may take nothing of a request.
	// Default 1m.
	Response weir.Duration
}

// To returns the options for a service with these servers, and nothing special.
func To(servers ...string) Options { return Options{Servers: servers} }

// Short names the key that may be written instead of the whole.
func (o Options) Short() string { return "servers" }

func (o Options) String() string { return strings.Join(o.Servers, ", ") }

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.Balance = cmp.Or(o.Balance, LeastConnections)
	o.Health.Every = cmp.Or(o.Health.Every, weir.Duration(5*time.Second))
	o.Health.Timeout = cmp.Or(o.Health.Timeout, weir.Duration(2*time.Second))
	o.Health.Healthy = cmp.Or(o.Health.Healthy, 2)
	o.Health.Unhealthy = cmp.Or(o.Health.Unhealthy, 3)
	if o.Retries.Budget == nil {
		o.Retries.Budget = new(weir.Share(0.1))
	}
	o.Retries.Servers = cmp.Or(o.Retries.Servers, 1)
	if o.Retries.On == nil {
		o.Retries.On = []string{FailConnect, FailBroken, FailTimeout}
	}
	o.Retries.Bodies = cmp.Or(o.Retries.Bodies, 64<<20)
	if o.Resolve != 0 {
		o.Family = cmp.Or(o.Family, AnyFamily)
	}
	o.Idle = cmp.Or(o.Idle, 4096)
	o.IdleTime = cmp.Or(o.IdleTime, weir.Duration(time.Minute))
	o.Timeouts.Connect = cmp.Or(o.Timeouts.Connect, weir.Duration(5*time.Second))
	o.Timeouts.Response = cmp.Or(o.Timeouts.Response, weir.Duration(time.Minute))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var v weir.Mistakes
	switch {
	case len(o.Servers) == 0:
		v.Add("servers", "there is no upstream", serverHint)
	case len(o.Servers) > MaxServers:
		v.Add("servers", fmt.Sprintf("%d servers are too many", len(o.Servers)), fmt.Sprintf("up to %d", MaxServers))
	}
	seen := map[string]bool{}
	for i, s := range o.Servers {
		at := fmt.Sprintf("servers[%d]", i)
		to, mistake := parseTarget(s)
		switch {
		case mistake != nil:
			mistake.Path = at
			v = append(v, mistake)
		case seen[s]:
			v.Add(at, fmt.Sprintf("%s is named twice", s), "name each server once")
		case o.ProxyProtocol != NoProxyProtocol && !to.plain:
			v.Add(at, fmt.Sprintf("the PROXY protocol cannot be spoken to %s", s),
				"http:// or unix:, or leave proxy_protocol out")
		}
		seen[s] = true
	}
	v.OneOf("balance", string(o.Balance), "", string(LeastConnections), string(InTurn), string(First))
	v.OneOf("proxy_protocol", string(o.ProxyProtocol), string(NoProxyProtocol), string(ProxyV1), string(ProxyV2))
	if p := o.Health.Path; p != "" && (p[0] != '/' || !cleanTarget(p)) {
		v.Add("health.path", fmt.Sprintf("%q is not a path", p), "write /healthz")
	}
	v.Timeout("health.every", o.Health.Every)
	v.Timeout("health.timeout", o.Health.Timeout)
	v.Count("health.healthy", o.Health.Healthy, MaxChecks)
	v.Count("health.unhealthy", o.Health.Unhealthy, MaxChecks)
	if b := o.Retries.Budget; b != nil && (*b < 0 || *b > 1) {
		v.Add("retries.budget", fmt.Sprintf("%s of all requests cannot be spent on a second try", *b),
			"from 0% to 100%")
	}
	v.Count("retries.servers", o.Retries.Servers, MaxServers)
	o.Retries.validate(&v)
	validateStatuses(&v, "health.statuses", o.Health.Statuses)
	v.Count("concurrent", o.Concurrent, MaxConcurrent)
	o.validateNames(&v)
	if o.TLS != nil {
		v.Under("tls", o.TLS.validate(o.Servers))
	}
	v.Count("idle", o.Idle, MaxIdle)
	v.Timeout("idle_time", o.IdleTime)
	v.Timeout("timeouts.connect", o.Timeouts.Connect)
	v.Timeout("timeouts.response", o.Timeouts.Response)
	return v.Err()
}

const serverHint = "write http://127.0.0.1:3000, https://…, h2c://… or unix:/run/service.sock"

// A target is where a server is.
type target struct {
	name    string // as it was written, with the address where its name was looked up
	source  string // as it was written, if its name was looked up
	scheme  string
	network string
	address string // to dial
	host    string // for the Host header where the request has none
	base    string // goes before each path, without a slash at its end
	domain  string // the host without its port; empty for a socket of this machine
	plain   bool   // HTTP/1.1 without TLS: our own client
}

// Here reports whether all servers are on this machine, as far as their addresses tell.
func (o Options) Here() bool {
	for _, s := range o.Servers {
		t, err := parseTarget(s)
		if err != nil {
			return false
		}
		host, _, _ := net.SplitHostPort(t.address)
		if ip := net.ParseIP(host); t.network != "unix" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return len(o.Servers) > 0
}

// Addresses are where the servers are, in the order of the options: HOST:PORT, or unix:PATH; "" for one that is
// malformed.
func (o Options) Addresses() []string {
	all := make([]string, len(o.Servers))
	for i, s := range o.Servers {
		if t, err := parseTarget(s); err == nil && t.network == "unix" {
			all[i] = "unix:" + t.address
		} else if err == nil {
			all[i] = t.address
		}
	}
	return all
}

func parseTarget(s string) (target, *weir.FieldError) {
	fail := func(msg string) (target, *weir.FieldError) {
		return target{}, &weir.FieldError{Msg: msg, Hint: serverHint}
	}
	if s == "" {
		return fail("the server has no address")
	}
	if file, ok := strings.CutPrefix(s, "unix:"); ok {
		if !strings.HasPrefix(file, "/") || strings.HasPrefix(file, "//") || strings.ContainsRune(file, 0) {
			return fail(fmt.Sprintf("%q does not name a socket by its whole path", s))
		}
		return target{name: s, scheme: "http", network: "unix", address: path.Clean(file), host: "localhost",
			plain: true}, nil
	}
	u, err := url.Parse(s)
	if err != nil {
		return fail(fmt.Sprintf("%q is not a URL", s))
	}
	t := target{name: s, scheme: u.Scheme, network: "tcp", host: u.Host, base: strings.TrimRight(u.EscapedPath(), "/")}
	port := "80"
	switch u.Scheme {
	case "http":
		t.plain = true
	case "https":
		port = "443"
	case "h2c":
		t.scheme = "http"
	default:
		return fail(fmt.Sprintf("%q is not an upstream that a gate can speak to", s))
	}
	switch {
	case u.Hostname() == "" || !cleanTarget(u.Host):
		return fail(fmt.Sprintf("%q names no host", s))
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return fail("an upstream has no user, query or fragment")
	}
	if err := weir.CheckURL(u); err != nil {
		return fail(err.Error())
	}
	if u.Port() != "" {
		port = u.Port()
	}
	t.domain = u.Hostname()
	t.address = net.JoinHostPort(t.domain, port)
	return t, nil
}

// h2c reports whether HTTP/2 without TLS is spoken.
func (t *target) h2c() bool { return strings.HasPrefix(t.name, "h2c:") }
