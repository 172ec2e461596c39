package app

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/policy"
	"weir/throttle/quota"
	"weir/throttle/stamp"
)

// A throttle is one throttle of a generation. It does not change: a reload makes a new one around the same mechanism.
type throttle struct {
	name   string
	kind   string
	link   *policy.Link
	config config.Throttle
	*mechanism
}

// accounts returns the quota behind a throttle, or nil.
func (t *throttle) accounts() *quota.Quota {
	q, _ := t.judge.(*quota.Quota)
	return q
}

// stamps returns what takes stamps behind a throttle, or nil.
func (t *throttle) stamps() *stamp.Throttle {
	s, _ := t.judge.(*stamp.Throttle)
	return s
}

// reach returns what watches users' recipients behind a throttle, or nil.
func (t *throttle) reach() *reachJudge {
	d, _ := t.judge.(*reachJudge)
	return d
}

// judgesMail reports whether the spool runs the throttle itself.
func (t *throttle) judgesMail() bool { return t.reach() != nil || t.config.Mail != nil }

// sameMechanism reports whether the mechanism of one entry can take the options of another.
func sameMechanism(a, b config.Throttle) bool {
	k, _ := kindOf(a)
	other, _ := kindOf(b)
	return k.name == other.name && (k.fits == nil || k.fits(a, b))
}

// sameOptions reports whether two entries of one kind have the same options. What stands in files may have changed.
func sameOptions(a, b config.Throttle) bool {
	_, old := a.Mechanism()
	_, next := b.Mechanism()
	if o, ok := next.(interface{ ReadsFiles() bool }); ok && o.ReadsFiles() {
		return false
	}
	return reflect.DeepEqual(old, next)
}

// watchedLink is a link that remembers who is held back.
func (a *App) watchedLink(name string, t weir.Throttle, onError policy.OnError) *policy.Link {
	l := policy.NewLink(name, t, onError)
	l.Watch = new(policy.Watch)
	return l
}

// naming is how a throttle tells clients apart.
func naming(c config.Throttle) policy.Naming {
	switch {
	case c.Bloom != nil:
		o := c.Bloom.WithDefaults()
		n := policy.Naming{Sources: true, V4: o.V4}
		if len(o.V6) > 0 {
			n.V6 = o.V6[0] // the smallest networks
		}
		return n
	case c.Stamp != nil:
		return policy.Naming{Sources: true, Payers: true}
	}
	return policy.Naming{}
}

// view is the throttle as the console sees it.
func (t *throttle) view() console.Throttle {
	v := console.Throttle{Link: t.link, Kind: t.kind}
	if t.show != nil {
		t.show(t.config, &v)
	}
	return v
}

// prepareThrottles makes the throttles of the next generation: those that are kept, and new ones.
func (c *change) prepareThrottles() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.next.cfg.Throttles)) {
		t, err := c.prepareThrottle(name, c.app.signed(c.next.cfg, name))
		if err != nil {
			errs = append(errs, weir.Under("throttles."+name, err))
			continue
		}
		c.next.throttles = append(c.next.throttles, t)
	}
	for _, old := range c.old.throttles {
		if t := c.next.throttle(old.name); t == nil || t.mechanism != old.mechanism {
			c.retired = append(c.retired, old)
		}
	}
	return errors.Join(errs...)
}

