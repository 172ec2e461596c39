package rlsgate

import (
	"net"
	"sync"

	"weir/gate"
)

// A Gate is one listener for Envoy with its services.
type Gate struct {
	*gate.Skeleton[setup]
	env    Env
	visits sync.Pool // of *visit
}

// New returns a gate that listens nowhere yet.
func New(o Options, p Parts, env Env) (*Gate, error) {
	s, err := newSetup(o, p)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env.withDefaults()}
	g.visits.New = func() any { return new(visit) }
	g.Skeleton = gate.New(g.env.Env, s, gate.Hooks[setup]{
		What: "requests",
		Open: func(s *setup) (gate.Listener, error) {
			return gate.Listen(s.opts.Listen, s.opts.Socket)
		},
		Take:   g.receive,
		Server: func(s *setup) gate.Server { return g.newServer(s.serverOptions()) },
		Same:   func(old, next *setup) bool { return old.serverOptions() == next.serverOptions() },
	})
	return g, nil
}

// Prepare makes ready to go on with other options and parts; files that the options name are read anew. Everything that
// can fail happens here; then either commit, which cannot fail, or abort must be called. Requests under way keep what
// they began with. The listener is kept: a changed listen address is ignored, it takes another gate, and so do other
// rights on a socket.
func (g *Gate) Prepare(o Options, p Parts) (commit, abort func(), err error) {
	now := g.Setup.Load()
	o.Listen, o.Socket = now.opts.Listen, now.opts.Socket
	return g.Replace(newSetup(o, p))
}

// receive lets a connection in, unless it is one too many.
func (g *Gate) receive(c net.Conn) {
	bounded := func() { g.env.Observer.Bounded(BoundConnections) }
	if counted := g.Counted(c, g.Setup.Load().opts.Bounds.Connections, bounded); counted != nil {
		g.Hand(counted)
	}
}
