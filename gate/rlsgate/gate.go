package rlsgate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/doorway"
)

// A Gate is one listener for Envoy with its services. Its methods may be called from several goroutines; the order is
// New, Listen, Start, any number of Prepare, Stop.
type Gate struct {
	env    Env
	setup  atomic.Pointer[setup]
	visits sync.Pool // of *visit

	open     atomic.Int64 // connections
	requests atomic.Int64 // under way

	stop      chan struct{} // closed when the gate stops
	accepting chan struct{} // closed when nothing more is accepted
	ended     chan struct{} // closed when the stop is over

	mu       sync.Mutex
	listener net.Listener
	started  bool
	stopped  bool
	server   atomic.Pointer[server]
	servers  []*server // the current one, and those whose last requests are under way
}

// New returns a gate that listens nowhere yet.
func New(o Options, p Parts, env Env) (*Gate, error) {
	s, err := newSetup(o, p)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env.withDefaults(), stop: make(chan struct{}), accepting: make(chan struct{}),
		ended: make(chan struct{})}
	g.setup.Store(s)
	g.visits.New = func() any { return new(visit) }
	return g, nil
}

// Listen binds the address. Port 0 takes a free one; see Addr.
func (g *Gate) Listen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		return errors.New("the gate listens already")
	}
	if g.stopped {
		return net.ErrClosed
	}
	l, err := listen(&g.setup.Load().opts)
	if err != nil {
		return err
	}
	g.listener = l
	return nil
}

// Addr is where the gate listens, or nil before Listen.
func (g *Gate) Addr() net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener == nil {
		return nil
	}
	return g.listener.Addr()
}

// Start begins to serve and returns at once. Listen must have succeeded; without it, Start does nothing.
func (g *Gate) Start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener == nil || g.started || g.stopped {
		return
	}
	g.started = true
	g.serve(g.setup.Load().serverOptions())
	go func() {
		defer close(g.accepting)
		doorway.Accept(g.listener.Accept, g.stop, g.env.Log, g.receive)
	}()
}

// Prepare makes ready to go on with other options and parts; files that the options name are read anew. Everything that
// can fail happens here; then either commit, which cannot fail, or abort must be called. Requests under way keep what
// they began with. The listener is kept: a changed listen address is ignored, it takes another gate, and so do other
// rights on a socket.
func (g *Gate) Prepare(o Options, p Parts) (commit, abort func(), err error) {
	now := g.setup.Load()
	o.Listen, o.Socket = now.opts.Listen, now.opts.Socket
	next, err := newSetup(o, p)
	if err != nil {
		return nil, nil, err
	}
	var once sync.Once
	commit = func() {
		once.Do(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.setup.Store(next)
			if s := g.server.Load(); s != nil && !g.stopped && s.opts != next.serverOptions() {
				g.serve(next.serverOptions())
			}
		})
	}
	abort = func() { once.Do(func() {}) } // nothing has been opened
	return commit, abort, nil
}

// Stop stops accepting and waits until the requests under way have been answered; those that are held for a throttle
// are answered at once. When ctx ends first, their connections are closed and the error of ctx returned. A second call
// waits for the first.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	first := !g.stopped
	g.stopped = true
	listener, started, servers := g.listener, g.started, append([]*server(nil), g.servers...)
	g.mu.Unlock()
	if !first {
		select {
		case <-g.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(g.ended)
	close(g.stop)
	if listener != nil {
		_ = listener.Close()
	}
	for _, s := range servers {
		_ = s.doorway.Close()
	}
	if started {
		<-g.accepting
	}
	var err error
	for _, s := range servers {
		err = errors.Join(err, s.end(ctx))
	}
	// Connections are gone, so that the last requests end by themselves; they must have settled before the throttles
	// are taken down.
	if !g.idle(lastWait) {
		g.env.Log.Error("requests are still under way after the stop", "requests", g.requests.Load())
	}
	if err != nil {
		return fmt.Errorf("requests were cut off: %w", err)
	}
	return nil
}

// lastWait is how long a stop waits for handlers whose connections are closed already.
const lastWait = 5 * time.Second

// idle waits until no request is under way, and reports whether that came true in time.
func (g *Gate) idle(patience time.Duration) bool {
	for end := time.Now().Add(patience); g.requests.Load() > 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func (g *Gate) stopping() bool {
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}
