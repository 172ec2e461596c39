package app

import (
	"weir/gate/postfixgate"
	"weir/mail/notice"
	"weir/mail/spool"
)

func (c *change) planPostfix(p *gatePlan, o postfixgate.Options) error {
	name := c.postName(o.Listen)
	_, err := c.chains(p, o)
	if err != nil {
		return err
	}
	if !c.next.cfg.TakesCommands(o.Command) {
		o.Command = "" // a reply would go nowhere
	}
	p.post, err = c.keepPost(name, o.Throttles, o.NextHop,
		spool.Gate{Host: c.app.post.host, Admin: o.Admin, Command: o.Command, Elsewhere: elsewhere[o.Over]})
	if err != nil {
		return err
	}
	parts := postfixgate.Parts{Throttles: p.chain, PerRecipient: p.each}
	wire(p, func() (*postfixgate.Gate, error) {
		c.app.metrics.Move("weir_postfix_connections", 0, o.Listen)
		return postfixgate.New(o, parts, postfixgate.Env{Env: c.app.envOf(o.Listen), Name: name,
			Observer: postfixObserver{p.seen, c.app.metrics, o.Listen},
			Spool:    c.app.post, Secret: func() []byte { return c.app.markSecrets()[0] }})
	}, func(g *postfixgate.Gate) (func(), func(), error) { return g.Prepare(o, parts) })
	return nil
}

// elsewhere says what becomes of messages that are too much.
var elsewhere = map[postfixgate.Over]notice.Elsewhere{postfixgate.OverHold: notice.OnHold,
	postfixgate.OverDefer: notice.PutOff, postfixgate.OverReject: notice.Declined}

// markSecrets sign the marks by which a gate for mail knows whose mail Postfix diverts to it: the first one signs, all
// are honoured.
func (a *App) markSecrets() [][]byte {
	return a.signers(a.current.Load().cfg, "marks of diverted mail")
}
