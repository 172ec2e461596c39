package postfixgate

import (
	"weir/gate"
	"weir/internal/loglimit"
)

// KindMail is the kind of the events that a gate puts before its chains.
const KindMail = "mail"

// A Gate is one policy service with its throttles and the spool that it asks.
type Gate struct {
	*gate.Skeleton[setup]
	env      Env
	arriving arriving

	garbled, failing, misled loglimit.Line
}

// New returns a gate that listens nowhere yet.
func New(o Options, p Parts, env Env) (*Gate, error) {
	env, err := env.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := newSetup(o, p)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env}
	g.Skeleton = gate.New(env.Env, s, gate.Hooks[setup]{
		What: "connections",
		Open: func(s *setup) (gate.Listener, error) {
			return gate.Listen(s.opts.Listen, gate.Socket(s.opts.Socket))
		},
		Take: g.receive,
	})
	return g, nil
}

// Prepare makes ready to go on with other options and parts. Everything that can fail happens here; then either commit,
// which cannot fail, or abort must be called. Requests under way keep what they began with. The listener is kept: a
// changed listen address is ignored, it takes another gate, and so do other rights on a socket.
func (g *Gate) Prepare(o Options, p Parts) (commit, abort func(), err error) {
	now := g.Setup.Load()
	o.Listen, o.Socket = now.opts.Listen, now.opts.Socket
	return g.Replace(newSetup(o, p))
}
