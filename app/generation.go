package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/config"
	"weir/console"
	"weir/traces"
)

// A generation is everything that one configuration made. It does not change once it is in effect, so that readers
// never see half of two configurations.
type generation struct {
	cfg       *config.Config
	throttles []*throttle // by name
	gates     []*gate
	packets   []*packets
	console   *console.Server      // nil when it is off
	pages     *console.SelfService // nil when they are off
	control   *console.Control
	proxies   networks // that gates trust
	access    *accessLog
	tracer    *traces.Tracer // nil where there are no traces
	print     string         // the fingerprint of the configuration, in a farm
}

// isProxy reports whether some gate trusts an address as a proxy.
func (g *generation) isProxy(addr netip.Addr) bool {
	return addr.IsValid() && g.proxies.overlap(netip.PrefixFrom(addr, addr.BitLen()))
}

// throttle returns the throttle of a name, or nil.
func (g *generation) throttle(name string) *throttle {
	i, found := slices.BinarySearchFunc(g.throttles, name,
		func(t *throttle, name string) int { return cmp.Compare(t.name, name) })
	if !found {
		return nil
	}
	return g.throttles[i]
}

// A change is the way from one generation to the next. Everything that can fail is done while preparing; then it is
// committed or undone.
type change struct {
	app       *App
	old, next *generation
	live      bool // the old generation serves: what is new must be opened before it is promised

	undo      undoList       // when something fails
	configure []reconfigured // throttles to give new options to; the last thing that can fail
	commit    []func()       // when nothing did
	retired   []*throttle    // no longer in use
	removed   []*gate        // no longer in use
	closed    []stopper      // console and control that were replaced
}

// reconfigured is a throttle that gets new options.
type reconfigured struct {
	*throttle
	next config.Throttle
}

// prepare makes everything that a configuration asks for, beside what there is. When it fails, it has left nothing
// behind.
func (a *App) prepare(cfg *config.Config) (*change, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &change{app: a, old: a.current.Load(), next: &generation{}, live: a.state.Load() == serving}
	full := cfg.WithDefaults()
	c.next.cfg, a.coming = &full, &full
	c.next.proxies = newNetworks(full.TrustedProxies())
	c.next.print = fingerprint(full)
	for _, step := range []func() error{c.prepareFolder, c.prepareAccess, c.prepareTraces, c.prepareBans,
		c.prepareCountries, c.prepareThrottles, c.prepareFarm, c.prepareCounters,
		c.prepareConsole, c.preparePages, c.prepareControl,
		c.prepareGates, c.prepareRooms, c.deliverBy, c.preparePackets} {
		if err := step(); err != nil {
			c.undo.run()
			return nil, err
		}
	}
	return c, nil
}

// A part is the console, the pages of mail users, or the control socket.
type part interface {
	stopper
	Listen() error
	Start()
}

// parts are the console and the pages, where there are any.
func (g *generation) parts() (all []part) {
	if g.console != nil {
		all = append(all, g.console)
	}
	if g.pages != nil {
		all = append(all, g.pages)
	}
	return all
}

// keepPart keeps a part that stays, as nobody can bind its address twice. Otherwise the old one is closed, and another
// one made if there is to be one.
func keepPart[P interface {
	comparable
	part
}](c *change, old P, stays, wanted bool, make func() (P, error)) (next P, err error) {
	var none P
	switch {
	case stays && wanted && old != none:
		return old, nil
	case old != none:
		c.closed = append(c.closed, old)
	}
	if !wanted {
		return none, nil
	}
	if next, err = make(); err != nil {
		return none, err
	}
	if c.live {
		if err := next.Listen(); err != nil {
			return none, err
		}
		c.undo.add(func() { next.Stop(ended()) })
		c.commit = append(c.commit, next.Start)
	}
	return next, nil
}

