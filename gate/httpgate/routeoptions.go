package httpgate

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"weir"
	"weir/admission"
	"weir/gate/httpgate/pages"
	"weir/identify"
	behind "weir/upstream"
)

// A Route is a part of the requests of a gate, by host and path, that is treated in its own way. It leads to an
// upstream, has a fixed answer or redirects. What a route leaves out, it takes from the gate.
type Route struct {
	// What the route is called in logs, metrics and on pages: letters, digits, '-', '_' and '.'. Default: its first
	// host and its path, as in api.example.org/v1.
	Name string `yaml:"name"`
	// The hosts of the route: api.example.org, or *.example.org for all names below example.org, or a list of them. An
	// exact name goes before a wildcard, and a longer wildcard before a shorter one. Default: every host.
	Host Hosts `yaml:"host"`
	// The paths of the route: /v1 is that path and everything below it, /v1/users, and not /v10. Of several routes the
	// one with the longest path counts. Default: every path.
	Path string `yaml:"path"`
	// Cut the path of the route off before a request goes to the upstream: with path /v1, /v1/users?a=b becomes
	// /users?a=b, and /v1 becomes /. The upstream is told by X-Forwarded-Prefix. Limits, logs and the choice of the
	// route go by the path as it came. Default false.
	StripPrefix bool `yaml:"strip_prefix"`
	// The service behind this route, as in the gate. Default: the upstream of the gate.
	Upstream *behind.Options `yaml:"upstream"`
	// The gate answers by itself.
	Answer *Answer `yaml:"answer"`
	// The gate sends clients to another address, with the same path and query: https for the same host with HTTPS, or
	// https://www.example.org. With https, requests that came over HTTPS to a trusted proxy go to the upstream.
	Redirect *Redirect `yaml:"redirect"`
	// The throttles that judge each request, in order, instead of those of the gate; [] for none. Default: those of the
	// gate.
	Throttles []string `yaml:"throttles"`
	// How much the upstream can do at once for this route. Default: with the upstream of the gate its capacity, which
	// is then shared; with another upstream no limit.
	Capacity *admission.Options `yaml:"capacity"`
	// Where the account of a request is found, instead of the places of the gate; [] for nowhere. Default: as the gate.
	Account []string `yaml:"account"`
	// What happens to a request that names different accounts in different places. Default: as the gate.
	AccountConflict identify.Conflict `yaml:"account_conflict"`
	// Headers that are set or left out, in addition to those of the gate. Where both name a header, the route decides.
	Headers Headers `yaml:"headers"`
	// What people see of the gate, instead of what the gate says. Default: as the gate.
	Pages *pages.Options `yaml:"pages"`
	// The body of a request. More gets 413. Default: as bounds.body of the gate.
	Body weir.Size `yaml:"body"`
	// How long the gate waits for the upstream.
	Timeouts RouteTimeouts `yaml:"timeouts"`
}

// RouteTimeouts are those that a route may have of its own.
type RouteTimeouts struct {
	// For a connection to the upstream. Default: as the gate.
	Connect weir.Duration `yaml:"connect"`
	// From the end of the request to the upstream's response headers. Default: as the gate.
	Response weir.Duration `yaml:"response"`
}

// Hosts are names of sites. A single one needs no list.
type Hosts []string

// Single allows one name instead of a list.
func (Hosts) Single() bool { return true }

// An Answer is what the gate says by itself.
type Answer struct {
	// The status, from 200 to 599. Default 200.
	Status int `yaml:"status"`
	// The body. Default: none.
	Body string `yaml:"body"`
	// The type of the body. Default text/plain; charset=utf-8.
	Type string `yaml:"type"`
}

// A Redirect sends clients elsewhere. The short form is the address alone.
type Redirect struct {
	// https, or an address without a path: https://www.example.org.
	To string `yaml:"to"`
	// 301, 302, 307 or 308. Default 308: clients repeat the request as it was, and remember it.
	Status int `yaml:"status"`
}

// Short names the key that may be written instead of the whole.
func (Redirect) Short() string { return "to" }

// toHTTPS is a redirect to the same host with HTTPS.
const toHTTPS = "https"

// Bounds on routes.
const (
	MaxRoutes     = 1000
	MaxRouteHosts = 100
	maxRoutePath  = 256
	maxRouteHost  = 253
	maxAnswer     = 64 << 10
)

// Names of what is no route of the options.
const (
	RouteDefault = "default" // the gate's own upstream, for what no route matches
	RouteNone    = "none"    // no route matches, or several may
)

