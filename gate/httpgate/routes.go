package httpgate

import (
	"slices"
	"strings"
	"sync/atomic"

	"weir"
	"weir/identify"
)

// A route is where requests go, and how many went there. It stays when the gate is reloaded, if its name does.
type route struct {
	name   string
	end    ending
	answer *Answer // of a fixed answer
	to     *Redirect
	cut    string // what is cut off the path of requests, as it was written; empty for nothing
	counts *routeCounts
}

// An ending is what becomes of a request that the throttles admit.
type ending uint8

const (
	forwarded  ending = iota // it goes to the upstream
	answered                 // it has a fixed answer
	redirected               // it is sent elsewhere
	unmatched                // there is no such place
	unclear                  // servers may read its path, or its host, as one of another route
)

type routeCounts struct {
	verdicts [len(weir.Verdicts)]atomic.Uint64
	failed   atomic.Uint64 // with a status of 5xx, on the verdict to admit
}

// served counts a request that is over. It may be called on nil, for gates without routes.
func (r *route) served(v weir.Verdict, status int) {
	if r == nil {
		return
	}
	r.counts.verdicts[v].Add(1)
	if v == weir.Admit && status >= 500 {
		r.counts.failed.Add(1)
	}
}

// A router finds the setup for a request. It does not change, allocates nothing, and goroutines may share it.
type router struct {
	exact   map[string]*site // by host
	below   map[string]*site // by what follows the asterisk and the dot
	longest int              // of the keys of below
	others  *site            // for all other hosts
	rest    *setup           // for what no route matches
	unclear *setup
	routes  []*setup // in the order of the options
}

// A site is what a host may lead to, from the most specific name to the least.
type site struct{ levels []*tree }

// A tree has the routes of one name.
type tree struct {
	byPath  map[string][]*setup // by path in lower case; several differ in case alone
	longest int                 // of these paths
	root    *setup              // for all other paths; nil for none
}

// newRouter takes the setups of all routes with their hosts, the one for the rest, and the one for what is not clear.
func newRouter(routes []*setup, hosts map[*setup][]string, rest, unclear *setup) *router {
	r := &router{exact: map[string]*site{}, below: map[string]*site{}, rest: rest, unclear: unclear, routes: routes}
	trees := map[string]*tree{}
	for _, s := range routes {
		names := hosts[s]
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			if name = identify.Host(name); trees[name] == nil {
				trees[name] = &tree{byPath: map[string][]*setup{}}
			}
			trees[name].add(s.at, s)
		}
	}
	everyone := trees[""]
	for name, t := range trees {
		all := &site{levels: []*tree{t}}
		under, wild := strings.CutPrefix(name, "*.")
		for _, above, found := strings.Cut(under, "."); found; _, above, found = strings.Cut(above, ".") {
			if wider := trees["*."+above]; wider != nil {
				all.levels = append(all.levels, wider)
			}
		}
		if name != "" && everyone != nil {
			all.levels = append(all.levels, everyone)
		}
		switch {
		case name == "":
			r.others = all
		case wild:
			r.below[under] = all
			r.longest = max(r.longest, len(under))
		default:
			r.exact[name] = all
		}
	}
	return r
}

func (t *tree) add(path string, s *setup) {
	if path == "/" {
		t.root = s
		return
	}
	key := strings.ToLower(path)
	t.byPath[key] = append(t.byPath[key], s)
	t.longest = max(t.longest, len(path))
}

// byHost reports whether the host of a request matters.
func (r *router) byHost() bool { return len(r.exact)+len(r.below) > 0 }

// site finds what a host, in the form of rules, may lead to; nil for nothing.
func (r *router) site(host string) *site {
	if s := r.exact[host]; s != nil {
		return s
	}
	// A name that a client invents may have thousands of labels; only its end is looked at.
	for at := max(0, len(host)-r.longest-1); at < len(host); at++ {
		if host[at] == '.' {
			if s := r.below[host[at+1:]]; s != nil && at > 0 {
				return s
			}
		}
	}
	return r.others
}

// choose finds the setup for a request. host and path have the form of rules, and also has the other readings of the
// path. Where servers may read the request as one for another route, it is for none: a client could otherwise choose
// a route with higher limits, or reach what no route leads to.
func (r *router) choose(host, path string, also []string) *setup {
	if r.byHost() && oddHost(host) {
		return r.unclear
	}
	at := r.site(host)
	found := r.find(at, path)
	for _, p := range also {
		if p == weir.Any && r.single(at) {
			continue
		}
		if p == weir.Any || !alike(found, r.find(at, p)) {
			return r.unclear
		}
	}
	return found
}

// find finds the route for one reading of a path.
func (r *router) find(s *site, path string) *setup {
	if s == nil {
		return r.rest
	}
	for _, t := range s.levels {
		switch to, sure := t.find(path); {
		case !sure:
			return r.unclear
		case to != nil:
			return to
		}
	}
	return r.rest
}

