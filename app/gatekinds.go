package app

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"weir"
	"weir/config"
	"weir/gate/apigate"
	"weir/gate/authgate"
	"weir/gate/httpgate"
	"weir/gate/postfixgate"
	"weir/gate/rlsgate"
	"weir/gate/smtpgate"
	"weir/gate/tcpgate"
)

// A gateKind is one kind of gate: how it is called in the configuration and in the names of bounds, which bounds it
// reports, and what it makes of the options that it finds there.
type gateKind struct {
	name   string
	bounds []string // nil where they are not counted for all gates together
	plans  func(c *change) iter.Seq2[string, func() (*gatePlan, error)]
}

// gateKinds are all kinds of gates, in the order in which their gates are shown. A new kind is one more line.
func gateKinds() []gateKind {
	return []gateKind{
		{"http", httpgate.BoundNames[:],
			several(func(c *config.Config) []httpgate.Options { return c.HTTP }, (*change).planHTTP)},
		{"tcp", tcpgate.BoundNames[:],
			several(func(c *config.Config) []tcpgate.Options { return c.TCP }, (*change).planTCP)},
		{"smtp", nil, several(func(c *config.Config) []smtpgate.Options { return c.SMTP }, (*change).planSMTP)},
		{"postfix", postfixgate.BoundNames[:],
			several(func(c *config.Config) []postfixgate.Options { return c.Postfix }, (*change).planPostfix)},
		{"auth", authgate.BoundNames[:],
			several(func(c *config.Config) []authgate.Options { return c.Auth }, (*change).planAuth)},
		{"rls", rlsgate.BoundNames[:],
			several(func(c *config.Config) []rlsgate.Options { return c.RLS }, (*change).planRLS)},
		{"api", apigate.BoundNames[:],
			atMostOne(func(c *config.Config) *apigate.Options { return c.API }, (*change).planAPI)},
	}
}

// several are the plans of a kind of which there may be a list. They are named by their index in it.
func several[O any](options func(*config.Config) []O, plan func(*change, O) (*gatePlan, error),
) func(*change) iter.Seq2[string, func() (*gatePlan, error)] {
	return func(c *change) iter.Seq2[string, func() (*gatePlan, error)] {
		return func(yield func(string, func() (*gatePlan, error)) bool) {
			for i, o := range options(c.next.cfg) {
				if !yield(fmt.Sprintf("[%d]", i), func() (*gatePlan, error) { return plan(c, o) }) {
					return
				}
			}
		}
	}
}

// atMostOne is the plan of a kind of which there is one, or none.
func atMostOne[O any](options func(*config.Config) *O, plan func(*change, O) (*gatePlan, error),
) func(*change) iter.Seq2[string, func() (*gatePlan, error)] {
	return func(c *change) iter.Seq2[string, func() (*gatePlan, error)] {
		return func(yield func(string, func() (*gatePlan, error)) bool) {
			if o := options(c.next.cfg); o != nil {
				yield("", func() (*gatePlan, error) { return plan(c, *o) })
			}
		}
	}
}

// A gatePlan is a gate on its way into the next generation.
type gatePlan struct {
	*gate
	old   *gate // the one of the old generation that goes on; nil for a new gate
	make  func() (server, error)
	renew func() (commit, abort func(), err error)
}

// planGate begins a plan, with what stays of the gate of the old generation. That is the one of the same kind and
// address. With port 0 several may have the same address; then they are matched in order.
func (c *change) planGate(kind, listen string) *gatePlan {
	p := &gatePlan{gate: &gate{kind: kind, listen: listen, seen: new(traffic)}}
	at := slices.IndexFunc(c.removed, func(g *gate) bool { return g.kind == kind && g.listen == listen })
	if at >= 0 {
		p.old = c.removed[at]
		c.removed = slices.Delete(c.removed, at, at+1)
		p.server, p.seen, p.state = p.old.server, p.old.seen, p.old.state
	}
	return p
}

// wire says how the gate of a plan is made, or goes on with other options.
func wire[G server](p *gatePlan, make func() (G, error), renew func(G) (commit, abort func(), err error)) {
	p.make = func() (server, error) { return make() }
	p.renew = func() (commit, abort func(), err error) { return renew(p.old.server.(G)) }
}

// prepareGates keeps the gates whose kind and listen address stay, makes those that are new, and leaves the others
// behind.
func (c *change) prepareGates() error {
	c.removed = slices.Clone(c.old.gates)
	var errs []error
	for _, kind := range gateKinds() {
		for index, plan := range kind.plans(c) {
			if err := c.prepareGate(plan); err != nil {
				errs = append(errs, weir.Under(kind.name+index, err))
			}
		}
	}
	return errors.Join(errs...)
}

// prepareGate makes a plan and carries it out.
func (c *change) prepareGate(plan func() (*gatePlan, error)) error {
	p, err := plan()
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
		if p.server, err = p.make(); err != nil {
			return err
		}
		if err := c.open(p.gate); err != nil {
			return err
		}
	}
	c.next.gates = append(c.next.gates, p.gate)
	return nil
}
