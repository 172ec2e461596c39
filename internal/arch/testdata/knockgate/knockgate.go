// Package knockgate is a gate that tells whoever connects whether they may go on.
package knockgate

import (
	"io"
	"net"

	"weir"
	"weir/gate"
	"weir/policy"
)

// Options are those of a gate.
type Options struct {
	// The address to listen on.
	Listen string `yaml:"listen"`
	// The throttles that judge each connection.
	Throttles []string `yaml:"throttles"`
}

// Validate returns the mistakes.
func (o Options) Validate() error {
	var v weir.Mistakes
	address := gate.Address{Listen: o.Listen, TCP: "127.0.0.1:7", Unix: "unix:/run/knock"}
	address.Validate(&v)
	return v.Err()
}

// Facts implements gate.Options.
func (o Options) Facts() gate.Facts {
	return gate.Facts{Listen: o.Listen,
		Lists: []gate.List{{Key: "throttles", Names: o.Throttles, Judges: gate.Connections}}}
}

// Make implements gate.Maker.
func (o Options) Make(chains map[string]*policy.Chain, env gate.Env) (gate.Made, error) {
	g := &knock{env: env.WithDefaults()}
	g.Skeleton = gate.New(g.env, &setup{o, chains["throttles"]}, gate.Hooks[setup]{What: "knocks",
		Open: func(s *setup) (gate.Listener, error) { return g.env.Sockets.Listen(s.Listen, gate.Socket{}) },
		Take: func(c net.Conn) { g.Go(func() { g.answer(c) }) }})
	return g, nil
}

type setup struct {
	Options
	chain *policy.Chain
}

type knock struct {
	*gate.Skeleton[setup]
	env gate.Env
}

// Prepare implements gate.Made.
func (g *knock) Prepare(o gate.Options, chains map[string]*policy.Chain) (commit, abort func(), err error) {
	return g.Replace(&setup{o.(Options), chains["throttles"]}, nil)
}

func (g *knock) answer(c net.Conn) {
	defer c.Close()
	now := g.env.Clock.Now
	var pass policy.Pass
	g.Setup.Load().chain.Judge(g.Base, &weir.Event{Kind: "knock", Time: now()}, &pass)
	_, _ = io.WriteString(c, pass.Answer.Verdict.String())
	pass.Settle(weir.Outcome{Time: now(), Done: true})
}
