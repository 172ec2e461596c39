package httpgate

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

// A Gate is one HTTP listener with its upstream and its chain of throttles. Its methods may be called from several
// goroutines; the order is New, Listen, Start, any number of Prepare, Stop.
type Gate struct {
	env    Env
	setup  atomic.Pointer[setup]
	watch  *hangups
	assets *assets
	frames frames

	access   atomic.Pointer[AccessLog]
	open     atomic.Int64 // connections
	arriving atomic.Int64 // of them, those whose PROXY header or TLS handshake is under way
	requests atomic.Int64 // under way and waiting
	waiting  atomic.Int64

	lines   loglimit.Rates // of the log
	summing atomic.Bool    // those left out are about to be told of

	// Every request's context descends from this one, which ends when a stop has no more patience.
	base   context.Context
	cancel context.CancelFunc

	// Who has just arrived is turned away as soon as the gate stops.
	welcome  context.Context
	farewell context.CancelFunc
	arrivals sync.WaitGroup

	stop      chan struct{} // closed when the gate stops
	accepting chan struct{} // closed when nothing more is accepted

	mu        sync.Mutex
	listener  net.Listener
	started   bool
	stopped   bool
	server    atomic.Pointer[server]
	servers   []*server // the current one, and those whose last requests are under way
	upgraded  map[net.Conn]struct{}
	sessions  sessions
	exhausted chan struct{} // closed when the stop is over
}

// A server is one http.Server and the doorway that it gets its connections through.
type server struct {
	http    *http.Server
	doorway *doorway.Doorway
	opts    serverOptions
	done    chan struct{} // closed when Serve has returned
}

// serverOptions are those that net/http takes once and for all.
type serverOptions struct {
	header, idle time.Duration
	headerBytes  int
}

func (s *setup) serverOptions() serverOptions {
	return serverOptions{s.opts.Timeouts.Header.Std(), s.opts.Timeouts.Idle.Std(), int(s.opts.Bounds.Header)}
}

// New returns a gate that listens nowhere yet. The chain accept judges every connection, the other one every request;
// nil admits everything.
func New(o Options, accept, chain *policy.Chain, env Env) (*Gate, error) {
	env = env.withDefaults()
	s, err := newSetup(o, accept, chain, env, nil)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env, stop: make(chan struct{}), accepting: make(chan struct{}), upgraded: map[net.Conn]struct{}{}}
	g.base, g.cancel = context.WithCancel(context.Background())
	g.welcome, g.farewell = context.WithCancel(context.Background())
	g.watch = newHangups()
	g.setup.Store(s)
	g.assets = newAssets(env.Scripts)
	g.SetAccess(env.Access)
	return g, nil
}

// SetAccess changes which requests get a line in the access log.
func (g *Gate) SetAccess(which AccessLog) { g.access.Store(&which) }

// Listen binds the address, or makes the socket. Port 0 takes a free one; see Addr. Where keys of tokens are being
// fetched, it then waits for the first try, ten seconds at most, so that nobody's token is turned away for being
// early.
func (g *Gate) Listen() error {
	if err := g.bind(); err != nil {
		return err
	}
	g.setup.Load().front.tokens.await()
	return nil
}

func (g *Gate) bind() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		return errors.New("the gate listens already")
	}
	if g.stopped {
		return net.ErrClosed
	}
	o := &g.setup.Load().opts
	l, err := doorway.Listen(o.Listen, o.Socket.doorway())
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
	signed := *g.setup.Load() // the secrets may be known only now
	signed.sign(g.env)
	g.setup.Store(&signed)
	signed.front.begin()
	g.serve(g.setup.Load().serverOptions())
	go func() {
		defer close(g.accepting)
		doorway.Accept(g.listener.Accept, g.stop, g.env.Log, g.receive)
	}()
}

// serve puts a new server in place. The old one, if any, takes no more connections: idle ones are closed, those that
// have just been made get their first answer, and requests under way go on. g.mu is held.
func (g *Gate) serve(o serverOptions) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	next := &server{doorway: doorway.New(g.listener.Addr()), opts: o, done: make(chan struct{})}
	next.http = &http.Server{
		Handler:           g,
		Protocols:         protocols,
		ReadHeaderTimeout: o.header,
		IdleTimeout:       o.idle,
		MaxHeaderBytes:    o.headerBytes,
		BaseContext:       func(net.Listener) context.Context { return g.base },
		ConnContext:       withConn,
		// Nothing is answered behind the gate's back, not even OPTIONS *.
		DisableGeneralOptionsHandler: true,
		// What net/http has to say is about clients that misbehave.
		ErrorLog: slog.NewLogLogger(g.env.Log.Handler(), slog.LevelDebug),
	}
	old := g.server.Swap(next)
	g.servers = append(g.servers, next)
	go func() {
		defer close(next.done)
		_ = next.http.Serve(next.doorway)
	}()
	if old != nil {
		go g.retire(old)
	}
}

