package tcpgate

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"weir"
	"weir/gate"
	"weir/identify"
	"weir/internal/logs"
	"weir/policy"
)

// The kinds of events that a gate puts before its chain.
const (
	KindTCP = "tcp" // a connection
	KindUDP = "udp" // a packet
)

// A Gate is one listener for TCP or UDP with its upstream, its door and its chain of throttles. It counts connections
// as open, or sessions of udp.
type Gate struct {
	*gate.Skeleton[setup]
	env     Env
	crowd   gate.Crowd // all connections, or sessions of udp
	waiting gate.Tally // connections that a throttle holds back
	failing logs.Line  // the upstream cannot be reached
	udp     *forwarder // nil for tcp, and before Listen
}

// New returns a gate that listens nowhere yet. The chain accept judges connections before anything is read from them,
// the other one every connection or packet; nil admits everything.
func New(o Options, accept, chain *policy.Chain, env Env) (*Gate, error) {
	s, err := newSetup(o, accept, chain)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env.withDefaults()}
	g.Skeleton = gate.New(g.env.Env, s, gate.Hooks[setup]{What: "connections", Open: g.open, Take: g.receive,
		End: func() {
			if g.udp != nil {
				_ = g.udp.socket.Close()
			}
		}})
	return g, nil
}

// open binds the address. For udp it also looks up the upstream, if that is a name.
func (g *Gate) open(s *setup) (gate.Listener, error) {
	if s.opts.Protocol != UDP {
		return g.env.Sockets.Listen(s.opts.Listen, gate.Socket{})
	}
	found := *s
	if err := found.lookUp(g.Base); err != nil {
		return nil, err
	}
	socket, err := g.env.Sockets.ListenPacket(s.opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s (udp): %w", s.opts.Listen, err)
	}
	g.Setup.Store(&found)
	g.udp = newForwarder(g, socket.(*net.UDPConn))
	return g.udp, nil
}

// Prepare checks other options and chains. Either commit, which cannot fail, or abort must be called after it. Open
// connections keep the options and the chain that they began with, and sessions of udp their upstream; each packet
// meets the current chain. The listener is kept: another listen address is ignored, and another protocol is an error.
func (g *Gate) Prepare(o Options, accept, chain *policy.Chain) (commit, abort func(), err error) {
	now := g.Setup.Load()
	o.Listen = now.opts.Listen
	next, err := newSetup(o, accept, chain)
	if err != nil {
		return nil, nil, err
	}
	if next.opts.Protocol != now.opts.Protocol {
		return nil, nil, &weir.FieldError{Path: "protocol",
			Msg:  fmt.Sprintf("a gate for %s cannot become one for %s", now.opts.Protocol, next.opts.Protocol),
			Hint: "remove the gate by one reload and add the other one by another"}
	}
	if next.opts.Protocol == UDP {
		if err := next.lookUp(g.Base); err != nil {
			return nil, nil, &weir.FieldError{Path: "upstream", Msg: err.Error()}
		}
	}
	return g.Replace(next, nil)
}

// receive lets a connection in unless the door turns it away or it is one too many.
func (g *Gate) receive(raw net.Conn) {
	s, in := g.Setup.Load(), false
	defer func() {
		if !in {
			gate.Reset(raw)
		}
	}()
	source := identify.Plain(raw.RemoteAddr().(*net.TCPAddr).AddrPort().Addr())
	if !s.door.Admit(source, g.env.Clock.Now()) {
		return
	}
	c := newConn(g, s, raw.(*net.TCPConn), source)
	if s.proxies.Trusts(source) { // it is not the client's
		source = netip.Addr{}
	}
	c.seat = g.crowd.Enter(source, s.opts.Bounds.Connections, func() {
		g.env.Observer.Bounded(BoundConnections)
		c.cut(errCrowd)
	})
	if in = c.seat != nil; !in {
		g.env.Observer.Bounded(BoundConnections)
		c.cut(errCrowd)
		return
	}
	g.Open.Add(1)
	g.Go(c.serve)
}

// unreached notes that the upstream cannot be reached.
func (g *Gate) unreached(id string, err error) {
	g.env.Observer.Unreached()
	g.Warn(&g.failing, "the upstream cannot be reached", slog.String("id", id), slog.Any("error", err))
}
