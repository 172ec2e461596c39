package authgate

import (
	"bytes"
	"net"
	"sync"

	"weir/gate"
	"weir/internal/logs"
	"weir/policy"
)

// A Gate is one listener that proxies ask, with its chain of throttles.
type Gate struct {
	*gate.Skeleton[setup]
	env    Env
	visits sync.Pool // of *visit

	requests, waiting  gate.Tally
	strange, malformed logs.Line
}

// New returns a gate that listens nowhere yet. The chain judges every request; nil admits everything.
func New(o Options, chain *policy.Chain, env Env) (*Gate, error) {
	s, err := newSetup(o, chain)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env.withDefaults()}
	g.visits.New = func() any { return new(visit) }
	g.Skeleton = gate.New(g.env.Env, s, gate.Hooks[setup]{
		What: "questions",
		Open: func(s *setup) (gate.Listener, error) {
			return g.env.Sockets.Listen(s.opts.Listen, s.opts.Socket)
		},
		Take:   g.receive,
		Server: func(s *setup) gate.Server { return g.HTTPServer(g, s.httpOptions()) },
		Same:   func(old, next *setup) bool { return old.httpOptions() == next.httpOptions() },
	})
	return g, nil
}

// Prepare checks other options and another chain. Either commit, which cannot fail, or abort must be called after it.
// Questions under way keep the options and the chain that they began with. The listener is kept: another listen address
// or socket is ignored.
func (g *Gate) Prepare(o Options, chain *policy.Chain) (commit, abort func(), err error) {
	now := g.Setup.Load()
	o.Listen, o.Socket = now.opts.Listen, now.opts.Socket
	return g.Replace(newSetup(o, chain))
}

// receive lets a connection in, unless it is one too many.
func (g *Gate) receive(c net.Conn) {
	bounded := func() { g.env.Observer.Bounded(BoundConnections) }
	if counted := g.Counted(c, g.Setup.Load().opts.Bounds.Connections, bounded); counted != nil {
		g.Hand(&conn{counted, g})
	}
}

// A conn notices the answers that net/http gives by itself.
type conn struct {
	*gate.Conn
	gate *Gate
}

// headTooLarge begins an answer that net/http gives without calling the handler.
var headTooLarge = []byte("HTTP/1.1 431 ")

// Write counts answers to heads that were too large.
func (c *conn) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, headTooLarge) {
		c.gate.env.Observer.Bounded(BoundHeader)
	}
	return c.Conn.Write(p)
}
