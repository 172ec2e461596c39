package app

import (
	"cmp"
	"net/netip"
	"slices"

	"weir/config"
	"weir/console"
)

// A generation is everything that one configuration made. Once it is in effect it does not change, so that whoever
// looks at it sees one configuration and not half of two.
type generation struct {
	cfg       *config.Config
	throttles []*throttle // by name
	gates     []*gate
	packets   []*packets
	console   *console.Server      // nil when it is off
	pages     *console.SelfService // nil when they are off
	control   *console.Control
	proxies   networks // that gates trust
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
	for _, step := range []func() error{c.prepareFolder, c.prepareBans, c.prepareThrottles, c.prepareCounters,
		c.prepareConsole, c.preparePages, c.prepareControl,
		c.prepareGates, c.deliverBy, c.preparePackets} {
		if err := step(); err != nil {
			c.undo.run()
			return nil, err
		}
	}
	return c, nil
}

// prepareConsole keeps the console where its address stays, as nobody can bind it twice.
func (c *change) prepareConsole() error {
	old, o := c.old.console, c.next.cfg.Console
	if old != nil && o.Enabled() && o.Listen == c.old.cfg.Console.Listen {
		c.next.console = old
		c.commit = append(c.commit, func() { old.Configure(o) })
		return nil
	}
	if old != nil {
		c.closed = append(c.closed, old)
	}
	if !o.Enabled() {
		return nil
	}
	s := console.New(o, backend{c.app}, c.app.metrics, c.app.opts.Log)
	if c.live {
		if err := s.Listen(); err != nil {
			return err
		}
		c.undo.add(func() { s.Stop(ended()) })
		c.commit = append(c.commit, s.Start)
	}
	c.next.console = s
	return nil
}

// preparePages keeps the pages of mail users where their address stays.
func (c *change) preparePages() error {
	old, o := c.old.pages, c.next.cfg.SelfService
	if old != nil && o.Enabled() && o.Listen == c.old.cfg.SelfService.Listen {
		c.next.pages = old
		c.commit = append(c.commit, func() { old.Configure(o) })
		return nil
	}
	if old != nil {
		c.closed = append(c.closed, old)
	}
	if !o.Enabled() {
		return nil
	}
	s := console.NewSelfService(o, selfService{c.app}, newSecret(), c.app.metrics, c.app.opts.Log)
	if c.live {
		if err := s.Listen(); err != nil {
			return err
		}
		c.undo.add(func() { s.Stop(ended()) })
		c.commit = append(c.commit, s.Start)
	}
	c.next.pages = s
	return nil
}

func (c *change) prepareControl() error {
	old, path := c.old.control, c.next.cfg.Control
	if old != nil && old.Path() == path {
		c.next.control = old
		return nil
	}
	if old != nil {
		c.closed = append(c.closed, old)
	}
	s := console.NewControl(path, backend{c.app}, c.app.metrics, c.app.opts.Log)
	if c.live {
		if err := s.Listen(); err != nil {
			return err
		}
		c.undo.add(func() { s.Stop(ended()) })
		c.commit = append(c.commit, s.Start)
	}
	c.next.control = s
	return nil
}
