package app

import (
	"context"
	"errors"
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
	"weir/gate/postfixgate"
	"weir/gate/rlsgate"
	"weir/gate/smtpgate"
	"weir/gate/tcpgate"
	"weir/identify"
	"weir/mail/spool"
	"weir/policy"
	"weir/throttle/bloom"
)

// A server is what every kind of gate can do.
type server interface {
	Listen() error
	Addr() net.Addr
	Start()
	Stop(context.Context) error
}

// A gate is one gate of a generation.
type gate struct {
	server
	kind   string // as in the configuration: http, tcp, smtp, postfix, auth, rls, api
	listen string // as configured
	status console.GateStatus
	load   func() (inFlight, waiting int64)

	// What a question about a request is put to; nil for gates that see none.
	accept  *policy.Chain
	chain   *policy.Chain
	trusts  func(netip.Addr) bool // whose connections are not counted
	account []string
	lanes   *lanes // nil where the capacity is not limited

	// drops its series. It must not refer to the change that made the gate: that would keep every generation before.
	forget func(*console.Metrics)

	// Gates for mail only.
	post    *spool.Gate
	each    *policy.Chain  // judges every recipient
	guesses *bloom.Limiter // wrong passwords
	stamps  *mailDesk      // nil where none are taken

	// One of these is the server.
	http    *httpgate.Gate
	tcp     *tcpgate.Gate
	smtp    *smtpgate.Gate
	postfix *postfixgate.Gate
	api     *apigate.Gate
	auth    *authgate.Gate
	rls     *rlsgate.Gate
	limits  *envoyLimits // of imported rules, of a gate for Envoy
	seen    *observer
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
	s.Gate, s.Kind, s.Address = g.listen, g.kind, g.address()
	s.InFlight, s.Waiting = g.load()
	s.Capacity = g.lanes.view(now)
	if s.Throttles == nil {
		s.Throttles = []string{} // a list for scripts, even if it is empty
	}
	return s
}

// explain asks every throttle of the gate what it would say: those that judge the connection, when it is known where it
// would come from, and those that judge what comes over it. Who does not get in is asked nothing more.
func (g *gate) explain(ev *weir.Event) (steps []policy.Step, verdict weir.Answer) {
	if g.accept != nil && ev.Source.IsValid() && !g.trusts(ev.Source) {
		connection := *ev
		connection.Kind = policy.KindConnection
		if steps, verdict = g.accept.Explain(&connection); verdict.Verdict != weir.Admit {
			return steps, verdict
		}
		// The invalid list is asked again below, where it knows more.
		steps = slices.DeleteFunc(steps, func(s policy.Step) bool { return s.Throttle == config.Bans })
	}
	rest, verdict := g.chain.Explain(ev)
	return append(steps, rest...), verdict
}

// envOf is what every gate gets of its surroundings.
func (a *App) envOf(listen string) skeleton.Env {
	return skeleton.Env{Clock: a.opts.Clock, Log: a.opts.Log.With("gate", listen)}
}

// trusts says who is a trusted proxy.
func trusts(proxies []netip.Prefix) func(netip.Addr) bool {
	p := identify.NewProxies(proxies, "")
	return p.Trusts
}

// prepareGates keeps the gates whose kind and listen address stay, makes those that are new, and leaves the others
// behind.
func (c *change) prepareGates() error {
	c.removed = slices.Clone(c.old.gates)
	var errs []error
	prepare := func(path string, f func() (*gate, error)) {
		gt, err := f()
		if err != nil {
			errs = append(errs, weir.Under(path, err))
			return
		}
		c.next.gates = append(c.next.gates, gt)
	}
	for i, o := range c.next.cfg.HTTP {
		prepare(fmt.Sprintf("http[%d]", i), func() (*gate, error) { return c.prepareHTTP(o) })
	}
	for i, o := range c.next.cfg.TCP {
		prepare(fmt.Sprintf("tcp[%d]", i), func() (*gate, error) { return c.prepareTCP(o) })
	}
	for i, o := range c.next.cfg.SMTP {
		prepare(fmt.Sprintf("smtp[%d]", i), func() (*gate, error) { return c.prepareSMTP(o) })
	}
	for i, o := range c.next.cfg.Postfix {
		prepare(fmt.Sprintf("postfix[%d]", i), func() (*gate, error) { return c.preparePostfix(o) })
	}
	for i, o := range c.next.cfg.Auth {
		prepare(fmt.Sprintf("auth[%d]", i), func() (*gate, error) { return c.prepareAuth(o) })
	}
	for i, o := range c.next.cfg.RLS {
		prepare(fmt.Sprintf("rls[%d]", i), func() (*gate, error) { return c.prepareRLS(o) })
	}
	if o := c.next.cfg.API; o != nil {
		prepare("api", func() (*gate, error) { return c.prepareAPI(*o) })
	}
	return errors.Join(errs...)
}

