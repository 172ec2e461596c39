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
	MaxServers = 64
	MaxIdle    = 1_000_000
	MaxChecks  = 1000
	maxTime    = time.Hour
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
	// How many failures in a row, of requests or checks, make a server unhealthy. Default 3.
	Unhealthy int `yaml:"unhealthy"`
}

// Retries bound how much more work there is when servers fail.
type Retries struct {
	// How many requests may be given to another server, as a share of all. Only requests that may safely come twice
	// (GET, PUT and the like), and whose body has not been read yet, are given to another server. 0% for none. Default
	// 10%.
	Budget *weir.Share `yaml:"budget"`
	// How many other servers may be tried for one request. Default 1.
	Servers int `yaml:"servers"`
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
	v.Count("idle", o.Idle, MaxIdle)
	v.Timeout("idle_time", o.IdleTime)
	v.Timeout("timeouts.connect", o.Timeouts.Connect)
	v.Timeout("timeouts.response", o.Timeouts.Response)
	return v.Err()
}

const serverHint = "write http://127.0.0.1:3000, https://…, h2c://… or unix:/run/service.sock"

// A target is where a server is.
type target struct {
	name    string // as it was written
	scheme  string
	network string
	address string // to dial
	host    string // for the Host header where the request has none
	base    string // goes before each path, without a slash at its end
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
	if u.Port() != "" {
		port = u.Port()
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	t.address = host + ":" + port
	return t, nil
}

// h2c reports whether HTTP/2 without TLS is spoken.
func (t *target) h2c() bool { return strings.HasPrefix(t.name, "h2c:") }
