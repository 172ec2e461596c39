package smtpgate

import (
	"net/netip"
	"sync"

	"weir"
	"weir/gate"
	"weir/internal/loglimit"
)

// KindMail is the kind of the events that a gate puts before its chains, and KindLogIn of those that limit wrong
// passwords.
const (
	KindMail  = "mail"
	KindLogIn = "login"
)

// A Gate is one listener for mail.
type Gate struct {
	*gate.Skeleton[setup]
	env     Env
	untaken loglimit.Line // messages that could not be accepted

	clients clients

	mu        sync.Mutex
	sessions  map[*conn]struct{}
	bySource  map[netip.Addr]int
	strangers int // sessions of unknown sources
	regulars  regulars
}

// New returns a gate that listens nowhere yet.
func New(o Options, p Parts, env Env) (*Gate, error) {
	env, err := env.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := newSetup(env, o, p)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env, sessions: map[*conn]struct{}{}, bySource: map[netip.Addr]int{}, regulars: regulars{}}
	g.Skeleton = gate.New(env.Env, s, gate.Hooks[setup]{
		What: "sessions",
		Open: func(s *setup) (gate.Listener, error) { return gate.Listen(s.opts.Listen, gate.Socket{}) },
		Take: g.receive,
	})
	return g, nil
}

// Prepare makes ready to go on with other options and parts, and reads the certificate again. Everything that can fail
// happens here; then either commit, which cannot fail, or abort must be called. Sessions under way keep the options
// that they began with. The listener is kept: a changed listen address is ignored, it takes another gate.
func (g *Gate) Prepare(o Options, p Parts) (commit, abort func(), err error) {
	o.Listen = g.Setup.Load().opts.Listen
	return g.Replace(newSetup(g.env, o, p))
}

// load is how much there is to deliver.
func (g *Gate) load() weir.Load {
	return weir.Load{Of: g.env.Name, Share: weir.Share(g.env.Spool.Load(g.env.Name))}
}
