package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/admission"
	"weir/config"
	"weir/console"
	"weir/gate/httpgate"
	"weir/policy"
)

// routed is a route of an HTTP gate.
type routed struct {
	name   string
	status console.RouteStatus
	// As of a gate. They are those of the gate where the route has none of its own.
	chain   *policy.Chain
	account []string
	lanes   *lanes // nil where the capacity is not limited
	own     bool   // the lanes are the route's own
}

// A bottleneck is an upstream with a limited capacity: of a gate, or of one of its routes.
type bottleneck struct {
	*lanes
	of       string // what its load is called
	route    string // its name; empty for the gate itself
	upstream string
	chain    *policy.Chain
}

// bottlenecks are those of a gate.
func (g *gate) bottlenecks() (all []bottleneck) {
	if g.lanes != nil {
		all = append(all, bottleneck{g.lanes, g.listen, "", g.status.Upstream, g.chain})
	}
	for _, r := range g.routes {
		if r.own {
			all = append(all, bottleneck{r.lanes, httpgate.RouteLoad(g.listen, r.name), r.name, r.status.Upstream,
				r.chain})
		}
	}
	return all
}

// ownRooms are the bottlenecks of routes.
func (g *gate) ownRooms() []bottleneck {
	all := g.bottlenecks()
	if g.lanes != nil {
		all = all[1:] // that of the gate
	}
	return all
}

// bottleneckOf is that of what a request is judged by; nil where nothing is limited.
func (g *gate) bottleneckOf(r *routed) *bottleneck {
	if r == nil {
		r = &routed{lanes: g.lanes}
	}
	for _, one := range g.bottlenecks() {
		if one.lanes == r.lanes {
			return &one
		}
	}
	return nil
}

func (c *change) planHTTP(p *gatePlan, o httpgate.Options) (err error) {
	var old *lanes
	if p.old != nil {
		old = p.old.lanes
	}
	if p.lanes, err = c.prepareLanes(o, o.Listen, old); err != nil {
		return err
	}
	if _, err = c.chains(p, o, p.lanes.links()...); err != nil {
		return err
	}
	chains, err := c.planRoutes(p, o)
	if err != nil {
		return err
	}
	p.status.Upstream = o.Upstream.String()
	wire(p, func() (*httpgate.Gate, error) {
		return httpgate.New(o, p.accept, p.chain, c.app.httpEnv(o, c.next, p.gate), chains...)
	}, func(g *httpgate.Gate) (func(), func(), error) { return g.Prepare(o, p.accept, p.chain, chains...) })
	return nil
}

// planRoutes makes the routes of a gate, and returns the chains of those that cannot share the chain of the gate.
func (c *change) planRoutes(p *gatePlan, o httpgate.Options) (chains []*policy.Chain, err error) {
	before := map[string]*lanes{}
	if p.old != nil {
		for _, r := range p.old.routes {
			if r.own {
				before[r.name] = r.lanes
			}
		}
	}
	for i, r := range o.Routes {
		own := o.Of(r)
		to := &routed{name: r.Name, chain: p.chain, account: own.Account, lanes: p.lanes, own: r.OwnLanes(),
			status: routeStatus(r, own)}
		if to.own {
			if to.lanes, err = c.prepareLanes(own, httpgate.RouteLoad(o.Listen, r.Name), before[r.Name]); err != nil {
				return nil, err
			}
			delete(before, r.Name)
		} else if own.Capacity == nil {
			to.lanes = nil
		}
		chains = append(chains, nil)
		if o.OwnChain(r) {
			path := "throttles"
			if r.Throttles != nil {
				path = fmt.Sprintf("routes[%d].throttles", i)
			}
			if to.chain, err = c.chain(&p.seen.GateFigures, path, own.Throttles, to.lanes.links()...); err != nil {
				return nil, err
			}
			chains[i] = to.chain
		}
		p.routes = append(p.routes, to)
	}
	for _, gone := range before {
		c.commit = append(c.commit, func() { gone.Retire(c.app.clock.Now()) })
	}
	return chains, nil
}

func routeStatus(r httpgate.Route, own httpgate.Options) console.RouteStatus {
	s := console.RouteStatus{Route: r.Name, Hosts: slices.Clone(r.Host), Path: r.Path, Throttles: own.Throttles,
		Strips: r.StripPrefix}
	switch {
	case r.Answer != nil:
		s.Answer = r.Answer.Status
	case r.Redirect != nil:
		s.Redirect, s.Upstream = r.Redirect.To, own.Upstream.String()
	default:
		s.Upstream = own.Upstream.String()
	}
	if s.Throttles == nil {
		s.Throttles = []string{}
	}
	return s
}

// routesView is what the console shows of the routes, and of requests that no route matches.
func (g *gate) routesView(now time.Time) (all []console.RouteStatus) {
	gt, ok := g.Gate.(*httpgate.Gate)
	if !ok || len(g.routes) == 0 {
		return nil
	}
	for _, stats := range gt.Routes() {
		s := console.RouteStatus{Route: stats.Name, Throttles: g.status.Throttles}
		if stats.Name == httpgate.RouteDefault {
			s.Upstream = g.status.Upstream
		}
		for _, r := range g.routes {
			if r.name != stats.Name {
				continue
			}
			if s = r.status; r.own {
				s.Capacity = r.lanes.view(now)
			}
		}
		if s.Throttles == nil {
			s.Throttles = []string{}
		}
		s.Verdicts, s.Failed = map[string]uint64{}, stats.Failed
		for v, n := range stats.Verdicts {
			s.Verdicts[weir.Verdict(v).String()] = n
		}
		all = append(all, s)
	}
	return all
}

