package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/config"
	"weir/console"
	skeleton "weir/gate"
	"weir/gate/httpgate/keys"
	"weir/identify/country"
	"weir/internal/clock"
	"weir/internal/logs"
	"weir/internal/pacer"
	"weir/store/settings"
)

// DefaultDrain is how long a gate that a reload removed may take to finish what is under way.
const DefaultDrain = 30 * time.Second

// Options are what an App needs besides its configuration. The zero value is ready to use.
type Options struct {
	Clock   clock.Clock   // default: the machine's
	Log     *slog.Logger  // default: nothing is logged
	Version string        // shown in status and metrics
	Path    string        // of the configuration, shown in status
	Drain   time.Duration // default DefaultDrain

	// Sockets are those that were handed over to weir. Gates take theirs. Default: there are none.
	Sockets *skeleton.Sockets

	// HashMemory is how much memory, in KiB, the hash of a new password takes, of operators and of mail users. Default:
	// that of login.Options. Tests, which take very many passwords, set less.
	HashMemory int

	// FirstPassword is given the password of the operator that the first start makes, at each start until it was used.
	// It must not log it. May be nil: the password is in a file in the data folder.
	FirstPassword func(name, password string) error

	// Demo is what the console shows of the demo that this weir is a part of. Default: it is part of none.
	Demo console.Demo

	// Load reads the configuration again, for Reread. Without it the configuration changes by Reload only.
	Load func() (*config.Config, error)
	// Logging is told what the configuration says about the log, whenever one takes effect. May be nil.
	Logging func(config.Log)
	// LogBuffer is where the log goes through, to be watched. May be nil.
	LogBuffer *logs.Buffer
}

// The states of an App, in order.
const (
	starting int32 = iota
	serving
	stopping
)

var stateNames = [...]string{"starting", "serving", "stopping"}

// Errors of calls that come at the wrong time.
var (
	ErrNotServing = errors.New("weir is not serving")
	ErrStarted    = errors.New("weir was started before")
	ErrBusy       = errors.New("a start or a reload is still under way")
)

// An App is a weir. Make one with New.
type App struct {
	opts     Options
	metrics  *console.Metrics
	clock    clock.Clock // the time of events: in a farm, the farm's; dates in mail are the machine's
	pace     *pacer.Pace
	failures *failures
	bans     *bans
	settings *settings.Settings
	settling sync.Mutex // one applySettings at a time
	// While all throttles are in shadow: what each had before, by name. Else nil. Under settling.
	shadows map[string]bool
	history *history
	users   *userHistory
	changes changes
	notices *notices
	post    *post
	kept    atomic.Pointer[kept]   // nil unless the data folder is in use
	member  atomic.Pointer[member] // nil where weir is alone
	secret  []byte                 // signs what clients are given; read by Start
	lookups chan struct{}          // of names, under way
	// What HTTP gates have promised to show to those who give out certificates.
	proofs keys.Proofs
	// Which country addresses are in; nil where nobody knows.
	countries atomic.Pointer[country.File]
	coming    *config.Config // what is being prepared or started; work is held

	work    latch      // Start, Reload and Stop wait for each other
	reading sync.Mutex // as do those who read the configuration again
	state   atomic.Int32
	current atomic.Pointer[generation] // never nil; what it points to does not change
	started time.Time
	running bool // Start succeeded
	stop    sync.Once
	stopErr error

	auditing  sync.Mutex // the audit log is made shorter by one at a time
	shortened time.Time  // when it was

	background sync.WaitGroup     // what reloads left to finish by itself
	retreat    context.Context    // ends when that must be over
	giveUp     context.CancelFunc // ends it

	reloads reloadRecord
	// The last upgrade that failed; nil if none did.
	upgrade atomic.Pointer[console.UpgradeStatus]
}

