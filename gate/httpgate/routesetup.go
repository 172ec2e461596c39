package httpgate

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"weir"
	"weir/gate/httpgate/pages"
	"weir/policy"
	behind "weir/upstream"
)

// pools are the servers behind a gate and its routes. Routes to the same service, with the same options, share
// connections and checks.
type pools []pooled

type pooled struct {
	opts behind.Options // with defaults
	*behind.Pool
}

// find returns the pool with some options, or nil.
func (p pools) find(o *behind.Options) *behind.Pool {
	for i := range p {
		if reflect.DeepEqual(&p[i].opts, o) {
			return p[i].Pool
		}
	}
	return nil
}

// get returns the pool for some options. One that the gate had before is kept; old, if not nil, is the pool of the same
// route before, and gives what it can.
func (p *pools) get(o *Options, env Env, before pools, old *behind.Pool) (*behind.Pool, error) {
	next := o.upstream().WithDefaults()
	if pool := p.find(&next); pool != nil {
		return pool, nil
	}
	pool := before.find(&next)
	if pool != nil {
		stale, err := pool.Stale()
		if err != nil {
			return nil, weir.Under("upstream", err)
		}
		if stale { // files that it names have changed
			pool, old = nil, pool
		}
	}
	var err error
	switch {
	case pool != nil:
	case old != nil:
		pool, err = old.Configure(next)
	default:
		pool, err = behind.New(next, behind.Env{Clock: env.Clock, Observer: env.Upstream, Roots: env.Roots,
			Resolver: env.Resolver})
	}
	if err != nil {
		return nil, weir.Under("upstream", err)
	}
	*p = append(*p, pooled{next, pool})
	return pool, nil
}

// close closes all pools that are not among those kept.
func (p pools) close(kept pools) {
	for _, one := range p {
		if !slices.ContainsFunc(kept, func(other pooled) bool { return other.Pool == one.Pool }) {
			one.Close()
		}
	}
}

// lead makes the ways on from the gate: to its own upstream, and those of its routes. chains are those of the routes;
// one that is nil or missing stands for the chain of the gate.
func (s *setup) lead(chains []*policy.Chain, env Env, before *setup) (err error) {
	if before == nil {
		before = &setup{}
	}
	if s.opts.Forwards() {
		if s.servers, err = s.pools.get(&s.opts, env, before.pools, before.servers); err != nil {
			return err
		}
	}
	if len(s.opts.Routes) == 0 {
		return nil
	}
	old := map[string]*setup{}
	if r := before.router; r != nil {
		for _, to := range append(r.routes[:len(r.routes):len(r.routes)], r.rest, r.unclear) {
			old[to.route.name] = to
		}
	}
	var routes []*setup
	for i, r := range s.opts.Routes {
		chain := s.chain
		if i < len(chains) && chains[i] != nil {
			chain = chains[i]
		}
		to, err := s.toward(r, chain, env, before, old[r.Name])
		if err != nil {
			return weir.Under(fmt.Sprintf("routes[%d]", i), err)
		}
		routes = append(routes, to)
		s.stamps = s.stamps || to.taker != nil
	}
	s.connect(routes, old)
	s.signRoutes(env)
	return nil
}

// toward makes the setup of a route. old is the one of the same name before, or nil.
func (s *setup) toward(r Route, chain *policy.Chain, env Env, before, old *setup) (*setup, error) {
	to := *s
	if err := to.adopt(s.opts.Of(r).WithDefaults(), chain); err != nil {
		return nil, err
	}
	to.at = r.path()
	to.route = &route{name: r.Name, answer: r.Answer, to: r.Redirect, counts: countsOf(old)}
	if r.StripPrefix {
		to.route.cut = strings.TrimRight(r.Path, "/")
	}
	switch {
	case r.Answer != nil:
		to.route.end = answered
	case r.Redirect != nil:
		to.route.end = redirected
	}
	if to.lanes != s.lanes && to.lanes != nil {
		to.of = RouteLoad(s.of, r.Name)
		sum := sha256.Sum256([]byte(r.Name))
		to.ticket = pages.TicketCookie + "-" + hex.EncodeToString(sum[:6])
	}
	to.servers = nil
	if !to.opts.Forwards() {
		return &to, nil
	}
	var had *behind.Pool
	if old != nil {
		had = old.servers
	}
	var err error
	to.servers, err = s.pools.get(&to.opts, env, before.pools, had)
	return &to, err
}

// RouteLoad is what the load of a route with a capacity of its own is called.
func RouteLoad(listen, route string) string { return listen + " " + route }

func countsOf(old *setup) *routeCounts {
	if old != nil {
		return old.route.counts
	}
	return new(routeCounts)
}

// connect makes the router of the gate.
func (s *setup) connect(routes []*setup, old map[string]*setup) {
	rest, none := *s, *s
	none.route = &route{name: RouteNone, end: unclear, counts: countsOf(old[RouteNone])}
	none.servers = nil
	if s.servers != nil {
		rest.route = &route{name: RouteDefault, counts: countsOf(old[RouteDefault])}
	} else {
		rest.route = &route{name: RouteNone, end: unmatched, counts: none.route.counts}
	}
	hosts := map[*setup][]string{}
	for i, to := range routes {
		hosts[to] = s.opts.Routes[i].Host
		to.stamps = s.stamps
	}
	s.router = newRouter(routes, hosts, &rest, &none)
}

// signRoutes gives the routes what they sign with, in copies: those before may be in use.
func (s *setup) signRoutes(env Env) {
	if s.router == nil {
		return
	}
	hosts := map[*setup][]string{}
	var routes []*setup
	copied := func(from *setup) *setup {
		to := *from
		to.sign(env)
		return &to
	}
	for i, from := range s.router.routes {
		to := copied(from)
		hosts[to] = s.opts.Routes[i].Host
		routes = append(routes, to)
	}
	s.router = newRouter(routes, hosts, copied(s.router.rest), copied(s.router.unclear))
}

// ownSecrets are secrets for the tickets of a route with a capacity of its own: a place in the line of one route is
// none in that of another.
func (s *setup) ownSecrets(secrets [][]byte) (all [][]byte) {
	for _, secret := range secrets {
		if len(secret) == 0 { // nothing can be signed with it
			all = append(all, nil)
			continue
		}
		h := hmac.New(sha256.New, secret)
		h.Write([]byte("route " + s.route.name))
		all = append(all, h.Sum(nil))
	}
	return all
}
