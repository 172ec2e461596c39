package postfixgate

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

	"weir/internal/doorway"
	"weir/internal/loglimit"
)

// KindMail is the kind of the events that a gate puts before its chains.
const KindMail = "mail"

// A Gate is one policy service with its throttles and the spool that it asks. Its methods may be called from several
// goroutines; the order is New, Listen, Start, any number of Prepare, Stop.
type Gate struct {
	env   Env
	began time.Time // how often is logged is counted from here on
	setup atomic.Pointer[setup]
	mails mails

	garbled, failing, misled loglimit.Line

	// Decisions end when this context does, which is when a stop has no more patience.
	base    context.Context
	cancel  context.CancelFunc
	stop    chan struct{}  // closed when the gate stops
	running sync.WaitGroup // everything that the gate has started

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	started  bool
	stopped  bool
	over     chan struct{} // closed when the stop is over
}

// New returns a gate that listens nowhere yet.
func New(o Options, p Parts, env Env) (*Gate, error) {
	env, err := env.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := newSetup(o, p)
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env, began: env.Clock.Now(), conns: map[*conn]struct{}{}, stop: make(chan struct{}),
		over: make(chan struct{})}
	g.base, g.cancel = context.WithCancel(context.Background())
	g.setup.Store(s)
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
	if g.started || g.stopped || g.listener == nil {
		return
	}
	g.running.Go(func() { doorway.Accept(g.listener.Accept, g.stop, g.env.Log, g.receive) })
	g.started = true
}

// Prepare makes ready to go on with other options and parts. Everything that can fail happens here; then either commit,
// which cannot fail, or abort must be called. Requests under way keep what they began with. The listener is kept: a
// changed listen address is ignored, it takes another gate, and so do other rights on a socket.
func (g *Gate) Prepare(o Options, p Parts) (commit, abort func(), err error) {
	now := g.setup.Load()
	o.Listen, o.Socket = now.opts.Listen, now.opts.Socket
	next, err := newSetup(o, p)
	if err != nil {
		return nil, nil, err
	}
	return func() { g.setup.Store(next) }, func() {}, nil
}

// lastWait is how long a stop waits for those whose connections are closed already.
const lastWait = 5 * time.Second

// Stop takes no more requests and waits until those under way are answered. When ctx ends first, they are cut and the
// error of ctx returned. A second call waits for the first.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	first := !g.stopped
	g.stopped = true
	listener := g.listener
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
	if listener != nil {
		_ = listener.Close()
	}
	defer g.cancel()
	g.each((*conn).wake) // who waits for a request waits no longer
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
	under := g.each(func(c *conn) { _ = c.Close() })
	g.cancel()
	select {
	case <-ended:
	case <-time.After(lastWait):
		g.env.Log.Error("requests are still under way after the stop")
	}
	if under == 0 {
		return nil
	}
	return fmt.Errorf("%d connections were cut off: %w", under, ctx.Err())
}

// each does something with each open connection, and returns how many there are.
func (g *Gate) each(f func(*conn)) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		f(c)
	}
	return len(g.conns)
}

func (g *Gate) stopping() bool {
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}

// warn puts a line into the log, but not every time.
func (g *Gate) warn(r *loglimit.Line, message string, attrs ...slog.Attr) {
	if more, ok := r.Now(g.env.Clock.Now().Sub(g.began)); ok {
		g.env.Log.LogAttrs(g.base, slog.LevelWarn, message, append(attrs, slog.Int64("unlogged_before", more))...)
	}
}

// panicked notes what a request died of. Its neighbours go on.
func (g *Gate) panicked(what any) {
	g.env.Log.LogAttrs(g.base, slog.LevelError, "a request failed by a mistake in weir",
		slog.Any("panic", what), slog.String("stack", string(debug.Stack())))
}
