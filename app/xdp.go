package app

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"

	"weir"
	"weir/config"
	"weir/console"
	skeleton "weir/gate"
	"weir/gate/xdpgate"
	"weir/policy"
)

// A packets is the limiter of one network interface in a generation.
type packets struct {
	options xdpgate.Options
	gate    *xdpgate.Gate
	link    *policy.Link // as if it were a throttle: for counts and shadow
	feed    *feed        // of the block list; nil when no packets are limited
	off     error        // why no packets are limited; nil when they are
}

// name is what the limiter is called beside the throttles. No throttle has a colon in its name.
func (p *packets) name() string { return "xdp:" + p.options.Interface }

// attach puts the program on its interface and the bans into its list. Where this process or system cannot limit
// packets, weir logs what is missing and runs without it.
func (a *App) attach(p *packets, cfg *config.Config) error {
	err := p.gate.Attach()
	_, nowhere := errors.AsType[*xdpgate.NoFileSystem](err)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) || nowhere {
		name := p.options.Interface
		a.opts.Log.Error("NO PACKETS ARE LIMITED on "+name+"; what an earlier weir left in the kernel stays as it is",
			"interface", name, "err", err)
		p.off = err
		return nil
	}
	if err == nil {
		p.feed = a.feedKernel(p.gate, p.options.Interface, a.kernelRules(cfg))
	}
	return err
}

// attachPackets attaches every limiter of a generation, removes what an earlier weir has left of interfaces that are
// gone, and logs the limiters that it has left running.
func (a *App) attachPackets(g *generation) error {
	pins := map[string][]string{}
	for i, p := range g.packets {
		if err := a.attach(p, g.cfg); err != nil {
			return weir.Under(fmt.Sprintf("xdp[%d]", i), err)
		}
		pins[p.options.Pin] = append(pins[p.options.Pin], p.options.Interface)
	}
	if len(pins) == 0 {
		pins[xdpgate.DefaultPin] = nil
	}
	for pin, ours := range pins {
		a.removeDead(pin)
		left, err := xdpgate.List(pin)
		if err != nil {
			continue // where nothing can be listed, nothing is limited
		}
		for _, l := range left {
			if l.Attached && !l.Held && !slices.Contains(ours, l.Interface) {
				a.opts.Log.Warn("an earlier weir still limits the packets of "+l.Interface+"; weir xdp detach "+
					l.Interface+" ends it", "pin", l.Path)
			}
		}
	}
	return nil
}

// removeDead removes the pins of interfaces that are gone.
func (a *App) removeDead(pin string) {
	removed, err := xdpgate.RemoveDead(pin)
	for _, name := range removed {
		a.opts.Log.Info("removed the limiter of an interface that is gone", "interface", name, "pin", pin)
	}
	// A weir that does not limit packets need not be allowed to ask.
	if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errors.ErrUnsupported) {
		a.opts.Log.Warn("limiters of interfaces that are gone may be left in the kernel", "pin", pin, "err", err)
	}
}

// preparePackets keeps the limiters of interfaces that stay, makes those that are new, and leaves the others behind.
func (c *change) preparePackets() error {
	rest := slices.Clone(c.old.packets)
	var errs []error
	for i, o := range c.next.cfg.XDP {
		at := slices.IndexFunc(rest, func(p *packets) bool {
			return p.options.Interface == o.Interface &&
				p.options.Pin == o.Pin
		})
		var p *packets
		var err error
		switch {
		case at < 0:
			p, err = c.newPackets(o, nil)
		case rest[at].off != nil: // what was missing may be there now
			p, err = c.newPackets(o, rest[at])
		default:
			p, err = c.keepPackets(rest[at], o)
		}
		if at >= 0 {
			rest = slices.Delete(rest, at, at+1)
		}
		if err != nil {
			errs = append(errs, weir.Under(fmt.Sprintf("xdp[%d]", i), err))
			continue
		}
		c.next.packets = append(c.next.packets, p)
	}
	for _, gone := range rest {
		c.commit = append(c.commit, func() { c.app.detach(gone) })
	}
	return errors.Join(errs...)
}

