package app

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"weir"
	"weir/console"
	"weir/gate/httpgate"
	"weir/policy"
)

// A gate is one gate of a generation.
type gate struct {
	options httpgate.Options
	chain   *policy.Chain
	http    *httpgate.Gate
	seen    *observer
}

// status is the gate as the console shows it.
func (g *gate) status() console.GateStatus {
	s := console.GateStatus{
		Gate: g.options.Listen, Upstream: g.options.Upstream, Throttles: g.options.Throttles,
		InFlight: g.seen.inFlight.Load(), Waiting: g.seen.waiting.Load(),
	}
	if addr := g.http.Addr(); addr != nil {
		s.Address = addr.String()
	}
	return s
}

// prepareGates keeps the gates whose listen address stays, makes those that are new, and leaves the others behind.
func (c *change) prepareGates() error {
	rest := slices.Clone(c.old.gates)
	var errs []error
	for i, o := range c.next.cfg.HTTP {
		// With port 0 several gates may have the same address; then they are matched in order.
		at := slices.IndexFunc(rest, func(g *gate) bool { return g.options.Listen == o.Listen })
		var old *gate
		if at >= 0 {
			old = rest[at]
			rest = slices.Delete(rest, at, at+1)
		}
		gt, err := c.prepareGate(o, old)
		if err != nil {
			errs = append(errs, weir.Under(fmt.Sprintf("http[%d]", i), err))
			continue
		}
		c.next.gates = append(c.next.gates, gt)
	}
	c.removed = rest
	return errors.Join(errs...)
}

func (c *change) prepareGate(o httpgate.Options, old *gate) (*gate, error) {
	chain, err := c.chain(o.Throttles)
	if err != nil {
		return nil, err
	}
	gt := &gate{options: o, chain: chain}
	if old != nil {
		gt.http, gt.seen = old.http, old.seen
		commit, abort, err := gt.http.Prepare(o, chain)
		if err != nil {
			return nil, err
		}
		c.undo.add(abort)
		c.commit = append(c.commit, commit, func() { gt.http.SetAccess(httpgate.AccessLog(c.next.cfg.Log.Access)) })
		return gt, nil
	}
	gt.seen = &observer{all: c.app.metrics, gate: c.app.metrics.HTTP(o.Listen)}
	gt.http, err = httpgate.New(o, chain, c.app.gateEnv(o, c.next.cfg.Log, gt.seen))
	if err != nil {
		return nil, err
	}
	c.undo.add(func() { gt.http.Stop(ended()) })
	if c.live {
		if err := gt.http.Listen(); err != nil {
			return nil, c.cannotListen(o, err)
		}
		c.commit = append(c.commit, gt.http.Start)
	}
	return gt, nil
}

// cannotListen says why a new gate cannot have its address. It may be weir itself that has it: the address of a gate that is to
// go is free only after the reload, which fails without it.
func (c *change) cannotListen(o httpgate.Options, err error) error {
	e := &weir.FieldError{Path: "listen", Msg: err.Error()}
	_, port, _ := net.SplitHostPort(o.Listen)
	for _, old := range c.old.gates {
		if _, taken, _ := net.SplitHostPort(old.options.Listen); taken == port && port != "0" {
			e.Hint = fmt.Sprintf("this weir has %s; remove that gate by one reload and add this one by another, or start weir anew", old.options.Listen)
		}
	}
	return e
}
