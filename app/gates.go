package app

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	skeleton "weir/gate"
	"weir/gate/apigate"
	"weir/gate/authgate"
	"weir/gate/httpgate"
	"weir/gate/tcpgate"
	"weir/identify"
	"weir/mail/spool"
	"weir/policy"
)

// A gate is one gate of a generation.
type gate struct {
	skeleton.Gate
	kind   string // http, tcp, udp, smtp, postfix, auth, rls, api
	listen string // as configured
	label  string // in the metrics: listen, and a number if several gates have port 0
	status console.GateStatus
	seen   *traffic

	accept  *policy.Chain         // judges connections; nil if nothing does
	chain   *policy.Chain         // judges what comes over them; nil if nothing does
	trusts  func(netip.Addr) bool // reports trusted proxies, whose connections accept does not judge
	account []string              // how the account of a request is found
	lanes   *lanes                // nil if the capacity is not limited
	routes  []*routed

	// Only gates for mail have these.
	post   *spool.Gate
	each   *policy.Chain   // judges every recipient
	stamps *mailStampTaker // nil if no stamps are taken

	// state is what only gates of this kind have, and keep from one generation to the next. If it has a method
	// retire(), that is called when the gate is gone.
	state any
}

// address is where the gate listens, or empty before it does.
func (g *gate) address() string {
	if addr := g.Addr(); addr != nil {
		return addr.String()
	}
	return ""
}

// view is the gate as the console shows it.
func (g *gate) view(now time.Time) console.GateStatus {
	s := g.status
	s.Gate, s.Kind, s.Address, s.Label = g.listen, g.kind, g.address(), g.label
	s.InFlight, s.Waiting = g.seen.inFlight.Load(), g.seen.waiting.Load()
	s.Capacity = g.lanes.view(now)
	if gt, ok := g.Gate.(*httpgate.Gate); ok {
		s.KeptBytes = gt.KeptBodies()
		for _, p := range gt.UnlistedProxies() {
			u := console.UnlistedProxy{Header: p.Header}
			if p.Addr.IsValid() {
				u.Address = p.Addr.String()
			}
			s.Unlisted = append(s.Unlisted, u)
		}
		for _, v := range gt.Servers() {
			s.Servers = append(s.Servers, console.ServerStatus{Server: v.Server, Healthy: v.Well, InFlight: v.Active,
				Idle: v.Idle, Requests: v.Requests, Failures: v.Failures, Routes: v.Routes})
		}
	}
	s.Routes = g.routesView(now)
	if s.Throttles == nil {
		s.Throttles = []string{} // a list for scripts, even if it is empty
	}
	return s
}

// explain asks every throttle of the gate what it would say. First come those that judge the connection, if its source
// is known, and then those of the chain, which judge what comes over it. A refused connection is judged no further.
func (g *gate) explain(ev *weir.Event, chain *policy.Chain) (steps []policy.Step, verdict weir.Answer) {
	if g.accept != nil && ev.Source.IsValid() && !g.trusts(ev.Source) {
		connection := *ev
		connection.Kind = policy.KindConnection
		if steps, verdict = g.accept.Explain(&connection); verdict.Verdict != weir.Admit {
			return steps, verdict
		}
		// The block list is asked again below, where it knows more.
		steps = slices.DeleteFunc(steps, func(s policy.Step) bool { return s.Throttle == config.Bans })
	}
	rest, verdict := chain.Explain(ev)
	return append(steps, rest...), verdict
}

// envOf returns what every gate gets from the app.
func (a *App) envOf(listen string) skeleton.Env {
	return skeleton.Env{Clock: a.clock, Log: a.opts.Log.With("gate", listen), Sockets: a.opts.Sockets}
}

// trusts returns a function that reports whether an address is that of a trusted proxy.
func trusts(proxies []netip.Prefix) func(netip.Addr) bool {
	p := identify.NewProxies(proxies, "")
	return p.Trusts
}

// open has a new gate serve when the change takes effect. On a running weir it listens at once, so that an address that
// is taken is found before anything has changed.
func (c *change) open(gt *gate) error {
	c.undo.add(func() { gt.Stop(ended()) })
	if !c.live {
		return nil
	}
	if err := gt.Listen(); err != nil {
		return c.cannotListen(gt, err)
	}
	c.commit = append(c.commit, gt.Start)
	return nil
}

// cannotListen says why a new gate cannot have its address. The address may belong to a gate of this weir that the
// reload removes: it becomes free only after the reload.
func (c *change) cannotListen(gt *gate, err error) error {
	e := &weir.FieldError{Path: "listen", Msg: err.Error()}
	_, port, _ := net.SplitHostPort(gt.listen)
	for _, old := range c.old.gates {
		if _, taken, _ := net.SplitHostPort(old.listen); taken == port && port != "0" {
			e.Hint = fmt.Sprintf("this weir has %s; remove that gate by one reload and add this one by another, or "+
				"restart weir", old.listen)
		}
	}
	return e
}

func (c *change) planTCP(p *gatePlan, o tcpgate.Options) error {
	if _, err := c.chains(p, o); err != nil {
		return err
	}
	p.status.Upstream = o.Upstream
	wire(p, func() (*tcpgate.Gate, error) {
		return tcpgate.New(o, p.accept, p.chain, tcpgate.Env{Env: c.app.envOf(o.Listen),
			Observer: tcpObserver{p.seen, c.app.metrics.TCP(p.label), c.app.metrics}})
	}, func(g *tcpgate.Gate) (func(), func(), error) { return g.Prepare(o, p.accept, p.chain) })
	return nil
}

func (c *change) planAuth(p *gatePlan, o authgate.Options) error {
	if _, err := c.chains(p, o); err != nil {
		return err
	}
	wire(p, func() (*authgate.Gate, error) {
		return authgate.New(o, p.chain, authgate.Env{Env: c.app.envOf(o.Listen),
			Observer: authObserver{p.seen, c.app.metrics, o.Listen}, Offend: c.app.offend})
	}, func(g *authgate.Gate) (func(), func(), error) { return g.Prepare(o, p.chain) })
	return nil
}

func (c *change) planAPI(p *gatePlan, o apigate.Options) error {
	all, err := c.chains(p, o)
	if err != nil {
		return err
	}
	chains := map[string]*policy.Chain{}
	for name := range o.Policies {
		chains[name] = all["policies."+name]
	}
	p.status.Policies = slices.Sorted(maps.Keys(o.Policies))
	wire(p, func() (*apigate.Gate, error) {
		return apigate.New(o, chains, apigate.Env{Env: c.app.envOf(o.Listen),
			Observer: apiObserver{p.seen, c.app.metrics}})
	}, func(g *apigate.Gate) (func(), func(), error) {
		commit, abort, err := g.Prepare(o, chains)
		return func() {
			commit()
			for _, name := range p.old.status.Policies {
				if _, kept := o.Policies[name]; !kept {
					c.app.metrics.Forget("api", "policy", name)
				}
			}
		}, abort, err
	})
	return nil
}
