package apigate

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/doorway"
	"weir/policy"
)

// A Gate is one listener of the decision API with its policies. Its methods may be called from several goroutines; the
// order is New, Listen, Start, any number of Prepare, Stop.
type Gate struct {
	env    Env
	node   string // what its holds begin with
	setup  atomic.Pointer[setup]
	holds  *register
	visits sync.Pool // of *visit

	open     atomic.Int64 // connections
	requests atomic.Int64 // under way

	// Every request's context descends from this one, which ends when a stop has no more patience.
	base   context.Context
	cancel context.CancelFunc

	stop      chan struct{} // closed when the gate stops
	accepting chan struct{} // closed when nothing more is accepted
	ended     chan struct{} // closed when the stop is over

	mu      sync.Mutex
	tcp     *net.TCPListener
	started bool
	stopped bool
	server  atomic.Pointer[server]
	servers []*server // the current one, and those whose last requests are under way
}

// New returns a gate that listens nowhere yet. chains has the chain of each policy.
func New(o Options, chains map[string]*policy.Chain, env Env) (*Gate, error) {
	s, err := newSetup(o, chains)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env.withDefaults(), node: strings.ToLower(rand.Text()[:nodeLetters]),
		stop: make(chan struct{}), accepting: make(chan struct{}), ended: make(chan struct{})}
	g.base, g.cancel = context.WithCancel(context.Background())
	g.setup.Store(s)
	g.holds = newRegister(g.env, func(h *hold) { g.abandon(h) })
	g.visits.New = func() any { return new(visit) }
	return g, nil
}

// Listen binds the address. Port 0 takes a free one; see Addr.
func (g *Gate) Listen() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tcp != nil {
		return errors.New("the gate listens already")
	}
	if g.stopped {
		return net.ErrClosed
	}
	address := g.setup.Load().opts.Listen
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	g.tcp = l.(*net.TCPListener)
	return nil
}

// Addr is where the gate listens, or nil before Listen.
func (g *Gate) Addr() net.Addr {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tcp == nil {
		return nil
	}
	return g.tcp.Addr()
}

// Start begins to serve and returns at once. Listen must have succeeded; without it, Start does nothing.
func (g *Gate) Start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tcp == nil || g.started || g.stopped {
		return
	}
	g.started = true
	g.serve(g.setup.Load().serverOptions())
	go func() {
		defer close(g.accepting)
		doorway.Accept(g.tcp.AcceptTCP, g.stop, g.env.Log, g.receive)
	}()
}

// Prepare makes ready to go on with other options and other chains. Everything that can fail happens here; then either
// commit, which cannot fail, or abort must be called. Requests under way keep the options that they began with, and
// holds the chain that they were taken under; both stay open. The listener is kept: a changed listen address is
// ignored, it takes another gate.
func (g *Gate) Prepare(o Options, chains map[string]*policy.Chain) (commit, abort func(), err error) {
	o.Listen = g.setup.Load().opts.Listen
	next, err := newSetup(o, chains)
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

// Stop stops accepting and waits until the requests under way have been answered; those that await a turn are answered
// at once. When ctx ends first, their connections are closed and the error of ctx returned. Then whatever is still held
// is settled, as the options say for holds that nobody settles. A second call waits for the first.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	first := !g.stopped
	g.stopped = true
	tcp, started, servers := g.tcp, g.started, append([]*server(nil), g.servers...)
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
	if tcp != nil {
		_ = tcp.Close()
	}
	for _, s := range servers {
		_ = s.doorway.Close()
	}
	if started {
		<-g.accepting
	}
	var err error
	for _, s := range servers {
		err = errors.Join(err, s.http.Shutdown(ctx))
	}
	g.cancel()
	for _, s := range servers {
		_ = s.http.Close()
		<-s.done
	}
	// Contexts and connections are gone, so that the last requests end by themselves; they must have settled before the
	// throttles are taken down.
	if !g.idle(lastWait) {
		g.env.Log.Error("requests are still under way after the stop", "requests", g.requests.Load())
	}
	for _, h := range g.holds.close() {
		g.abandon(h)
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

// survive, deferred, keeps a panic of a throttle from taking the others down with it. then, which may be nil, cleans up
// after it.
func (g *Gate) survive(doing string, then func()) {
	if failure := recover(); failure != nil {
		g.env.Log.Error("a panic while "+doing, "panic", failure, "stack", string(debug.Stack()))
		if then != nil {
			then()
		}
	}
}
