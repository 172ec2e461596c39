package authgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/doorway"
	"weir/internal/loglimit"
	"weir/policy"
)

// A Gate is one listener that proxies ask, with its chain of throttles. Its methods may be called from several
// goroutines; the order is New, Listen, Start, any number of Prepare, Stop.
type Gate struct {
	env    Env
	setup  atomic.Pointer[setup]
	visits sync.Pool // of *visit

	open     atomic.Int64 // connections
	requests atomic.Int64 // under way and waiting
	waiting  atomic.Int64

	began              time.Time
	strange, malformed loglimit.Line

	// Every question's context descends from this one, which ends when a stop has no more patience.
	base   context.Context
	cancel context.CancelFunc

	stop      chan struct{} // closed when the gate stops
	accepting chan struct{} // closed when nothing more is accepted
	ended     chan struct{} // closed when the stop is over

	mu       sync.Mutex
	listener net.Listener
	servers  *doorway.Servers // nil before Start
	stopped  bool
}

// New returns a gate that listens nowhere yet. The chain judges every request; nil admits everything.
func New(o Options, chain *policy.Chain, env Env) (*Gate, error) {
	s, err := newSetup(o, chain)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env.withDefaults(), stop: make(chan struct{}), accepting: make(chan struct{}),
		ended: make(chan struct{})}
	g.began = g.env.Clock.Now()
	g.base, g.cancel = context.WithCancel(context.Background())
	g.setup.Store(s)
	g.visits.New = func() any { return new(visit) }
	return g, nil
}

// Listen binds the address, or makes the socket. Port 0 takes a free one; see Addr.
func (g *Gate) Listen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		return errors.New("the gate listens already")
	}
	if g.stopped {
		return net.ErrClosed
	}
	o := &g.setup.Load().opts
	l, err := doorway.Listen(o.Listen, doorway.Socket(o.Socket))
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
	if g.listener == nil || g.servers != nil || g.stopped {
		return
	}
	g.servers = doorway.NewServers(g.listener.Addr())
	g.servers.Put(g.newServer(g.setup.Load().serverOptions()))
	go func() {
		defer close(g.accepting)
		doorway.Accept(g.listener.Accept, g.stop, g.env.Log, g.receive)
	}()
}

// readAhead is how much more than its bound net/http takes for a request's head.
const readAhead = 4 << 10

func (g *Gate) newServer(o serverOptions) *http.Server {
	return &http.Server{
		Handler:                      g,
		ReadHeaderTimeout:            o.header,
		IdleTimeout:                  o.idle,
		MaxHeaderBytes:               o.headerBytes - readAhead,
		BaseContext:                  func(net.Listener) context.Context { return g.base },
		DisableGeneralOptionsHandler: true, // nothing is answered behind the gate's back, least of all with 200
		// What net/http has to say is about proxies that misbehave.
		ErrorLog: slog.NewLogLogger(g.env.Log.Handler(), slog.LevelDebug),
	}
}

// Prepare makes ready to go on with other options and another chain. Everything that can fail happens here; then either
// commit, which cannot fail, or abort must be called. Questions under way keep the options and the chain that they
// began with. The listener is kept: a changed listen address or socket is ignored, it takes another gate.
func (g *Gate) Prepare(o Options, chain *policy.Chain) (commit, abort func(), err error) {
	now := g.setup.Load()
	o.Listen, o.Socket = now.opts.Listen, now.opts.Socket
	next, err := newSetup(o, chain)
	if err != nil {
		return nil, nil, err
	}
	var once sync.Once
	commit = func() {
		once.Do(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			old := g.setup.Swap(next)
			if g.servers != nil && !g.stopped && old.serverOptions() != next.serverOptions() {
				g.servers.Put(g.newServer(next.serverOptions()))
			}
		})
	}
	abort = func() { once.Do(func() {}) } // nothing has been opened
	return commit, abort, nil
}

// Stop stops accepting and waits until the questions under way, and those that wait for a turn, have been answered.
// When ctx ends first, their connections are closed and the error of ctx returned. A second call waits for the first.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	first := !g.stopped
	g.stopped = true
	listener, servers := g.listener, g.servers
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
	var err error
	if servers != nil {
		servers.Shut()
		<-g.accepting
		err = servers.Shutdown(ctx)
	}
	g.cancel()
	if servers != nil {
		servers.Close()
	}
	// Contexts and connections are gone, so that the last questions end by themselves; they must have settled before
	// the throttles are taken down.
	if !g.idle(lastWait) {
		g.env.Log.Error("questions are still under way after the stop", "requests", g.requests.Load())
	}
	if err != nil {
		return fmt.Errorf("questions were cut off: %w", err)
	}
	return nil
}

// lastWait is how long a stop waits for handlers whose connections are closed already.
const lastWait = 5 * time.Second

// idle waits until no question is under way, and reports whether that came true in time.
func (g *Gate) idle(patience time.Duration) bool {
	for end := time.Now().Add(patience); g.requests.Load() > 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