// newPackets makes a limiter. It keeps the shadow of the limiter before it, unless the configuration changed it.
func (c *change) newPackets(o xdpgate.Options, off *packets) (*packets, error) {
	p := &packets{options: o, link: policy.NewLink("xdp:"+o.Interface, nil, policy.Closed)}
	if off != nil && o.Shadow == off.options.Shadow {
		o.Shadow = off.link.Shadow.Load()
	}
	p.link.Shadow.Store(o.Shadow)
	var err error
	p.gate, err = xdpgate.New(o, xdpgate.Env{Env: skeleton.Env{Clock: c.app.clock, Log: c.app.opts.Log}})
	if err != nil || !c.live {
		return p, err
	}
	if err := c.app.attach(p, c.next.cfg); err != nil {
		return nil, err
	}
	c.undo.add(func() { c.app.detach(p) })
	return p, nil
}

// keepPackets gives a limiter new options. What an operator switched stays, unless the configuration changed it.
func (c *change) keepPackets(old *packets, o xdpgate.Options) (*packets, error) {
	p := *old
	p.options = o
	if s, err := p.gate.Stats(); reflect.DeepEqual(o, old.options) && (err != nil || s.Attach != "") {
		return &p, nil
	}
	shadow := old.link.Shadow.Load()
	if o.Shadow != old.options.Shadow {
		shadow = o.Shadow
	}
	now, before := o, old.options
	now.Shadow, before.Shadow = shadow, old.link.Shadow.Load()
	c.undo.add(func() { p.feed.configure(c.app.kernelRules(c.old.cfg)) }) // after what follows
	if err := p.gate.Configure(now); err != nil {
		return nil, err
	}
	c.undo.add(func() {
		if err := p.gate.Configure(before); err != nil {
			c.app.opts.Log.Error("the limiter cannot go back to its old options", "interface", o.Interface, "err", err)
		}
	})
	c.commit = append(c.commit, func() {
		if o.Shadow != old.options.Shadow {
			c.app.ownShadow(p.name(), p.link, shadow)
		}
	})
	return &p, nil
}

// detach ends a limiter that is no longer configured, in the kernel too.
func (a *App) detach(p *packets) {
	p.feed.stop()
	p.gate.Close()
	if p.off != nil {
		return
	}
	if err := xdpgate.Detach(p.options.Pin, p.options.Interface); err != nil {
		a.opts.Log.Error("packets are still limited", "interface", p.options.Interface, "err", err)
		return
	}
	a.opts.Log.Info("packets are no longer limited", "interface", p.options.Interface)
}

// setShadow switches the limiter, in the kernel first.
func (p *packets) setShadow(on bool) error {
	if err := p.gate.SetShadow(on); err != nil && !errors.Is(err, xdpgate.ErrNotAttached) &&
		!errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	p.link.Shadow.Store(on)
	return nil
}

// view is the limiter as the console sees it: a throttle, whose counts are in the kernel.
func (p *packets) view() console.Throttle {
	v := console.Throttle{Link: p.link, Kind: "xdp"}
	if s, err := p.gate.Stats(); err == nil {
		v.Bloom = &console.Bloom{Stats: s.Stats, AmpleBurst: int64(p.options.Bloom.AmpleBurst())}
	}
	p.count()
	return v
}

// whyNot is why no packets are limited; nil when they are.
func (p *packets) whyNot() error {
	if p.off != nil {
		return p.off
	}
	if err := p.gate.Limits(); !errors.Is(err, xdpgate.ErrClosed) { // while weir stops
		return err
	}
	return nil
}

// status is the limiter as status shows it.
func (p *packets) status() console.XDPStatus {
	s := console.XDPStatus{Interface: p.options.Interface, Mode: string(p.options.Mode), Shadow: p.link.Shadow.Load(),
		Packets: map[string]uint64{}}
	if why := p.whyNot(); why != nil {
		s.Error = "NO PACKETS ARE LIMITED: " + why.Error()
	}
	if st, err := p.gate.Stats(); err == nil {
		s.Attach, s.Bans, s.LeftOut, s.Allows = string(st.Attach), st.Bans, p.feed.left(), st.Allows
	}
	if c, err := p.gate.Counters(); err == nil {
		c.ByName(func(name string, n uint64) { s.Packets[name] = n })
	}
	return s
}
