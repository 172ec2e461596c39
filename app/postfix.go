package app

import (
	"weir/console"
	"weir/gate/postfixgate"
	"weir/mail/spool"
)

func (c *change) planPostfix(o postfixgate.Options) (p *gatePlan, err error) {
	o = o.WithDefaults()
	name := c.postName(o.Listen)
	p = c.planGate("postfix", o.Listen)
	if p.chain, err = c.mailChain("throttles", o.Throttles); err != nil {
		return nil, err
	}
	if p.each, err = c.chain("per_recipient", o.PerRecipient); err != nil {
		return nil, err
	}
	p.trusts, p.status = trusts(nil), console.GateStatus{Throttles: o.Throttles}
	p.post, err = c.keepPost(name, o.Throttles, o.NextHop,
		spool.Gate{Host: c.app.post.host, Admin: o.Admin, Command: o.Command})
	if err != nil {
		return nil, err
	}
	p.forget = func(m *console.Metrics) { m.ForgetPolicyService(o.Listen) }
	parts := postfixgate.Parts{Throttles: p.chain, PerRecipient: p.each}
	wire(p, func() (*postfixgate.Gate, error) {
		return postfixgate.New(o, parts, postfixgate.Env{Env: c.app.envOf(o.Listen), Name: name,
			Observer: postfixObserver{p.seen, c.app.metrics.Policy(o.Listen), c.app.metrics},
			Spool:    c.app.post, Secret: c.app.markSecret})
	}, func(g *postfixgate.Gate) (func(), func(), error) { return g.Prepare(o, parts) })
	return p, nil
}

// markSecret signs the marks by which a gate for mail knows whose mail Postfix diverts to it.
func (a *App) markSecret() []byte { return a.derive("marks of diverted mail") }