var routeName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// name is what the route is called.
func (r *Route) name() string {
	if r.Name != "" {
		return r.Name
	}
	host := ""
	if len(r.Host) > 0 {
		host = identify.Host(r.Host[0])
	}
	path := r.path()
	if host != "" && path == "/" {
		return host
	}
	return host + path
}

// path is the path in the form of rules.
func (r *Route) path() string { return identify.Route("", "", cmp.Or(r.Path, "/"), nil).Path }

// withDefaults returns the route with everything filled in that was left out, except for what it takes from the gate.
func (r Route) withDefaults() Route {
	r.Name = r.name()
	if r.Upstream != nil {
		r.Upstream = new(r.Upstream.WithDefaults())
	}
	if r.Capacity != nil {
		r.Capacity = new(r.Capacity.WithDefaults())
	}
	if r.Answer != nil {
		full := *r.Answer
		full.Status = cmp.Or(full.Status, http.StatusOK)
		full.Type = cmp.Or(full.Type, "text/plain; charset=utf-8")
		r.Answer = &full
	}
	if r.Redirect != nil {
		full := *r.Redirect
		full.Status = cmp.Or(full.Status, http.StatusPermanentRedirect)
		r.Redirect = &full
	}
	return r
}

// Forwards reports whether requests that no route matches go to an upstream.
func (o *Options) Forwards() bool { return len(o.Upstream.Servers) > 0 }

// Of returns what is in force for a route: the options of the gate, and what the route says instead.
func (o Options) Of(r Route) Options {
	o.Routes = nil
	switch {
	case r.Answer != nil || r.Redirect != nil && r.Redirect.To != toHTTPS:
		o.Upstream, o.Capacity = behind.Options{}, nil
	case r.Upstream != nil:
		// A capacity is that of an upstream.
		o.Upstream, o.Capacity = *r.Upstream, nil
	}
	if r.Capacity != nil {
		o.Capacity = r.Capacity
	}
	if r.Throttles != nil {
		o.Throttles = r.Throttles
	}
	if r.Account != nil {
		o.Account = r.Account
	}
	o.AccountConflict = cmp.Or(r.AccountConflict, o.AccountConflict)
	o.Headers = Headers{Request: o.Headers.Request.and(r.Headers.Request),
		Response: o.Headers.Response.and(r.Headers.Response)}
	if r.Pages != nil {
		o.Pages = *r.Pages
	}
	o.Bounds.Body = cmp.Or(r.Body, o.Bounds.Body)
	o.Timeouts.Connect = cmp.Or(r.Timeouts.Connect, o.Timeouts.Connect)
	o.Timeouts.Response = cmp.Or(r.Timeouts.Response, o.Timeouts.Response)
	return o
}

// Each returns the gate itself, at the path "", and what is in force for each of its routes, at its path.
func (o Options) Each() iter.Seq2[string, Options] {
	return func(yield func(string, Options) bool) {
		own := o
		own.Routes = nil
		if !yield("", own) {
			return
		}
		for i, r := range o.Routes {
			if !yield(fmt.Sprintf("routes[%d]", i), o.Of(r)) {
				return
			}
		}
	}
}

// OwnLanes reports whether a route has a capacity of its own, and not that of the gate.
func (r *Route) OwnLanes() bool { return r.Capacity != nil }

// OwnChain reports whether a route cannot share the chain of its gate.
func (o *Options) OwnChain(r Route) bool {
	return r.Throttles != nil || r.Capacity != nil || o.Capacity != nil && o.Of(r).Capacity == nil
}

// and returns the rules with those of a route, which decide where both name a header.
func (h HeaderRules) and(r HeaderRules) HeaderRules {
	if len(r.Set)+len(r.Remove) == 0 {
		return h
	}
	same := func(a string) func(string) bool { return func(b string) bool { return strings.EqualFold(a, b) } }
	all := HeaderRules{Set: map[string]string{}, Remove: slices.Concat(h.Remove, r.Remove)}
	names := slices.Collect(maps.Keys(r.Set))
	for name, value := range h.Set {
		if !slices.ContainsFunc(r.Remove, same(name)) && !slices.ContainsFunc(names, same(name)) {
			all.Set[name] = value
		}
	}
	maps.Copy(all.Set, r.Set)
	return all
}

