package rlsgate

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"

	"weir"
	"weir/gate"
	"weir/identify"
)

// Options configure one gate for Envoy: its rate limit service and its external authorization, over gRPC.
type Options struct {
	// Where Envoy asks: "127.0.0.1:8081", or a socket of this machine, unix:/run/weir/envoy. The gate speaks no TLS and
	// answers everybody who can reach it: they can use up the limits of others.
	Listen string `yaml:"listen"`
	// Who may use the socket, where listen is one.
	Socket gate.Socket `yaml:"socket"`
	// The domains of the rate limit service that weir's throttles judge, by name. A domain that nobody configured is
	// not limited.
	Domains map[string]Domain `yaml:"domains"`
	// A configuration of envoyproxy/ratelimit: a file, or a folder whose files that end in .yaml or .yml are read.
	// Default: none.
	Config string `yaml:"config" file:"beside"`
	// Whether several files may add to the same domain, as with MERGE_DOMAIN_CONFIG of envoyproxy/ratelimit. Default
	// false.
	MergeDomains bool `yaml:"merge_domains"`
	// How the nodes of a farm count the rules of these files, and limits that requests bring: local is each for
	// itself, exact is together in the engine of farm.counters, with a question for each request, as
	// envoyproxy/ratelimit counts in its Redis. While the engine is lost, requests fail with UNAVAILABLE, and Envoy
	// does what failure_mode_deny says. All nodes must listen at the same address. Default local.
	Farm Farm `yaml:"farm"`
	// External authorization (ext_authz). Default: none, so that calls to it are answered as not implemented.
	Authz *Authz `yaml:"authz"`
	// How long a request may be held for a throttle that makes it wait. What would wait longer is over the limit. It
	// must be shorter than Envoy's own timeout. Default 0s: nothing is held.
	MaxWait weir.Duration `yaml:"max_wait" zero:"same"`
	// What the rate limit service tells clients in headers.
	Headers Headers `yaml:"headers"`
	// Bounds on what callers may take of the gate.
	Bounds Bounds `yaml:"bounds"`
	// How long the gate waits for callers.
	Timeouts Timeouts `yaml:"-"`
}

// A Farm says how nodes count imported rules.
type Farm string

// The ways of counting.
const (
	FarmLocal Farm = "local"
	FarmExact Farm = "exact"
)

// A Domain is a domain of the rate limit service that weir's throttles judge. Each descriptor that names an account is
// judged by itself. When one of a request is refused, what the others have taken is given back.
type Domain struct {
	// The throttles that judge, in order. Limits on requests at once see each request for a moment only: nobody says
	// when it ends.
	Throttles []string `yaml:"throttles"`
	// The keys whose values name the account, joined where there are several. A descriptor that lacks one of them is
	// not limited. Default: none, so that descriptors with a remote_address are judged, and counted by it.
	Account []string `yaml:"account"`
	// The key whose value names the plan of the account. Default: none.
	Plan string `yaml:"plan"`
}

// Authz is external authorization: Envoy asks about each HTTP request before it goes on.
type Authz struct {
	// The throttles that judge each request, in order.
	Throttles []string `yaml:"throttles"`
	// Where the account of a request is found: header:X-Api-Key, bearer, query:key, cookie:session, path:1 (the first
	// segment of the path), source (the source address; of IPv6 the /64). Default: none, so that nobody has an account.
	Account []string `yaml:"account"`
	// What happens to a request that names different accounts in different places: refuse, or first, so that the
	// first place of the list counts and the others are not looked at. The source never disagrees. Default refuse.
	AccountConflict identify.Conflict `yaml:"account_conflict"`
	// Proxies in front of Envoy, whose forwarding header is believed where Envoy names one of them as the source.
	// Default: none, so that the source is the one that Envoy names.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// Which header the trusted proxies maintain: x-forwarded-for or forwarded. The other one, which a client can write,
	// is ignored. Default x-forwarded-for.
	ForwardedHeader identify.Header `yaml:"forwarded_header"`
}

