package apigate

import (
	"crypto/rand"
	"net"
	"strings"
	"sync"

	"weir/gate"
	"weir/policy"
)

// A Gate is one listener of the decision API with its policies.
type Gate struct {
	*gate.Skeleton[setup]
	env      Env
	node     string // what its holds begin with
	holds    *register
	requests gate.Tally // under way, by who sends them
	visits   sync.Pool  // of *visit
}

// New returns a gate that listens nowhere yet. chains has the chain of each policy.
func New(o Options, chains map[string]*policy.Chain, env Env) (*Gate, error) {
	s, err := newSetup(o, chains)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env.withDefaults(), node: strings.ToLower(rand.Text()[:nodeLetters])}
	g.holds = newRegister(g.env, g.abandon)
	g.visits.New = func() any { return new(visit) }
	g.Skeleton = gate.New(g.env.Env, s, gate.Hooks[setup]{
		What:   "requests",
		Open:   func(s *setup) (gate.Listener, error) { return g.env.Sockets.Listen(s.opts.Listen, gate.Socket{}) },
		Take:   g.receive,
		Server: func(s *setup) gate.Server { return g.HTTPServer(g, s.httpOptions()) },
		Same:   func(old, next *setup) bool { return old.httpOptions() == next.httpOptions() },
		// What is still held is settled as the options say for holds that nobody settles.
		End: func() {
			for _, h := range g.holds.close() {
				g.abandon(h)
			}
		},
	})
	return g, nil
}

// Prepare checks other options and chains. Either commit, which cannot fail, or abort must be called after it. Requests
// under way keep the options that they began with, and holds the chain that they were taken under. The listener is
// kept: another listen address is ignored.
func (g *Gate) Prepare(o Options, chains map[string]*policy.Chain) (commit, abort func(), err error) {
	o.Listen = g.Setup.Load().opts.Listen
	return g.Replace(newSetup(o, chains))
}

// receive lets a connection in, unless it is one too many.
func (g *Gate) receive(c net.Conn) {
	bounded := func() { g.env.Observer.Bounded(BoundConnections) }
	if counted := g.Counted(c, g.Setup.Load().opts.Bounds.Connections, bounded); counted != nil {
		g.Hand(counted)
	}
}