// keep returns the gate of the old generation that goes on, or nil. With port 0 several may have the same address; then
// they are matched in order.
func (c *change) keep(kind, listen string) *gate {
	at := slices.IndexFunc(c.removed, func(g *gate) bool { return g.kind == kind && g.listen == listen })
	if at < 0 {
		return nil
	}
	old := c.removed[at]
	c.removed = slices.Delete(c.removed, at, at+1)
	return old
}

// reuse lets a gate that is kept go on with what Prepare made.
func (c *change) reuse(commit, abort func()) {
	c.undo.add(abort)
	c.commit = append(c.commit, commit)
}

// open makes a new gate serve when the change takes effect.
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

// cannotListen says why a new gate cannot have its address. It may be weir itself that has it: the address of a gate
// that is to go is free only after the reload, which fails without it.
func (c *change) cannotListen(gt *gate, err error) error {
	e := &weir.FieldError{Path: "listen", Msg: err.Error()}
	_, port, _ := net.SplitHostPort(gt.listen)
	for _, old := range c.old.gates {
		if _, taken, _ := net.SplitHostPort(old.listen); taken == port && port != "0" {
			e.Hint = fmt.Sprintf("this weir has %s; remove that gate by one reload and add this one by another, or "+
				"start weir anew", old.listen)
		}
	}
	return e
}

// chains makes the chains of a gate: for connections and for what comes over them. What comes last is asked after all
// throttles.
func (c *change) chains(accept, throttles []string, last ...*policy.Link) (*policy.Chain, *policy.Chain, error) {
	door, err := c.chain("accept", accept)
	if err != nil {
		return nil, nil, err
	}
	chain, err := c.chain("throttles", throttles, last...)
	return door, chain, err
}

func (c *change) prepareHTTP(o httpgate.Options) (*gate, error) {
	old := c.keep("http", o.Listen)
	lanes, err := c.prepareLanes(o, old)
	if err != nil {
		return nil, err
	}
	accept, chain, err := c.chains(o.Accept, o.Throttles, lanes.links()...)
	if err != nil {
		return nil, err
	}
	gt := &gate{kind: "http", listen: o.Listen, accept: accept, chain: chain, trusts: trusts(o.TrustedProxies),
		account: o.Account, lanes: lanes,
		status: console.GateStatus{Upstream: o.Upstream.String(), Accept: o.Accept, Throttles: o.Throttles}}
	if old == nil {
		gt.seen = &observer{all: c.app.metrics, http: c.app.metrics.HTTP(o.Listen)}
		if gt.http, err = httpgate.New(o, accept, chain, c.app.gateEnv(o, c.next.cfg, gt.seen)); err != nil {
			return nil, err
		}
	} else {
		gt.http, gt.seen = old.http, old.seen
		commit, abort, err := gt.http.Prepare(o, accept, chain)
		if err != nil {
			return nil, err
		}
		c.reuse(commit, abort)
		c.commit = append(c.commit, func() { gt.http.SetAccess(httpgate.AccessLog(c.next.cfg.Log.Access)) })
	}
	gt.server, gt.load = gt.http, gt.seen.load
	gt.forget = func(m *console.Metrics) { m.Forget(o.Listen) }
	if old == nil {
		err = c.open(gt)
	}
	return gt, err
}