// validateRoutes finds mistakes in the routes, and routes that cannot be told apart.
func (o *Options) validateRoutes(v *weir.Mistakes) {
	if !v.AtMost("routes", "routes", len(o.Routes), MaxRoutes) {
		return
	}
	names, places := map[string]string{}, map[string]string{}
next:
	for i := range o.Routes {
		r, at := &o.Routes[i], fmt.Sprintf("routes[%d]", i)
		v.Under(at, o.validateRoute(r))
		if !r.placed() {
			continue // that is said already; what it is for is not known
		}
		hosts := r.Host
		if len(hosts) == 0 {
			hosts = Hosts{""}
		}
		for _, host := range hosts {
			place := strings.ToLower(strings.TrimSuffix(host, ".")) + r.path()
			if first, taken := places[place]; taken {
				*v = append(*v, &weir.FieldError{Path: at, Msg: "another route has the same " + where(host, r.Path),
					Hint: "a request can go one way only; remove one of them", Other: first})
				continue next
			}
			places[place] = at
		}
		if first, taken := names[r.name()]; taken {
			*v = append(*v, &weir.FieldError{Path: at + ".name", Other: first,
				Msg: fmt.Sprintf("%q is the name of another route", r.name()), Hint: "give each route a name of its own"})
		}
		names[r.name()] = at
	}
}

// placed reports whether hosts and path of a route are good ones.
func (r *Route) placed() bool {
	var v weir.Mistakes
	for _, host := range r.Host {
		validateHost(&v, "host", host)
	}
	validatePath(&v, r.Path)
	return len(v) == 0
}

// where says what a route is for.
func where(host, path string) string {
	switch {
	case host == "":
		return fmt.Sprintf("path %q, for every host", cmp.Or(path, "/"))
	case path == "":
		return fmt.Sprintf("host %q", host)
	}
	return fmt.Sprintf("host %q and path %q", host, path)
}

func (o *Options) validateRoute(r *Route) error {
	var v weir.Mistakes
	switch {
	case r.Name == RouteDefault || r.Name == RouteNone:
		v.Add("name", fmt.Sprintf("%q is the name of what no route matches", r.Name), "give it another name")
	case r.Name != "" && r.Name != (&Route{Host: r.Host, Path: r.Path}).name() && !routeName.MatchString(r.Name):
		v.Add("name", fmt.Sprintf("%.64q is not a name", r.Name), "letters, digits, '-', '_' and '.', at most 64")
	}
	if v.AtMost("host", "hosts", len(r.Host), MaxRouteHosts) {
		for i, host := range r.Host {
			validateHost(&v, fmt.Sprintf("host[%d]", i), host)
		}
	}
	validatePath(&v, r.Path)
	switch {
	case r.StripPrefix && r.path() == "/":
		v.Add("strip_prefix", "the route has no path that could be cut off", "write the path of the route: path: /v1")
	case r.StripPrefix && (r.Answer != nil || r.Redirect != nil && r.Redirect.To != toHTTPS):
		v.Add("strip_prefix", "no upstream gets the requests of this route", "leave it out")
	}
	r.validateEnd(&v, o)
	if r.Capacity != nil {
		v.Under("capacity", r.Capacity.Validate())
		if r.Answer != nil || r.Redirect != nil {
			v.Add("capacity", "there is no upstream whose capacity it could be", "leave it out")
		}
	}
	if r.Account != nil || r.AccountConflict != "" {
		own := o.Of(*r)
		accounts, err := identify.ParseAccounts(own.Account)
		v.Under("account", err)
		own.AccountConflict.Validate(&v, &accounts)
		o.validateAccounts(&v, &accounts)
	}
	v.Under("headers.request", r.Headers.Request.validate())
	v.Under("headers.response", r.Headers.Response.validate())
	if r.Pages != nil {
		v.Under("pages", r.Pages.Validate())
	}
	if r.Body < 0 {
		v.Add("body", "a body cannot be smaller than nothing", "leave it out")
	}
	v.Timeout("timeouts.connect", r.Timeouts.Connect)
	v.Timeout("timeouts.response", r.Timeouts.Response)
	return v.Err()
}

