package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"weir/config"
	"weir/console"
)

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