// New builds what the configuration asks for. Nothing is opened, and a failed New leaves nothing behind.
func New(cfg *config.Config, o Options) (*App, error) {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Drain <= 0 {
		o.Drain = DefaultDrain
	}
	if err := ownFolder(cfg.WithDefaults().Data); err != nil {
		return nil, err
	}
	a := &App{opts: o, clock: o.Clock, work: make(latch, 1), metrics: console.NewMetrics(o.Version),
		failures: &failures{clock: o.Clock, log: o.Log, last: map[string]*failure{}}}
	if cfg.Farm != nil {
		a.clock = clock.Shifted{Clock: o.Clock, By: a.offset}
	}
	a.pace = &pacer.Pace{Clock: a.clock}
	a.secret, a.lookups = newSecret(), make(chan struct{}, maxLookups)
	a.retreat, a.giveUp = context.WithCancel(context.Background())
	a.current.Store(&generation{})
	a.newSettings()
	a.history = &history{clock: o.Clock, now: a.current.Load, app: a}
	a.users = &userHistory{clock: o.Clock, read: a.standings,
		full: func() { a.metrics.BoundReached(boundPastUsers) }}
	a.notices = &notices{app: a, lasting: map[condition]*lasting{}, turned: map[string]uint64{}}
	var err error
	if a.post, err = newPost(a); err != nil {
		return nil, err
	}
	c, err := a.prepare(cfg)
	if err != nil {
		return nil, err
	}
	a.current.Store(c.next)
	a.metrics.Watch(backend{a})
	declareBounds(a.metrics)
	if o.LogBuffer != nil {
		o.LogBuffer.Tell(func(lines int64) { a.metrics.Count("weir_bound_reached_total", int(lines), boundLog) }, func(lines int64) {
			o.Log.Warn("lines of the log were dropped: the program that reads it was too slow", "lines", lines)
		})
	}
	return a, nil
}

// Start opens what the configuration names and serves. When it fails, everything is closed again. An App is started
// once; ctx is only asked whether to begin at all.
func (a *App) Start(ctx context.Context) (err error) {
	a.work.Lock()
	defer a.work.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.state.Load() != starting || !a.started.IsZero() {
		return ErrStarted
	}
	a.started = a.opts.Clock.Now()
	g := a.current.Load()
	if a.opts.Logging != nil {
		a.opts.Logging(g.cfg.Log)
	}
	var undo undoList
	defer func() {
		if err != nil {
			a.state.Store(stopping)
			undo.run()
		}
	}()
	if err := makeFolder(g.cfg.Data); err != nil {
		return err
	}
	// The control socket comes first: when another weir runs here, that is what should be said, not which port it has
	// taken.
	if err := g.control.Listen(); err != nil {
		return err
	}
	undo.add(func() { g.control.Stop(ended()) })
	if err := a.openAccess(g); err != nil {
		return err
	}
	undo.add(func() { a.closeAccess(g.access) })
	if g.tracer != nil {
		g.tracer.Start()
		undo.add(func() { g.tracer.Close(ended()) })
	}
	k, err := a.openStore(ctx, g.cfg.Data)
	if err != nil {
		return err
	}
	a.kept.Store(k)
	undo.add(func() { a.closeStore(ended()) })
	if err := a.keepSecret(g); err != nil {
		return err
	}
	if err := a.admitOperators(ctx, k, g); err != nil {
		return err
	}
	if err := a.joinFarm(g); err != nil {
		return err
	}
	undo.add(func() { a.leaveFarm(ended()) })
	if err := a.startPost(ctx, k, g); err != nil {
		return err
	}
	undo.add(func() { a.stopPost(ended()) })
	for _, p := range g.parts() {
		if err := p.Listen(); err != nil {
			return err
		}
		undo.add(func() { p.Stop(ended()) })
	}
	for _, gt := range g.gates {
		undo.add(func() { gt.Stop(ended()) })
		if err := gt.Listen(); err != nil {
			return err
		}
	}
	undo.add(func() { closePackets(g) })
	if err := a.attachPackets(g); err != nil {
		return err
	}
	a.shadowPackets(g)
	g.control.Start()
	for _, p := range g.parts() {
		p.Start()
	}
	for _, gt := range g.gates {
		gt.Start()
	}
	a.running = true
	a.state.CompareAndSwap(starting, serving) // unless somebody waits to stop it
	a.reloads.took(a.started)
	a.history.watch()
	a.changed("started", a.opts.Version)
	a.notices.apply(g.cfg)
	a.announce(g)
	return nil
}