// retire ends a server whose place another one has taken.
func (g *Gate) retire(old *server) {
	_ = old.doorway.Close()
	old.http.SetKeepAlivesEnabled(false)
	// Shutdown drops connections whose first request has not been read; by then the header timeout has dealt with them.
	patience := time.NewTimer(old.opts.header + time.Second)
	defer patience.Stop()
	select {
	case <-patience.C:
	case <-g.stop:
		return // Stop takes care of it
	}
	_ = old.http.Shutdown(g.base)
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, s := range g.servers {
		if s == old {
			g.servers = append(g.servers[:i:i], g.servers[i+1:]...)
			return
		}
	}
}

// Prepare makes ready to go on with other options and other chains. Everything that can fail happens here; then either
// commit, which cannot fail, or abort must be called. Requests under way keep the options and the chain that they began
// with. The listener is kept: a changed listen address is ignored, it takes another gate.
func (g *Gate) Prepare(o Options, accept, chain *policy.Chain) (commit, abort func(), err error) {
	now := g.setup.Load()
	o.Listen = now.opts.Listen
	next, err := newSetup(o, accept, chain, g.env, now)
	if err != nil {
		return nil, nil, err
	}
	var once sync.Once
	commit = func() {
		once.Do(func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			old := g.setup.Swap(next)
			next.front.replaces(&old.front, g.started && !g.stopped)
			if s := g.server.Load(); s != nil && !g.stopped && s.opts != next.serverOptions() {
				g.serve(next.serverOptions())
			}
			if old.transport != next.transport {
				old.transport.CloseIdleConnections()
			}
		})
	}
	abort = func() {
		once.Do(func() {
			next.front.drop(g.setup.Load())
			if next.transport != g.setup.Load().transport {
				next.transport.CloseIdleConnections()
			}
		})
	}
	return commit, abort, nil
}

// Stop stops accepting and waits until the requests under way, and those that wait for their turn, have been answered.
// When ctx ends first, their connections are closed and the error of ctx returned. A second call waits for the first.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	first := !g.stopped
	g.stopped = true
	if first {
		close(g.stop)
		g.exhausted = make(chan struct{})
	}
	listener, started, servers := g.listener, g.started, append([]*server(nil), g.servers...)
	exhausted := g.exhausted
	g.mu.Unlock()
	if !first {
		select {
		case <-exhausted:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer close(exhausted)
	if listener != nil {
		_ = listener.Close()
	}
	g.farewell()
	for _, s := range servers {
		_ = s.doorway.Close()
	}
	if started {
		<-g.accepting
	}
	g.arrivals.Wait()
	errs := make(chan error, len(servers)+1)
	for _, s := range servers {
		go func() { errs <- s.http.Shutdown(ctx) }()
	}
	go func() { errs <- g.sessions.drain(ctx) }()
	var err error
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	if err == nil {
		err = g.idle(ctx)
	}
	g.cancel()
	for _, s := range servers {
		_ = s.http.Close()
		<-s.done
	}
	g.sessions.cut()
	g.mu.Lock()
	for c := range g.upgraded {
		_ = c.Close()
	}
	g.mu.Unlock()
	// Contexts and connections are gone, so that the last requests end by themselves; they must have settled before the
	// throttles are taken down.
	last, cancel := context.WithTimeout(context.Background(), lastWait)
	defer cancel()
	if g.idle(last) != nil {
		g.env.Log.Error("requests are still under way after the stop", "requests", g.requests.Load())
	}
	g.sumUp()
	g.watch.close()
	g.setup.Load().front.end()
	g.setup.Load().transport.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("requests were cut off: %w", cmpErr(ctx.Err(), err))
	}
	return nil
}

// lastWait is how long a stop waits for handlers whose connections are closed already.
const lastWait = 5 * time.Second

func cmpErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// idle waits until no request is under way. net/http knows nothing of upgraded connections.
func (g *Gate) idle(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for g.requests.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (g *Gate) stopping() bool {
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}

func (g *Gate) progress() time.Duration { return g.setup.Load().opts.Timeouts.Progress.Std() }

// malformed notes that a connection brought something that is not read on.
func (g *Gate) malformed(c *conn) {
	bound := BoundMalformed
	if c.framing.state == tooLarge {
		bound = BoundHeader
	}
	g.env.Observer.Bounded(bound)
	if *g.access.Load() != AccessOff && g.mayLog(lineName{"malformed", maxRefused}, g.env.Clock.Now()) {
		g.env.Log.LogAttrs(g.base, slog.LevelInfo, "malformed request",
			slog.String("peer", c.RemoteAddr().String()), slog.String("why", c.framing.why))
	}
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection that a request came on.
func connOf(ctx context.Context) *conn {
	c, _ := ctx.Value(connKey{}).(*conn)
	return c
}
