package tcpgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/internal/doorway"
	"weir/internal/loglimit"
	"weir/policy"
)

// The kinds of events that a gate puts before its chain.
const (
	KindTCP = "tcp" // a connection
	KindUDP = "udp" // a packet
)

// A Gate is one listener for TCP or UDP with its upstream, its door and its chain of throttles. Its methods may be
// called from several goroutines; the order is New, Listen, Start, any number of Prepare, Stop.
type Gate struct {
	env   Env
	began time.Time // idleness is counted from here on, so that a clock that is set does not matter
	setup atomic.Pointer[setup]

	open    atomic.Int64 // connections, or sessions
	waiting atomic.Int64
	failing loglimit.Line // the upstream cannot be reached

	// What goes on at the gate ends when this context does, which is when a stop has no more patience.
	base    context.Context
	cancel  context.CancelFunc
	stop    chan struct{}  // closed when the gate stops
	running sync.WaitGroup // everything that the gate has started

	mu      sync.Mutex
	tcp     *net.TCPListener
	udp     *forwarder
	started bool
	stopped bool
	over    chan struct{} // closed when the stop is over
}

// New returns a gate that listens nowhere yet. The chain accept judges connections before anything is read from them,
// the other one every connection or packet; nil admits everything.
func New(o Options, accept, chain *policy.Chain, env Env) (*Gate, error) {
	s, err := newSetup(o, accept, chain)
	if err != nil {
		return nil, err
	}
	env = env.withDefaults()
	g := &Gate{env: env, began: env.Clock.Now(), stop: make(chan struct{}), over: make(chan struct{})}
	g.base, g.cancel = context.WithCancel(context.Background())
	g.setup.Store(s)
	return g, nil
}

// Listen binds the address. Port 0 takes a free one; see Addr. For udp it also looks up the upstream, if that is a
// name.
func (g *Gate) Listen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tcp != nil || g.udp != nil {
		return errors.New("the gate listens already")
	}
	if g.stopped {
		return net.ErrClosed
	}
	s := *g.setup.Load()
	if s.opts.Protocol == UDP {
		if err := s.lookUp(g.base); err != nil {
			return err
		}
		socket, err := net.ListenPacket("udp", s.opts.Listen)
		if err != nil {
			return fmt.Errorf("cannot listen on %s (udp): %w", s.opts.Listen, err)
		}
		g.setup.Store(&s)
		g.udp = newForwarder(g, socket.(*net.UDPConn))
		return nil
	}
	l, err := net.Listen("tcp", s.opts.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", s.opts.Listen, err)
	}
	g.tcp = l.(*net.TCPListener)
	return nil
}

// Addr is where the gate listens, or nil before Listen.
func (g *Gate) Addr() net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.tcp != nil:
		return g.tcp.Addr()
	case g.udp != nil:
		return g.udp.socket.LocalAddr()
	}
	return nil
}

// Start begins to serve and returns at once. Listen must have succeeded; without it, Start does nothing.
func (g *Gate) Start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started || g.stopped {
		return
	}
	switch {
	case g.tcp != nil:
		g.running.Go(func() { doorway.Accept(g.tcp.AcceptTCP, g.stop, g.env.Log, g.receive) })
	case g.udp != nil:
		g.running.Go(g.udp.receive)
	default:
		return
	}
	g.started = true
}

// Prepare makes ready to go on with other options and other chains. Everything that can fail happens here; then either
// commit, which cannot fail, or abort must be called. Connections under way keep the options and the chain that they
// began with, and sessions of udp their upstream; each packet meets the chain of the hour. The listener is kept: a
// changed listen address is ignored, it takes another gate, and so does another protocol.
func (g *Gate) Prepare(o Options, accept, chain *policy.Chain) (commit, abort func(), err error) {
	now := g.setup.Load()
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
		if err := next.lookUp(g.base); err != nil {
			return nil, nil, &weir.FieldError{Path: "upstream", Msg: err.Error()}
		}
	}
	return func() { g.setup.Store(next) }, func() {}, nil
}

// lastWait is how long a stop waits for those whose connections are closed already.
const lastWait = 5 * time.Second

// Stop takes no more and waits until the connections under way, and those that wait for their turn, have come to their
// end. When ctx ends first, they are cut and the error of ctx returned. A packet of udp is under way until its reply
// has come, for a second at most. A second call waits for the first.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	first := !g.stopped
	g.stopped = true
	tcp, udp := g.tcp, g.udp
	g.mu.Unlock()
	if !first {
		select {
		case <-g.over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(g.over)
	close(g.stop)
	if tcp != nil {
		_ = tcp.Close()
	}
	if udp != nil {
		udp.hush()
		defer udp.socket.Close()
	}
	defer g.cancel()
	ended := make(chan struct{})
	go func() {
		g.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	under := g.open.Load()
	g.cancel()
	// Nothing holds them up any more; they must have settled before the throttles are taken down.
	select {
	case <-ended:
	case <-time.After(lastWait):
		g.env.Log.Error("connections are still under way after the stop", "connections", g.open.Load())
	}
	if under == 0 {
		return nil
	}
	return fmt.Errorf("%d connections were cut off: %w", under, ctx.Err())
}

func (g *Gate) stopping() bool {
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}

// elapsed is how long the gate has been there.
func (g *Gate) elapsed() time.Duration { return g.env.Clock.Now().Sub(g.began) }

// unreached notes that the upstream cannot be reached.
func (g *Gate) unreached(id string, err error) {
	g.env.Observer.Unreached()
	if more, ok := g.failing.Now(g.elapsed()); ok {
		g.env.Log.LogAttrs(g.base, slog.LevelWarn, "the upstream cannot be reached",
			slog.String("id", id), slog.Any("error", err), slog.Int64("unlogged_before", more))
	}
}

// panicked notes what a connection died of. Its neighbours go on.
func (g *Gate) panicked(id string, what any) {
	g.env.Log.LogAttrs(g.base, slog.LevelError, "a connection failed by a mistake in weir",
		slog.String("id", id), slog.Any("panic", what), slog.String("stack", string(debug.Stack())))
}