// validateEnd finds mistakes in where a route leads to.
func (r *Route) validateEnd(v *weir.Mistakes, o *Options) {
	switch {
	case r.Answer != nil && r.Redirect != nil:
		v.Add("redirect", "the route has an answer already", "keep one of the two")
	case r.Answer != nil && r.Upstream != nil:
		v.Add("upstream", "the route has an answer: nothing would go there", "keep one of the two")
	case r.Redirect != nil && r.Upstream != nil && r.Redirect.To != toHTTPS:
		v.Add("upstream", "the route redirects: nothing would go there", "keep one of the two")
	case r.Answer == nil && r.Redirect == nil && r.Upstream == nil && !o.Forwards():
		v.Add("", "the route leads nowhere", "write upstream: http://127.0.0.1:3000, answer: {…} or redirect: https")
	}
	if r.Upstream != nil {
		v.Under("upstream", r.Upstream.Validate())
	}
	if a := r.Answer; a != nil {
		weir.Between(v, "answer.status", a.Status, 200, 599)
		if len(a.Body) > maxAnswer {
			v.Add("answer.body", fmt.Sprintf("%d bytes are too many", len(a.Body)), fmt.Sprintf("at most %d", maxAnswer))
		}
		if a.Body != "" && (a.Status == http.StatusNoContent || a.Status == http.StatusNotModified) {
			v.Add("answer.body", fmt.Sprintf("an answer with status %d has no body", a.Status), "leave it out")
		}
		if strings.ContainsFunc(a.Type, func(c rune) bool { return c < ' ' || c >= 0x7f }) {
			v.Add("answer.type", fmt.Sprintf("%.64q is not a type", a.Type), "write text/html; charset=utf-8")
		}
	}
	if r.Redirect != nil {
		v.Under("redirect", r.Redirect.validate(r, o))
	}
}

func (d *Redirect) validate(r *Route, o *Options) error {
	var v weir.Mistakes
	const hint = "write https, or https://www.example.org"
	if d.Status != 0 && !slices.Contains([]int{301, 302, 307, 308}, d.Status) {
		v.Add("status", fmt.Sprintf("%d is not a redirect", d.Status), "301, 302, 307 or 308")
	}
	if d.To == toHTTPS {
		switch {
		case o.TLS != nil:
			v.Add("to", "this gate speaks HTTPS: clients would be sent back here", hint)
		case len(r.Host) == 0:
			v.Add("to", "without a host, every client could choose where it leads to",
				"write the hosts of the route, host: [example.org, www.example.org], or to: https://www.example.org")
		}
		return v.Err()
	}
	u, err := url.Parse(d.To)
	switch {
	case d.To == "":
		v.Add("to", "the address is missing", hint)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		!validHost(u.Host) || weir.CheckURL(u) != nil:
		v.Add("to", fmt.Sprintf("%.64q is not the address of a site", d.To), hint)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		v.Add("to", "the path and the query are those of the request", "leave them out: "+u.Scheme+"://"+u.Host)
	case slices.ContainsFunc(r.Host, func(host string) bool { return strings.EqualFold(host, u.Host) }) &&
		(o.TLS != nil) == (u.Scheme == "https"):
		v.Add("to", "clients would be sent back to this route", "name another site")
	}
	return v.Err()
}

// origin is where a redirect to another site leads to, without a slash at its end.
func (d *Redirect) origin() string { return strings.TrimSuffix(d.To, "/") }

func validateHost(v *weir.Mistakes, at, host string) {
	const hint = "write api.example.org, or *.example.org for all names below it"
	name := strings.TrimPrefix(host, "*.")
	switch {
	case host == "*":
		v.Add(at, "a route without a host is for every host", "leave host out")
	case identify.Host(host) != strings.ToLower(strings.Trim(strings.TrimSuffix(host, "."), "[]")):
		v.Add(at, fmt.Sprintf("%.64q has a port", host), "leave the port out: a gate has one")
	case name == "" || len(name) > maxRouteHost || oddHost(identify.Host(name)):
		v.Add(at, fmt.Sprintf("%.64q is not the name of a host", host), hint)
	}
}

func validatePath(v *weir.Mistakes, path string) {
	switch {
	case path == "":
	case path[0] != '/':
		v.Add("path", fmt.Sprintf("%.64q does not begin with a slash", path), "write /"+path)
	case strings.Contains(path, "*"):
		v.Add("path", "a path has no wildcards", "everything below it belongs to it anyway")
	case len(path) > maxRoutePath:
		v.Add("path", fmt.Sprintf("%d bytes are too many", len(path)), fmt.Sprintf("at most %d", maxRoutePath))
	case !identify.Straight(path):
		v.Add("path", fmt.Sprintf("servers do not agree on what %.64q means", path),
			"leave out dots, doubled slashes, ';' and '?'")
	}
}