// announce logs where weir can be reached.
func (a *App) announce(g *generation) {
	for _, gt := range g.gates {
		v := gt.view(a.started)
		a.opts.Log.Info("gate serves", "gate", v.Gate, "kind", v.Kind, "address", v.Address, "upstream", v.Upstream,
			"accept", strings.Join(v.Accept, ", "),
			"throttles", strings.Join(v.Throttles, ", "))
	}
	for _, address := range a.opts.Sockets.Untaken() {
		a.opts.Log.Warn("a socket was handed over that no gate listens on: clients that connect there get no answer",
			"address", address)
	}
	if g.console != nil {
		a.opts.Log.Info("console serves", "address", g.console.Addr().String())
	}
	if g.pages != nil {
		a.opts.Log.Info("pages of mail users serve", "address", g.pages.Addr().String(), "url", g.cfg.SelfService.URL)
	}
	a.opts.Log.Info("ready", "version", a.opts.Version, "control", g.control.Path())
}

// Stop ends the App: the gates take nobody new and finish what is under way, until ctx ends; then everything is closed,
// in the reverse order of Start. The console says "not ready" meanwhile. A second call waits for the first and returns
// the same.
func (a *App) Stop(ctx context.Context) error {
	a.stop.Do(func() {
		a.state.Store(stopping)
		// A start or reload under way finishes first. The lock is released again: a command that waits for it is told
		// that weir is stopping.
		if !a.work.lockUntil(ctx) {
			a.stopErr = ErrBusy
			return
		}
		running := a.running
		a.work.Unlock()
		if running {
			a.notices.stop(ctx)
			a.users.stop()
			a.stopErr = a.takeDown(ctx)
		}
		a.giveUp()
		a.pace.Stop()
		a.history.stop()
	})
	return a.stopErr
}

func (a *App) takeDown(ctx context.Context) error {
	g := a.current.Load()
	a.opts.Log.Info("stopping")
	a.changed("stopping", "")
	errs := stopGates(ctx, g.gates)
	closePackets(g)
	release := context.AfterFunc(ctx, a.giveUp)
	a.background.Wait()
	release()
	a.closeAccess(g.access)
	closeTracer(g.tracer)
	for _, p := range g.parts() {
		errs = append(errs, p.Stop(ctx))
	}
	errs = append(errs, g.control.Stop(ctx), a.stopPost(ctx), a.leaveFarm(ctx))
	g.closeCarriers(ctx)
	errs = append(errs, a.closeStore(ctx))
	err := errors.Join(errs...)
	if err != nil {
		a.opts.Log.Warn("stopped before everything was done", "err", err)
	} else {
		a.opts.Log.Info("stopped")
	}
	return err
}

// closePackets lets go of the network interfaces. The limits stay in the kernel, so that a restart forgets nothing.
func closePackets(g *generation) {
	for _, p := range g.packets {
		p.feed.stop()
		p.gate.Close()
	}
}

// stopGates drains gates side by side: they share one deadline.
func stopGates(ctx context.Context, gates []*gate) []error {
	errs := make([]error, len(gates))
	var all sync.WaitGroup
	for i, gt := range gates {
		all.Go(func() {
			if err := gt.Stop(ctx); err != nil {
				errs[i] = fmt.Errorf("gate %s: %w", gt.listen, err)
			}
		})
	}
	all.Wait()
	return errs
}

// PagesAddr returns the address of the pages of mail users, or nil.
func (a *App) PagesAddr() net.Addr {
	if p := a.current.Load().pages; p != nil {
		return p.Addr()
	}
	return nil
}

// Addr returns the address of the i-th gate of a kind, such as "http", or nil.
func (a *App) Addr(kind string, i int) net.Addr {
	for _, gt := range a.current.Load().gates {
		if gt.kind != kind {
			continue
		}
		if i == 0 {
			return gt.Addr()
		}
		i--
	}
	return nil
}

// ConsoleAddr returns the address of the console, or nil.
func (a *App) ConsoleAddr() net.Addr {
	if c := a.current.Load().console; c != nil {
		return c.Addr()
	}
	return nil
}

// ControlPath returns where the control socket is.
func (a *App) ControlPath() string { return a.current.Load().cfg.Control }

// A latch is a lock that can be waited for until a context ends. It is made with room for one.
type latch chan struct{}

func (t latch) Lock()   { t <- struct{}{} }
func (t latch) Unlock() { <-t }

// lockUntil reports whether it has the lock.
func (t latch) lockUntil(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	default:
	}
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// ended returns a context that is over, for taking down what has not served anybody.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// An undoList is run backwards when something fails half way.
type undoList []func()

func (u *undoList) add(f func()) { *u = append(*u, f) }

func (u undoList) run() {
	for i := len(u) - 1; i >= 0; i-- {
		u[i]()
	}
}