// single reports whether all paths of a site lead to the same place.
func (r *router) single(s *site) bool {
	if s == nil {
		return true
	}
	for _, t := range s.levels {
		if len(t.byPath) > 0 {
			return false
		}
		if t.root != nil {
			return true
		}
	}
	return true
}

// find returns the route with the longest path that a path is or lies below. A path that differs from that of a route
// in case alone is not sure: some servers read both as the same.
func (t *tree) find(path string) (to *setup, sure bool) {
	if t.longest == 0 {
		return t.root, true
	}
	var lower [maxRoutePath]byte
	n := min(len(path), t.longest)
	for i := range n {
		c := path[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	for i := n; i > 1; i-- {
		if i < len(path) && path[i] != '/' {
			continue
		}
		all := t.byPath[string(lower[:i])]
		for _, s := range all {
			if s.at == path[:i] {
				return s, true
			}
		}
		if len(all) > 0 {
			return nil, false
		}
	}
	return t.root, true
}

// alike reports whether it makes no difference for limits which of two routes a request takes.
func alike(a, b *setup) bool {
	return a == b || a.route.end == forwarded && b.route.end == forwarded && a.servers == b.servers &&
		a.lanes == b.lanes && slices.Equal(a.opts.Throttles, b.opts.Throttles) &&
		slices.Equal(a.opts.Account, b.opts.Account) && a.opts.AccountConflict == b.opts.AccountConflict &&
		a.opts.Bounds.Body == b.opts.Bounds.Body && a.route.cut == b.route.cut
}

// oddHost reports whether a host, in the form of rules, is one that servers may take for another: with an empty label,
// or with characters that no name has.
func oddHost(host string) bool {
	last := byte('.')
	for i := range len(host) {
		c := host[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_', c == ':':
		case c == '.' && last != '.':
		default:
			return true
		}
		last = c
	}
	return host != "" && last == '.'
}

// choose takes the setup of the request's route.
func (x *exchange) choose() {
	s := x.setup
	ev := &x.event.Route
	also := ev.Also
	if also != nil {
		// Headers that name another path do not reach the upstream.
		also = identify.Route("", "", identify.Escaped(x.r.URL), nil).Also
	}
	x.setup = s.router.choose(ev.Host, ev.Path, also)
	if !x.setup.cuttable(identify.Escaped(x.r.URL)) {
		x.setup = s.router.unclear
		return
	}
	if !x.origin.Proxied || !s.router.byHost() {
		return
	}
	// The upstream may believe what a proxy says about the host.
	for _, name := range [...]string{"X-Forwarded-Host", "Forwarded"} {
		for _, line := range x.fields.Values(name) {
			for host := range strings.SplitSeq(line, ",") {
				if name == "Forwarded" {
					host = forwardedHost(host)
				}
				host = identify.Host(strings.TrimSpace(host))
				if host != "" && host != ev.Host && !alike(x.setup, s.router.choose(host, ev.Path, also)) {
					x.setup = s.router.unclear
					return
				}
			}
		}
	}
}

// forwardedHost returns the host in an element of the header Forwarded (RFC 7239, 5.3), or nothing.
func forwardedHost(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		if name, value, ok := strings.Cut(pair, "="); ok && strings.EqualFold(strings.TrimSpace(name), "host") {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

// A RouteStats is what a route is for, and how many requests went there.
type RouteStats struct {
	Name     string
	Verdicts [len(weir.Verdicts)]uint64
	Failed   uint64 // of the admitted requests, those answered with 5xx
}

// Routes returns the counts of all routes, in order, then those of what no route matches. There are none for a gate
// without routes.
func (g *Gate) Routes() (all []RouteStats) {
	s := g.Setup.Load()
	if s.router == nil {
		return nil
	}
	for _, to := range append(slices.Clip(s.router.routes), s.router.rest, s.router.unclear) {
		if to == s.router.unclear && s.router.rest.route.counts == to.route.counts {
			continue
		}
		one := RouteStats{Name: to.route.name, Failed: to.route.counts.failed.Load()}
		for v := range one.Verdicts {
			one.Verdicts[v] = to.route.counts.verdicts[v].Load()
		}
		all = append(all, one)
	}
	return all
}

// RouteOf says which route a request would take, and what becomes of it there: an index into the options, or -1 for
// none of them.
func (g *Gate) RouteOf(host, escaped string) (name string, index int, end string) {
	s := g.Setup.Load()
	if s.router == nil {
		return "", -1, ""
	}
	r := identify.Route("", host, escaped, nil)
	to := s.router.choose(r.Host, r.Path, r.Also)
	if !to.cuttable(escaped) {
		to = s.router.unclear
	}
	return to.route.name, slices.Index(s.router.routes, to), endings[to.route.end]
}

// endings say what becomes of an admitted request that goes to no upstream.
var endings = [...]string{answered: "the gate answers by itself", redirected: "the client is sent elsewhere",
	unmatched: "no route matches: 404", unclear: "servers may read it as a request for several routes: 400"}