func (c *change) prepareThrottle(name string, cfg config.Throttle) (*throttle, error) {
	old := c.old.throttle(name)
	k, o := kindOf(cfg)
	if o == nil {
		return nil, &weir.FieldError{Msg: "no mechanism is named"}
	}
	if old != nil && sameMechanism(old.config, cfg) {
		if err := o.Validate(); err != nil {
			return nil, weir.Under(k.name, err)
		}
		t := *old
		link := *old.link // in-flight requests still hold the old one: what changes goes into a copy
		link.OnError, link.Names = cfg.OnError, naming(cfg)
		if cfg.Quota != nil {
			link.Parts, link.CostHeader = cfg.Quota.Parts(), cfg.Quota.CostHeader()
		}
		t.link, t.config = &link, cfg
		if !sameOptions(old.config, cfg) {
			c.configure = append(c.configure, reconfigured{old, cfg})
		}
		c.shadow(old, &t)
		return &t, nil
	}
	m, err := k.build(o, c.app.clock.Now())
	if err != nil {
		return nil, weir.Under(k.name, err)
	}
	link := c.app.watchedLink(name, m.judge, cfg.OnError)
	link.Names = naming(cfg)
	link.Shadow.Store(c.app.newShadow(name, cfg.Shadow))
	link.Told = c.app.exceeded(name, m.judge)
	t := &throttle{name: name, kind: k.name, link: link, config: cfg, mechanism: m}
	c.app.applyLimits([]*throttle{t})
	if old != nil { // another mechanism under the same name: its series go on
		link.Counts, link.Shadow, link.Watch = old.link.Counts, old.link.Shadow, old.link.Watch
		c.shadow(old, t)
	}
	if m.enter != nil {
		m.enter(c.app, name, link.Shadow)
	}
	c.undo.add(func() { c.app.retire([]*throttle{t}) }) // or it would be advanced for ever
	if clocked, ok := m.judge.(weir.Clocked); ok {
		c.app.pace.Start(clocked)
	}
	return t, nil
}

// shadow applies what the configuration says about shadow, if it says something else than before: what an operator has
// switched since stays.
func (c *change) shadow(old, next *throttle) {
	if old.config.Shadow != next.config.Shadow {
		c.commit = append(c.commit, func() { c.app.ownShadow(next.name, next.link, next.config.Shadow) })
	}
}

// mailChain makes the chain of a list of throttles that judge mail. What the spool asks itself is left out.
func (c *change) mailChain(at *policy.GateFigures, path string, names []string) (*policy.Chain, error) {
	return c.chain(at, path, slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		t := c.next.throttle(name)
		return t != nil && t.judgesMail()
	}))
}

// chain makes the chain of a list of throttles, which stands at a gate, and in the configuration at a path. What comes
// last is asked after all of them.
func (c *change) chain(at *policy.GateFigures, path string, names []string, last ...*policy.Link) (*policy.Chain,
	error) {
	links := []*policy.Link{c.app.bans.link} // who is not served is asked nothing else
	for i, name := range names {
		t := c.next.throttle(name)
		if t == nil {
			return nil, &weir.FieldError{Path: fmt.Sprintf("%s[%d]", path, i),
				Msg: fmt.Sprintf("there is no throttle %q", name)}
		}
		links = append(links, t.link)
	}
	links = append(links, last...)
	chain, err := policy.New(links, c.app.failures.note)
	if err != nil {
		return nil, weir.Under(path, err)
	}
	chain.At(at)
	return chain, nil
}

// failurePause is how long a failing throttle is not logged again: the metric counts every failure.
const failurePause = 10 * time.Second

// failures logs throttles that fail, without letting one that fails at every event fill the disk.
type failures struct {
	clock clock.Clock
	log   *slog.Logger

	mu   sync.Mutex
	last map[string]*failure // by throttle
}

type failure struct {
	logged time.Time
	since  int
}

// note is told of every failure.
func (f *failures) note(throttle string, err error) {
	now := f.clock.Now()
	f.mu.Lock()
	one := f.last[throttle]
	if one == nil {
		one = &failure{}
		f.last[throttle] = one
	}
	one.since++
	if !one.logged.IsZero() && now.Sub(one.logged) < failurePause {
		f.mu.Unlock()
		return
	}
	since := one.since
	one.logged, one.since = now, 0
	f.mu.Unlock()
	f.log.Error("throttle failed", "throttle", throttle, "failures", since, "err", err)
}
