package app

import (
	"weir/console"
	"weir/gate/postfixgate"
	"weir/mail/spool"
)

// preparePostfix keeps the policy service whose address stays, or makes one.
func (c *change) preparePostfix(o postfixgate.Options) (*gate, error) {
	o = o.WithDefaults()
	name := c.postName(o.Listen)
	chain, err := c.mailChain("throttles", o.Throttles)
	if err != nil {
		return nil, err
	}
	each, err := c.chain("per_recipient", o.PerRecipient)
	if err != nil {
		return nil, err
	}
	parts := postfixgate.Parts{Throttles: chain, PerRecipient: each}
	gt := &gate{kind: "postfix", listen: o.Listen, chain: chain, each: each, trusts: trusts(nil),
		status: console.GateStatus{Throttles: o.Throttles}}
	host := c.app.post.host
	gt.post, err = c.keepPost(name, o.Throttles, o.NextHop, spool.Gate{Host: host, Admin: o.Admin, Command: o.Command})
	if err != nil {
		return nil, err
	}
	old := c.keep(gt.kind, gt.listen)
	if old == nil {
		gt.seen = &observer{all: c.app.metrics, policy: c.app.metrics.Policy(o.Listen)}
		env := postfixgate.Env{Env: c.app.envOf(o.Listen), Name: name,
			Observer: postfixObserver{gt.seen},
			Spool:    c.app.post, Secret: c.app.markSecret}
		if gt.postfix, err = postfixgate.New(o, parts, env); err != nil {
			return nil, err
		}
	} else {
		gt.postfix, gt.seen = old.postfix, old.seen
		commit, abort, err := gt.postfix.Prepare(o, parts)
		if err != nil {
			return nil, err
		}
		c.reuse(commit, abort)
	}
	gt.server, gt.load = gt.postfix, gt.seen.load
	gt.forget = func(m *console.Metrics) { m.ForgetPolicyService(o.Listen) }
	if old == nil {
		err = c.open(gt)
	}
	return gt, err
}

// markSecret signs the marks by which a gate for mail knows whose mail Postfix diverts to it.
func (a *App) markSecret() []byte { return a.derive("marks of diverted mail") }