func (c *change) prepareTCP(o tcpgate.Options) (*gate, error) {
	accept, chain, err := c.chains(o.Accept, o.Throttles)
	if err != nil {
		return nil, err
	}
	gt := &gate{kind: string(o.Protocol), listen: o.Listen, accept: accept, chain: chain,
		trusts: trusts(o.TrustedProxies),
		status: console.GateStatus{Upstream: o.Upstream, Accept: o.Accept, Throttles: o.Throttles}}
	old := c.keep(gt.kind, gt.listen)
	if old == nil {
		gt.seen = &observer{all: c.app.metrics, tcp: c.app.metrics.TCP(o.Listen)}
		env := tcpgate.Env{Env: c.app.envOf(o.Listen), Observer: tcpObserver{gt.seen}}
		if gt.tcp, err = tcpgate.New(o, accept, chain, env); err != nil {
			return nil, err
		}
	} else {
		gt.tcp, gt.seen = old.tcp, old.seen
		commit, abort, err := gt.tcp.Prepare(o, accept, chain)
		if err != nil {
			return nil, err
		}
		c.reuse(commit, abort)
	}
	gt.server, gt.load = gt.tcp, gt.seen.load
	gt.forget = func(m *console.Metrics) { m.ForgetTCP(o.Listen) }
	if old == nil {
		err = c.open(gt)
	}
	return gt, err
}

func (c *change) prepareAuth(o authgate.Options) (*gate, error) {
	o = o.WithDefaults()
	chain, err := c.chain("throttles", o.Throttles)
	if err != nil {
		return nil, err
	}
	gt := &gate{kind: "auth", listen: o.Listen, chain: chain, trusts: trusts(o.TrustedProxies), account: o.Account,
		status: console.GateStatus{Throttles: o.Throttles}}
	old := c.keep(gt.kind, gt.listen)
	if old == nil {
		gt.seen = &observer{all: c.app.metrics}
		env := authgate.Env{Env: c.app.envOf(o.Listen), Observer: authObserver{gt.seen, o.Listen},
			Offend: c.app.offend}
		if gt.auth, err = authgate.New(o, chain, env); err != nil {
			return nil, err
		}
	} else {
		gt.auth, gt.seen = old.auth, old.seen
		commit, abort, err := gt.auth.Prepare(o, chain)
		if err != nil {
			return nil, err
		}
		c.reuse(commit, abort)
	}
	gt.server, gt.load = gt.auth, gt.seen.load
	gt.forget = func(m *console.Metrics) { m.ForgetAuth(o.Listen) }
	if old == nil {
		err = c.open(gt)
	}
	return gt, err
}

func (c *change) prepareAPI(o apigate.Options) (*gate, error) {
	names := slices.Sorted(maps.Keys(o.Policies))
	chains := map[string]*policy.Chain{}
	for _, name := range names {
		var err error
		if chains[name], err = c.chain("policies."+name, o.Policies[name]); err != nil {
			return nil, err
		}
	}
	gt := &gate{kind: "api", listen: o.Listen, status: console.GateStatus{Policies: names}}
	old := c.keep(gt.kind, gt.listen)
	var err error
	if old == nil {
		gt.seen = &observer{all: c.app.metrics}
		env := apigate.Env{Env: c.app.envOf(o.Listen), Observer: apiObserver{gt.seen}}
		if gt.api, err = apigate.New(o, chains, env); err != nil {
			return nil, err
		}
	} else {
		gt.api, gt.seen = old.api, old.seen
		commit, abort, err := gt.api.Prepare(o, chains)
		if err != nil {
			return nil, err
		}
		c.reuse(commit, abort)
		for _, name := range old.status.Policies {
			if _, kept := o.Policies[name]; !kept {
				c.commit = append(c.commit, func() { c.app.metrics.ForgetPolicy(name) })
			}
		}
	}
	gt.server, gt.load = gt.api, gt.seen.load
	gt.forget = func(m *console.Metrics) {
		for _, name := range names {
			m.ForgetPolicy(name)
		}
	}
	if old == nil {
		err = c.open(gt)
	}
	return gt, err
}