// routeFor finds the route of a question. The name is empty for a gate without routes.
func (g *gate) routeFor(q console.Question) (name string, to *routed, end string) {
	gt, ok := g.Gate.(*httpgate.Gate)
	if !ok {
		return "", nil, ""
	}
	name, i, end := gt.RouteOf(q.Host, q.Path)
	if i >= 0 && i < len(g.routes) && g.routes[i].name == name { // else a reload came between
		to = g.routes[i]
	}
	return name, to, end
}

// RouteLines tell of the routes in a configuration, one line for each: what it is for, and where it leads to.
func RouteLines(cfg *config.Config) (all []string) {
	full := cfg.WithDefaults()
	for _, g := range full.HTTP {
		for _, r := range g.Routes {
			own := g.Of(r)
			for _, host := range hostsOf(r) {
				all = append(all, fmt.Sprintf("%s %s%s -> %s, throttles: %s", g.Listen, host, r.Path, leadsTo(r, own),
					listed(own.Throttles)))
			}
		}
		if len(g.Routes) > 0 && !slices.ContainsFunc(g.Routes, forAll) {
			end := "404"
			if g.Forwards() {
				end = g.Upstream.String()
			}
			all = append(all, fmt.Sprintf("%s everything else -> %s, throttles: %s", g.Listen, end, listed(g.Throttles)))
		}
	}
	return all
}

// forAll reports whether a route is for every host and every path, so that nothing else is left.
func forAll(r httpgate.Route) bool { return len(r.Host) == 0 && strings.Trim(r.Path, "/") == "" }

func hostsOf(r httpgate.Route) []string {
	if len(r.Host) == 0 {
		return []string{"any host"}
	}
	return r.Host
}

func leadsTo(r httpgate.Route, own httpgate.Options) string {
	switch {
	case r.Answer != nil:
		return fmt.Sprintf("answer %d", r.Answer.Status)
	case r.Redirect != nil:
		return fmt.Sprintf("redirect %d to %s", r.Redirect.Status, r.Redirect.To)
	case r.StripPrefix:
		return fmt.Sprintf("%s, without %s", own.Upstream.String(), strings.TrimRight(r.Path, "/"))
	}
	return own.Upstream.String()
}

func listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// capacityLink is what the lanes of a gate are called beside its throttles.
const capacityLink = "capacity"

var _ policy.Lanes = (*admission.Lanes)(nil)

// lanes are those in front of the upstream of one gate.
type lanes struct {
	*admission.Lanes
	link *policy.Link
}

// name is what the lanes are called where the gate is not known.
func (l *lanes) name(gate string) string { return capacityLink + " of " + gate }

// links are what the chain of the gate ends with.
func (l *lanes) links() []*policy.Link {
	if l == nil {
		return nil
	}
	return []*policy.Link{l.link}
}

// prepareLanes keeps the lanes of a gate or a route that stays, with whoever waits in them, or makes them. old are
// those before, or nil.
func (c *change) prepareLanes(o httpgate.Options, of string, old *lanes) (*lanes, error) {
	now := c.app.clock.Now
	if o.Capacity == nil {
		if old != nil {
			c.commit = append(c.commit, func() { old.Retire(now()) })
		}
		return nil, nil
	}
	opts := *o.Capacity
	for _, name := range o.Throttles {
		if t := c.next.throttle(name); t != nil && t.stamps() != nil && t.config.Stamp.Classic {
			opts.Strict, opts.Pool = true, 0 // as the document has it
		}
	}
	if opts.Local == nil {
		opts.Local = new(o.Upstream.Here())
	}
	if old != nil {
		c.commit = append(c.commit, func() {
			if err := old.Configure(opts, now()); err != nil { // the options were checked
				c.app.opts.Log.Error("the capacity stays as it was", "gate", of, "err", err)
			}
		})
		return old, nil
	}
	l, err := admission.New(opts, now())
	if err != nil {
		return nil, err
	}
	c.undo.add(func() { l.Retire(now()) })
	link := c.app.watchedLink(capacityLink, l, policy.Open)
	l.Follow(link.Shadow.Load)
	c.app.pace.Start(l)
	return &lanes{l, link}, nil
}

// view is what the console shows of the lanes.
func (l *lanes) view(now time.Time) *console.Capacity {
	if l == nil {
		return nil
	}
	s := l.Stats(now)
	return &console.Capacity{
		Concurrent: s.Capacity, Here: s.Here, InUse: s.InUse, Load: float64(s.Load),
		Delay:   milliseconds(s.Delay),
		Longest: map[string]float64{"stamped": milliseconds(s.Stamped.Longest), "pool": milliseconds(s.Pool.Longest)},
		Holders: s.Holders,
		Stamped: s.Stamped.Waiting, Pool: s.Pool.Waiting, InLine: s.InLine + s.Called, TurnedAway: s.TurnedAway,
		Shadow: l.link.Shadow.Load(),
		LetIn:  map[string]uint64{"stamped": s.Stamped.LetIn, "pool": s.Pool.LetIn},
		Refused: map[string]uint64{"full": s.Stamped.Full + s.Pool.Full + s.LineFull, "too-many": s.TooMany,
			"expired": s.Stamped.Expired + s.Pool.Expired, "no-show": s.NoShows, "lost": s.Lost},
	}
}

func milliseconds(d weir.Duration) float64 { return float64(d.Std().Microseconds()) / 1000 }

// asProgram is how the general pool would take an event that comes from a program. It takes nothing.
type asProgram struct {
	lanes  *admission.Lanes
	event  *weir.Event
	always bool
}

func (p asProgram) Take() bool {
	return p.lanes.HasRoom(p.event, admission.Taking{Always: p.always}, p.event.Time)
}