func (c *change) prepareConsole() (err error) {
	old, o, a := c.old.console, c.next.cfg.Console, c.app
	stays := old != nil && o.Listen == c.old.cfg.Console.Listen
	c.next.console, err = keepPart(c, old, stays, o.Enabled(), func() (*console.Server, error) {
		return console.New(o, backend{a}, a.metrics, a.opts.Log)
	})
	if c.live && o.Enabled() && old == nil {
		c.commit = append(c.commit, a.firstOperatorNow)
	}
	if err == nil && stays && o.Enabled() {
		var configure func()
		if configure, err = old.Prepare(o); err == nil {
			c.commit = append(c.commit, configure)
		}
	}
	return err
}

func (c *change) preparePages() (err error) {
	old, o, a := c.old.pages, c.next.cfg.SelfService, c.app
	stays := old != nil && o.Listen == c.old.cfg.SelfService.Listen
	c.next.pages, err = keepPart(c, old, stays, o.Enabled(), func() (*console.SelfService, error) {
		return console.NewSelfService(o, selfService{a}, newSecret(), a.metrics, a.opts.Log), nil
	})
	if stays && o.Enabled() {
		c.commit = append(c.commit, func() { old.Configure(o) })
	}
	return err
}

func (c *change) prepareControl() (err error) {
	old, path, a := c.old.control, c.next.cfg.Control, c.app
	c.next.control, err = keepPart(c, old, old != nil && old.Path() == path, true, func() (*console.Control, error) {
		return console.NewControl(path, backend{a}, a.metrics, a.opts.Log), nil
	})
	return err
}

// A stopper can be taken down. It gives up its address before, by Unlisten.
type stopper interface {
	Unlisten()
	Stop(context.Context) error
}

// reloadRecord is what status says about reloads.
type reloadRecord struct {
	mu     sync.Mutex
	status console.ConfigStatus
}

// took notes that a configuration took effect; the first one is no reload.
func (r *reloadRecord) took(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.status.Loaded.IsZero() {
		r.status.Reloads++
	}
	r.status.Loaded, r.status.LastError = now, ""
}

func (r *reloadRecord) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Failed++
	r.status.LastError = err.Error()
}

func (r *reloadRecord) get() console.ConfigStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// Reread loads the configuration by Options.Load and reloads it.
func (a *App) Reread() error {
	if a.opts.Load == nil {
		return errors.New("this weir was started without a file to read again")
	}
	a.reading.Lock() // or what was read first could take effect last
	defer a.reading.Unlock()
	cfg, err := a.opts.Load()
	if err != nil {
		a.reloadFailed(err)
		return err
	}
	return a.Reload(cfg)
}

// Reload changes the configuration of an App that serves. It applies completely or not at all: what can fail is done
// first, and undone when something else fails. Requests under way are not disturbed; the counters of throttles that
// keep their name stay.
func (a *App) Reload(cfg *config.Config) error {
	err := a.reload(cfg)
	if err != nil {
		a.reloadFailed(err)
	}
	return err
}

func (a *App) reloadFailed(err error) {
	a.metrics.Count("weir_reloads_total", 1, "failed")
	a.reloads.failed(err)
	a.changed("reload-failed", err.Error())
	a.opts.Log.Error("reload failed, nothing was changed", "err", err)
}

// NotUpgraded says that a new binary could not take the place of this one.
func (a *App) NotUpgraded(err error) {
	a.upgrade.Store(&console.UpgradeStatus{Failed: a.opts.Clock.Now(), Error: err.Error()})
	a.changed("upgrade-failed", err.Error())
	a.opts.Log.Error("no upgrade: this weir goes on", "err", err)
}

