package app

import (
	"cmp"
	"net/netip"
	"slices"

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