// Headers are what Envoy adds to the response of a request that the rate limit service was asked about. They tell about
// the limit that is nearest to its end: the limit, what remains, and in how many seconds it starts again; and
// Retry-After where the request is over the limit.
type Headers struct {
	// Whether they are sent. Default false.
	Send bool `yaml:"send"`
	// The name of the header with the limit. Default RateLimit-Limit.
	Limit string `yaml:"limit"`
	// The name of the header with what remains. Default RateLimit-Remaining.
	Remaining string `yaml:"remaining"`
	// The name of the header with the seconds until the limit starts again. Default RateLimit-Reset.
	Reset string `yaml:"reset"`
}

// Bounds keep callers from filling the server up.
type Bounds struct {
	// Open connections. For one more, the address with the most loses its newest. If that is the newcomer's own, or has
	// no more than others, the newcomer is closed at once. Default 1000; each worker of an Envoy has one or two.
	Connections int `yaml:"connections"`
	// Requests under way, those that are held included. One more is answered by RESOURCE_EXHAUSTED. Default 10000.
	Requests int `yaml:"requests"`
	// Requests at once on one connection. One more waits with its caller. Default 1000.
	Streams int `yaml:"-"`
	// A message. A larger one is answered by RESOURCE_EXHAUSTED. Default 1MiB.
	Message weir.Size `yaml:"-"`
	// Descriptors of a request. More is answered by INVALID_ARGUMENT. Default 100.
	Descriptors int `yaml:"-"`
	// Entries of a descriptor. More is answered by INVALID_ARGUMENT. Default 64.
	Entries int `yaml:"-"`
	// A key or a value of an entry. A descriptor with a longer one is over the limit. Default 16KiB.
	Value weir.Size `yaml:"-"`
	// Different limits that descriptors bring with them. One more is answered by RESOURCE_EXHAUSTED. Default 256.
	Overrides int `yaml:"-"`
}

// Timeouts for callers.
type Timeouts struct {
	// For the beginning of a connection. Default 10s.
	Connect weir.Duration `yaml:"connect"`
	// Without a word on a connection: then the caller is asked whether it is there, and cut off when it does not answer
	// for as long. Default 1m.
	Silent weir.Duration `yaml:"silent"`
}

