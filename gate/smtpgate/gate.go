package smtpgate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/internal/doorway"
	"weir/internal/loglimit"
)

// KindMail is the kind of the events that a gate puts before its chains, and KindLogIn of those that limit wrong
// passwords.
const (
	KindMail  = "mail"
	KindLogIn = "login"
)

// A Gate is one listener for mail. Its methods may be called from several goroutines; the order is New, Listen, Start,
// any number of Prepare, Stop.
type Gate struct {
	env     Env
	began   time.Time
	setup   atomic.Pointer[setup]
	fails   loglimit.Line // panics
	untaken loglimit.Line // mails that could not be taken

	clients clients

	// What goes on at the gate ends when this context does, which is when a stop has no more patience.
	base    context.Context
	cancel  context.CancelFunc
	stop    chan struct{}  // closed when the gate stops
	running sync.WaitGroup // of those who accept

	mu       sync.Mutex
	listener *net.TCPListener
	started  bool
	stopped  bool
	over     chan struct{} // closed when the stop is over

	sessions  map[*conn]struct{}
	bySource  map[netip.Addr]int
	guests    int // sessions of sources that nobody knows
	regulars  regulars
	emptied   chan struct{} // closed when nobody is left after a stop
	emptyOnce sync.Once
}

// New returns a gate that listens nowhere yet.
func New(o Options, p Parts, env Env) (*Gate, error) {
	env, err := env.withDefaults()
	if err != nil {
		return nil, err
	}
	g := &Gate{env: env, began: env.Clock.Now(), stop: make(chan struct{}), over: make(chan struct{}),
		emptied:  make(chan struct{}),
		sessions: map[*conn]struct{}{}, bySource: map[netip.Addr]int{}, regulars: regulars{}}
	g.base, g.cancel = context.WithCancel(context.Background())
	s, err := newSetup(g, o, p)
	if err != nil {
		g.cancel()
		return nil, err
	}
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
	at := g.setup.Load().opts.Listen
	l, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", at, err)
	}
	g.listener = l.(*net.TCPListener)
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
	g.started = true
	g.running.Go(func() { doorway.Accept(g.listener.AcceptTCP, g.stop, g.env.Log, g.receive) })
}

// Prepare makes ready to go on with other options and parts, and reads the certificate again. Everything that can fail
// happens here; then either commit, which cannot fail, or abort must be called. Sessions under way keep the options
// that they began with. The listener is kept: a changed listen address is ignored, it takes another gate.
func (g *Gate) Prepare(o Options, p Parts) (commit, abort func(), err error) {
	o.Listen = g.setup.Load().opts.Listen
	next, err := newSetup(g, o, p)
	if err != nil {
		return nil, nil, err
	}
	return func() { g.setup.Store(next) }, func() {}, nil
}

// lastWait is how long a stop waits for those whose sessions are closed already.
const lastWait = 5 * time.Second

// Stop takes no more sessions, says good-bye to those who are not sending a mail, and waits until the others have sent
// theirs. When ctx ends first, they are cut off and the error of ctx returned. A second call waits for the first.
func (g *Gate) Stop(ctx context.Context) error {
	g.mu.Lock()
	first := !g.stopped
	g.stopped = true
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
	defer g.cancel()
	close(g.stop)
	g.mu.Lock()
	if g.listener != nil {
		_ = g.listener.Close()
	}
	for c := range g.sessions {
		c.wake()
	}
	g.emptyLocked()
	g.mu.Unlock()
	defer g.running.Wait()
	select {
	case <-g.emptied:
		return nil
	case <-ctx.Done():
	}
	g.cancel()
	g.mu.Lock()
	under := len(g.sessions)
	for c := range g.sessions {
		c.cut()
	}
	g.mu.Unlock()
	// Nothing holds them up any more; they must have settled before the throttles are taken down.
	select {
	case <-g.emptied:
	case <-time.After(lastWait):
		g.env.Log.Error("sessions are still under way after the stop", "sessions", under)
	}
	if under == 0 {
		return nil
	}
	return fmt.Errorf("%d sessions were cut off: %w", under, ctx.Err())
}

func (g *Gate) stopping() bool {
	select {
	case <-g.stop:
		return true
	default:
		return false
	}
}

// emptyLocked tells a stop that nobody is left.
func (g *Gate) emptyLocked() {
	if g.stopped && len(g.sessions) == 0 {
		g.emptyOnce.Do(func() { close(g.emptied) })
	}
}

// load is how much there is to deliver, for throttles that want to know.
func (g *Gate) load() weir.Load {
	return weir.Load{Of: g.env.Name, Share: weir.Share(g.env.Spool.Load(g.env.Name))}
}

// panicked notes what a session died of. Its neighbours go on.
func (g *Gate) panicked(what string) {
	if more, ok := g.fails.Now(g.env.Clock.Now().Sub(g.began)); ok {
		g.env.Log.Error("a session failed by a mistake in weir", "panic", what, "unlogged_before", more)
	}
}
