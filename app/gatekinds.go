package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir"
	skeleton "weir/gate"
	"weir/gate/apigate"
	"weir/gate/authgate"
	"weir/gate/httpgate"
	"weir/gate/postfixgate"
	"weir/gate/rlsgate"
	"weir/gate/tcpgate"
	"weir/policy"
)

// A gateKind is what app adds to one kind of gate: the names of the bounds that its gates report, and how they are made
// of parts of weir. The configuration has the kinds; one whose options are a skeleton.Maker needs no row here.
type gateKind struct {
	name   string
	bounds []string // nil where they are not counted for all gates together
	plan   func(*change, *gatePlan, skeleton.Options) error
}

// gateKinds are the kinds of gates that need parts of weir besides their chains.
func gateKinds() []gateKind {
	return []gateKind{
		{"http", httpgate.BoundNames[:], planned((*change).planHTTP)},
		{"tcp", tcpgate.BoundNames[:], planned((*change).planTCP)},
		{"smtp", nil, planned((*change).planSMTP)},
		{"postfix", postfixgate.BoundNames[:], planned((*change).planPostfix)},
		{"auth", authgate.BoundNames[:], planned((*change).planAuth)},
		{"rls", rlsgate.BoundNames, planned((*change).planRLS)},
		{"api", apigate.BoundNames[:], planned((*change).planAPI)},
	}
}

// planned is the plan of a kind by options of its own type.
func planned[O skeleton.Options](plan func(*change, *gatePlan, O) error,
) func(*change, *gatePlan, skeleton.Options) error {
	return func(c *change, p *gatePlan, o skeleton.Options) error { return plan(c, p, o.(O)) }
}

// planMade is the plan of a gate that needs nothing but its chains.
func (c *change) planMade(p *gatePlan, o skeleton.Maker) error {
	chains, err := c.chains(p, o)
	if err != nil {
		return err
	}
	wire(p, func() (skeleton.Made, error) { return o.Make(chains, c.app.envOf(p.listen)) },
		func(g skeleton.Made) (func(), func(), error) { return g.Prepare(o, chains) })
	return nil
}

// A gatePlan is a gate on its way into the next generation.
type gatePlan struct {
	*gate
	old   *gate // the one of the old generation that goes on; nil for a new gate
	make  func() (skeleton.Gate, error)
	renew func() (commit, abort func(), err error)
}

// planGate begins a plan, with what stays of the gate of the old generation. That is the one of the same kind and
// address. With port 0 several may have the same address; then they are matched in order.
func (c *change) planGate(kind string, facts skeleton.Facts) *gatePlan {
	if facts.UDP {
		kind = "udp"
	}
	p := &gatePlan{gate: &gate{kind: kind, listen: facts.Listen, seen: new(traffic), account: facts.Clients.Account,
		trusts: trusts(facts.Clients.Proxies)}}
	at := slices.IndexFunc(c.removed, func(g *gate) bool { return g.kind == kind && g.listen == p.listen })
	if at >= 0 {
		p.old = c.removed[at]
		c.removed = slices.Delete(c.removed, at, at+1)
		p.Gate, p.seen, p.state, p.label = p.old.Gate, p.old.seen, p.old.state, p.old.label
		return p
	}
	p.seen.GateFigures.Gate = p.listen
	p.label = c.freeLabel(kind, p.listen)
	switch kind {
	case "http":
		p.seen.counts = c.app.metrics.HTTP(p.label).Counts
	case "tcp", "udp":
		p.seen.counts = c.app.metrics.TCP(p.label).Counts
	}
	return p
}

// freeLabel is what a new gate is called in the metrics. Gates with port 0 may have the same address; each has series
// of its own.
func (c *change) freeLabel(kind, listen string) string {
	for n, label := 2, listen; ; n++ {
		taken := func(g *gate) bool { return g.kind == kind && g.label == label }
		if !slices.ContainsFunc(c.next.gates, taken) && !slices.ContainsFunc(c.old.gates, taken) {
			return label
		}
		label = fmt.Sprintf("%s (%d)", listen, n)
	}
}

// chains makes the chains of a gate, by the keys of their lists. What comes last is asked after all throttles that
// judge requests. What the spool asks itself is left out of those that judge messages.
func (c *change) chains(p *gatePlan, o skeleton.Options, last ...*policy.Link) (map[string]*policy.Chain, error) {
	all := map[string]*policy.Chain{}
	for _, l := range o.Facts().Lists {
		if l.Apart {
			continue
		}
		var err error
		switch l.Judges {
		case skeleton.Messages:
			all[l.Key], err = c.mailChain(&p.seen.GateFigures, l.Key, l.Names)
		case skeleton.Requests:
			all[l.Key], err = c.chain(&p.seen.GateFigures, l.Key, l.Names, last...)
		default:
			all[l.Key], err = c.chain(&p.seen.GateFigures, l.Key, l.Names)
		}
		if err != nil {
			return nil, err
		}
		switch l.Key {
		case "accept":
			p.status.Accept = l.Names
		case "throttles":
			p.status.Throttles = l.Names
		}
	}
	p.accept, p.chain, p.each = all["accept"], all["throttles"], all["per_recipient"]
	return all, nil
}

// wire says how the gate of a plan is made, or goes on with other options.
func wire[G skeleton.Gate](p *gatePlan, make func() (G, error), renew func(G) (commit, abort func(), err error)) {
	p.make = func() (skeleton.Gate, error) { return make() }
	p.renew = func() (commit, abort func(), err error) { return renew(p.old.Gate.(G)) }
}

// prepareGates keeps the gates whose kind and listen address stay, makes those that are new, and leaves the others
// behind.
func (c *change) prepareGates() error {
	c.removed = slices.Clone(c.old.gates)
	var errs []error
	kinds := map[string]gateKind{}
	for _, kind := range gateKinds() {
		kinds[kind.name] = kind
	}
	for path, o := range c.next.cfg.Gates() {
		name, _, _ := strings.Cut(path, "[")
		if err := c.prepareGate(kinds[name], name, o); err != nil {
			errs = append(errs, weir.Under(path, err))
		}
	}
	return errors.Join(errs...)
}

// prepareGate makes a plan and carries it out.
func (c *change) prepareGate(kind gateKind, name string, o skeleton.Options) (err error) {
	p := c.planGate(name, o.Facts())
	if kind.plan != nil {
		err = kind.plan(c, p, o)
	} else if maker, ok := o.(skeleton.Maker); ok {
		err = c.planMade(p, maker)
	} else {
		err = fmt.Errorf("no way is known to make a gate of %T", o)
	}
	if err != nil {
		return err
	}
	if p.old != nil {
		commit, abort, err := p.renew()
		if err != nil {
			return err
		}
		c.undo.add(abort)
		c.commit = append(c.commit, commit)
	} else {
		if p.Gate, err = p.make(); err != nil {
			return err
		}
		if err := c.open(p.gate); err != nil {
			return err
		}
	}
	c.next.gates = append(c.next.gates, p.gate)
	return nil
}