// Bounds of the bounds.
const (
	maxCount     = 10_000_000
	maxOverrides = 10_000
	maxEntries   = 1000
	minMessage   = 1 << 10
	maxMessage   = 64 << 20
	maxDomains   = 1000
	maxName      = 256
	maxAccount   = 16 // keys
	maxWait      = weir.Duration(time.Minute)
	minTimeout   = weir.Duration(time.Second)
	maxTimeout   = weir.Duration(time.Hour)
)

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	if network, _ := gate.Split(o.Listen); network == "unix" {
		o.Socket.Mode = cmp.Or(o.Socket.Mode, "0660")
	}
	if o.Authz != nil {
		full := *o.Authz
		full.ForwardedHeader = cmp.Or(full.ForwardedHeader, identify.XForwardedFor)
		o.Authz = &full
	}
	o.Farm = cmp.Or(o.Farm, FarmLocal)
	o.Headers.Limit = cmp.Or(o.Headers.Limit, "RateLimit-Limit")
	o.Headers.Remaining = cmp.Or(o.Headers.Remaining, "RateLimit-Remaining")
	o.Headers.Reset = cmp.Or(o.Headers.Reset, "RateLimit-Reset")
	o.Bounds.Connections = cmp.Or(o.Bounds.Connections, 1000)
	o.Bounds.Requests = cmp.Or(o.Bounds.Requests, 10_000)
	o.Bounds.Streams = cmp.Or(o.Bounds.Streams, 1000)
	o.Bounds.Message = cmp.Or(o.Bounds.Message, 1<<20)
	o.Bounds.Descriptors = cmp.Or(o.Bounds.Descriptors, 100)
	o.Bounds.Entries = cmp.Or(o.Bounds.Entries, 64)
	o.Bounds.Value = cmp.Or(o.Bounds.Value, 16<<10)
	o.Bounds.Overrides = cmp.Or(o.Bounds.Overrides, 256)
	o.Timeouts.Connect = cmp.Or(o.Timeouts.Connect, weir.Duration(10*time.Second))
	o.Timeouts.Silent = cmp.Or(o.Timeouts.Silent, weir.Duration(time.Minute))
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors. It does not know whether the throttles
// exist, and does not read the imported files.
func (o Options) Validate() error {
	var v mistakes
	listen := gate.Address{Listen: o.Listen, Socket: o.Socket, TCP: `"127.0.0.1:8081"`,
		Unix: "unix:/run/weir/envoy"}
	listen.Validate(&v.Mistakes)
	v.domains(o.Domains)
	if o.Authz != nil {
		v.Under("authz", o.Authz.validate())
	}
	if len(o.Domains) == 0 && o.Config == "" && o.Authz == nil {
		v.Add("", "there is nothing to ask the gate for",
			"add domains: {edge: {throttles: [plans], account: [user]}}, config: or authz:")
	}
	v.OneOf("farm", string(o.WithDefaults().Farm), string(FarmLocal), string(FarmExact))
	if o.Farm == FarmExact && o.Config == "" {
		v.Add("farm", "there are no files whose rules could be counted exactly",
			"leave it out, or add config:; throttles of domains have farm: exact in their policies")
	}
	if o.MergeDomains && o.Config == "" {
		v.Add("merge_domains", "there are no files to merge", "leave it out, or add config:")
	}
	if o.MaxWait < 0 || o.MaxWait > maxWait {
		v.Add("max_wait", fmt.Sprintf("%s is out of bounds", o.MaxWait),
			fmt.Sprintf("at most %s, and less than Envoy's own timeout", maxWait))
	}
	for _, h := range [][2]string{{"limit", o.Headers.Limit}, {"remaining", o.Headers.Remaining},
		{"reset", o.Headers.Reset}} {
		if h[1] != "" && !httpguts.ValidHeaderFieldName(h[1]) {
			v.Add("headers."+h[0], fmt.Sprintf("%q is not the name of a header", h[1]),
				"write X-RateLimit-Limit, or leave it out")
		}
	}
	o = o.WithDefaults()
	v.Count("bounds.connections", o.Bounds.Connections, maxCount)
	v.Count("bounds.requests", o.Bounds.Requests, maxCount)
	v.Count("bounds.streams", o.Bounds.Streams, maxCount)
	v.Size("bounds.message", o.Bounds.Message, minMessage, maxMessage)
	v.Count("bounds.descriptors", o.Bounds.Descriptors, maxEntries)
	v.Count("bounds.entries", o.Bounds.Entries, maxEntries)
	v.Size("bounds.value", o.Bounds.Value, 1, maxMessage)
	v.Count("bounds.overrides", o.Bounds.Overrides, maxOverrides)
	v.duration("timeouts.connect", o.Timeouts.Connect)
	v.duration("timeouts.silent", o.Timeouts.Silent)
	return v.Err()
}

// mistakes collects field errors, with checks of this gate's own.
type mistakes struct{ weir.Mistakes }

func (v *mistakes) duration(path string, d weir.Duration) {
	if d < minTimeout || d > maxTimeout {
		v.Add(path, fmt.Sprintf("%s is out of bounds", d),
			fmt.Sprintf("at least %s, at most %s", minTimeout, maxTimeout))
	}
}

func (v *mistakes) domains(all map[string]Domain) {
	v.AtMost("domains", "domains", len(all), maxDomains)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d, at := all[name], "domains."+name
		if name == "" || len(name) > maxName {
			v.Add(at, fmt.Sprintf("a domain's name has between 1 and %d characters", maxName), "")
		}
		if len(d.Throttles) == 0 {
			v.Add(at+".throttles", "a domain without throttles limits nothing", "name one: throttles: [plans]")
		}
		v.AtMost(at+".account", "keys", len(d.Account), maxAccount)
		for i, key := range d.Account {
			switch path := fmt.Sprintf("%s.account[%d]", at, i); {
			case key == "":
				v.Add(path, "a key of descriptors is not empty", "write the key as Envoy's rate_limits actions do")
			case slices.Contains(d.Account[:i], key):
				v.Add(path, fmt.Sprintf("the key %q is listed twice", key), "leave one out")
			}
		}
	}
}

func (a *Authz) validate() error {
	var v weir.Mistakes
	if len(a.Throttles) == 0 {
		v.Add("throttles", "without throttles everything is allowed", "name one: throttles: [plans]")
	}
	gate.ValidateAccounts(&v, a.Account, a.AccountConflict)
	gate.ValidateProxies(&v, "trusted_proxies", a.TrustedProxies)
	v.OneOf("forwarded_header", string(a.ForwardedHeader), string(identify.XForwardedFor),
		string(identify.ForwardedHeader))
	return v.Err()
}