func (a *App) reload(cfg *config.Config) error {
	a.work.Lock()
	defer a.work.Unlock()
	if a.state.Load() != serving {
		return ErrNotServing
	}
	c, err := a.prepare(cfg)
	if err != nil {
		return err
	}
	now := a.clock.Now()
	if err := c.configureThrottles(now); err != nil {
		c.undo.run()
		return err
	}
	for _, t := range c.next.throttles {
		t.link.DeclareRules()
	}
	for _, f := range c.commit {
		f()
	}
	a.current.Store(c.next)
	a.applySettings()
	a.history.watch()
	a.notices.apply(c.next.cfg)
	if a.opts.Logging != nil {
		a.opts.Logging(c.next.cfg.Log)
	}
	a.leaveBehind(c)
	a.metrics.Count("weir_reloads_total", 1, "ok")
	a.reloads.took(now)
	a.changed("reloaded", c.summary())
	a.opts.Log.Info("reloaded", "gates", len(c.next.gates), "throttles", len(c.next.throttles), "changed",
		len(c.configure),
		"removed_gates", len(c.removed), "removed_throttles", len(c.retired))
	return nil
}

// summary says in a few words what a reload changed.
func (c *change) summary() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{len(c.configure), "throttles with other options"}, {len(c.retired), "throttles removed"},
		{len(c.removed), "gates removed"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// configureThrottles gives new options to the throttles that are kept. They were checked before, so a failure is
// unexpected; the throttles that were changed already then get their old options back.
func (c *change) configureThrottles(now time.Time) error {
	for i, r := range c.configure {
		err := r.configure(r.next, now)
		if err == nil {
			continue
		}
		err = fmt.Errorf("throttle %s: %w", r.name, err)
		for _, done := range c.configure[:i] {
			if back := done.configure(done.config, now); back != nil {
				err = errors.Join(err, fmt.Errorf("throttle %s cannot go back to its old options: %w", done.name, back))
			}
		}
		return err
	}
	return nil
}

// leaveBehind takes down what the new generation does not use, in the background: requests may be under way in a gate
// for long, and the reload itself may have come through the control socket that is to be closed. Addresses are free at
// once, as the next reload may want them.
func (a *App) leaveBehind(c *change) {
	if len(c.removed)+len(c.retired)+len(c.closed) == 0 {
		return
	}
	if len(c.removed) == 0 { // no chain is left that asks them: whoever waits there may go
		a.retire(c.retired)
		c.retired = nil
	}
	for _, s := range c.closed {
		s.Unlisten()
	}
	for _, gt := range c.removed {
		gt.Unlisten()
	}
	a.background.Go(func() {
		ctx, cancel := context.WithTimeout(a.retreat, a.opts.Drain)
		defer cancel()
		var doors sync.WaitGroup
		for _, s := range c.closed {
			doors.Go(func() { s.Stop(ctx) })
		}
		if err := errors.Join(stopGates(ctx, c.removed)...); err != nil {
			a.opts.Log.Warn("a removed gate was closed before everything was done", "err", err)
		}
		doors.Wait()
		for _, gt := range c.removed {
			a.forget(gt)
			if s, ok := gt.state.(interface{ retire() }); ok {
				s.retire()
			}
		}
		a.retire(c.retired)
	})
}

func (a *App) retire(all []*throttle) {
	for _, t := range all {
		if t.retire != nil {
			t.retire(a.clock.Now())
		}
	}
}

// seriesOf says which kinds of metrics have series of a kind of gates.
var seriesOf = map[string][]string{"http": {"http"}, "tcp": {"tcp"}, "udp": {"tcp"}, "smtp": {"smtp", "mail"},
	"postfix": {"postfix"}, "auth": {"auth"}, "rls": {"rls"}}

// forget drops the series of a gate, unless there is a new one of the same name.
func (a *App) forget(gone *gate) {
	for _, gt := range a.current.Load().gates {
		if gt.kind == gone.kind && gt.label == gone.label {
			return
		}
	}
	for _, kind := range seriesOf[gone.kind] {
		a.metrics.Forget(kind, "gate", gone.label)
	}
	for _, name := range gone.status.Policies {
		a.metrics.Forget("api", "policy", name)
	}
}
