package rlsgate

import (
	"net"
	"sync"

	"weir/gate"
)

// A Gate is one listener for Envoy's calls by gRPC: to the rate limit service, and for external authorization.
type Gate struct {
	*gate.Skeleton[setup]
	env       Env
	visits    sync.Pool // of *visit
	questions sync.Pool // of *question
}

// New returns a gate that does not listen yet.
func New(o Options, p Parts, env Env) (*Gate, error) {
	s, err := newSetup(o, p)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env.withDefaults()}
	g.visits.New = func() any { return new(visit) }
	g.questions.New = func() any { return new(question) }
	g.Skeleton = gate.New(g.env.Env, s, gate.Hooks[setup]{
		What: "requests",
		Open: func(s *setup) (gate.Listener, error) {
			return g.env.Sockets.Listen(s.opts.Listen, s.opts.Socket)
		},
		Take:   g.receive,
		Server: func(s *setup) gate.Server { return g.newServer(s.serverOptions()) },
		Same:   func(old, next *setup) bool { return old.serverOptions() == next.serverOptions() },
	})
	return g, nil
}

// Prepare checks other options and parts, and reads the files that they name again. Either commit, which cannot fail,
// or abort must be called after it. Requests under way keep what they began with. The listener is kept: another listen
// address or socket is ignored.
func (g *Gate) Prepare(o Options, p Parts) (commit, abort func(), err error) {
	now := g.Setup.Load()
	o.Listen, o.Socket = now.opts.Listen, now.opts.Socket
	return g.Replace(newSetup(o, p))
}

// receive serves a connection, unless as many are open as may be.
func (g *Gate) receive(c net.Conn) {
	bounded := func() { g.env.Observer.Bounded(BoundConnections) }
	if counted := g.Counted(c, g.Setup.Load().opts.Bounds.Connections, bounded); counted != nil {
		g.Hand(counted)
	}
}
