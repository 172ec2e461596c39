package app

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/identify"
	"weir/policy"
	"weir/throttle/bloom"
	"weir/throttle/outbreak"
	"weir/throttle/quota"
	"weir/throttle/stamp"
)

// A throttle is one throttle of a generation. It does not change: a reload makes a new one around the same mechanism.
type throttle struct {
	name   string
	kind   string
	link   *policy.Link
	config config.Throttle
	mechanism
}

// A mechanism is what the table below makes of one entry of the configuration. One of the pointers is set.
type mechanism struct {
	judge weir.Throttle
	bloom *bloom.Limiter
	quota *quota.Quota
	stamp *stamp.Throttle
	mail  *outbreak.Options // the spool runs it
	reach *reachDesk        // … and this, where it judges mail
}

// build is the table of mechanisms: it makes the one that an entry names.
func build(c config.Throttle, now time.Time) (m mechanism, err error) {
	switch {
	case c.Bloom != nil:
		if m.bloom, err = bloom.New(*c.Bloom, now); err == nil {
			m.judge = m.bloom.Throttle()
		}
		return m, weir.Under("bloom", err)
	case c.Quota != nil:
		m.quota, err = quota.New(*c.Quota)
		m.judge = m.quota
		return m, weir.Under("quota", err)
	case c.Stamp != nil:
		m.stamp, err = stamp.NewThrottle(*c.Stamp, now, readList)
		m.judge = m.stamp
		return m, weir.Under("stamp", err)
	case c.Mail != nil:
		m.mail, m.judge = mailRules(*c.Mail), outgoing{}
		return m, weir.Under("mail", c.Mail.Validate())
	case c.Reach != nil:
		m.reach, err = newReachDesk(*c.Reach)
		m.judge = m.reach
		return m, weir.Under("reach", err)
	}
	return m, &weir.FieldError{Msg: "no mechanism is named",
		Hint: "add bloom: {…}, quota: {…}, stamp: {…}, mail: {…} or reach: {…}"}
}

// kindOf names the mechanism of an entry.
func kindOf(c config.Throttle) string {
	switch {
	case c.Bloom != nil:
		return "bloom"
	case c.Quota != nil:
		return "quota"
	case c.Stamp != nil:
		return "stamp"
	case c.Mail != nil:
		return "mail"
	case c.Reach != nil:
		return "reach"
	}
	return ""
}

// sameMechanism reports whether the mechanism of one entry can take the options of another.
func sameMechanism(a, b config.Throttle) bool {
	if a.Bloom != nil && b.Bloom != nil {
		return a.Bloom.Count == b.Bloom.Count // bytes are metered, events are not
	}
	return kindOf(a) == kindOf(b)
}

// validate checks the options of a mechanism that is kept.
func validate(c config.Throttle) error {
	switch {
	case c.Bloom != nil:
		return weir.Under("bloom", c.Bloom.Validate())
	case c.Quota != nil:
		return weir.Under("quota", c.Quota.Validate())
	case c.Stamp != nil:
		return weir.Under("stamp", c.Stamp.Validate())
	case c.Mail != nil:
		return weir.Under("mail", c.Mail.Validate())
	case c.Reach != nil:
		return weir.Under("reach", c.Reach.Validate())
	}
	return nil
}

// configure gives a mechanism new options. On an error it has the old ones.
func (m *mechanism) configure(c config.Throttle, now time.Time) error {
	switch {
	case m.bloom != nil:
		return m.bloom.Configure(*c.Bloom, now)
	case m.quota != nil:
		return m.quota.Configure(*c.Quota, now)
	case m.stamp != nil:
		return m.stamp.Configure(*c.Stamp, now, readList)
	case m.reach != nil:
		return m.reach.configure(*c.Reach)
	}
	return nil
}

// retire ends a mechanism that is no longer configured, and lets everybody go who waits in it.
func (m *mechanism) retire(now time.Time) {
	switch {
	case m.bloom != nil:
		m.bloom.Retire(now)
	case m.quota != nil:
		m.quota.Retire(now)
	}
}

// sameOptions reports whether two entries ask for the same mechanism with the same options. What stands in files may
// have changed.
func sameOptions(a, b config.Throttle) bool {
	if b.Stamp != nil && readsFiles(b.Stamp) {
		return false
	}
	return reflect.DeepEqual(a.Bloom, b.Bloom) && reflect.DeepEqual(a.Quota, b.Quota) &&
		reflect.DeepEqual(a.Stamp, b.Stamp) &&
		reflect.DeepEqual(a.Mail, b.Mail) && reflect.DeepEqual(a.Reach, b.Reach)
}

// readsFiles reports whether options name files whose contents count.
func readsFiles(o *stamp.Options) bool {
	return len(o.NeverAsk.Files) > 0 || slices.ContainsFunc(o.NeverAsk.Bots,
		func(b identify.Bot) bool { return len(b.Files) > 0 })
}

// view is the throttle as the console sees it.
func (t *throttle) view() console.Throttle {
	v := console.Throttle{Link: t.link, Kind: t.kind}
	switch {
	case t.bloom != nil:
		v.Bloom = bloomView(t.bloom.Stats())
	case t.quota != nil:
		s := t.quota.Stats()
		v.Table = &console.Table{Accounts: s.Accounts, Probation: s.Probation, Waiting: s.Waiting,
			Strangers: s.Strangers, PushedOut: s.PushedOut}
	case t.stamp != nil:
		v.Stamp = stampView(t.stamp, t.config.Stamp)
	}
	return v
}

func bloomView(s bloom.Stats) *console.Bloom {
	return &console.Bloom{
		Bytes: s.Bytes, Drained: float64(s.Drained), Collateral: float64(s.Collateral), Attackers: s.Attackers,
		Rotations: s.Rotations,
	}
}

// noticed logs what a Bloom limiter tells.
func (a *App) noticed(throttle string) func(bloom.Notice) {
	return func(n bloom.Notice) {
		log := a.opts.Log.With("throttle", throttle, "collateral", n.Collateral.Rounded(), "allowed", n.Allowed,
			"attackers", n.Attackers,
			"memory", weir.Size(n.Bytes))
		switch n.What {
		case bloom.NoticeOver:
			log.Warn("more innocent networks are refused than allowed: the table is too small for this flood")
		case bloom.NoticeGrown:
			log.Warn("larger tables are in use")
		case bloom.NoticeUnder:
			log.Info("no more innocent networks are refused than allowed")
		}
	}
}

// prepareThrottles makes the throttles of the next generation: those that are kept, and new ones.
func (c *change) prepareThrottles() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.next.cfg.Throttles)) {
		t, err := c.prepareThrottle(name, c.next.cfg.Throttles[name])
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
	cfg = c.app.signed(name, cfg)
	old := c.old.throttle(name)
	if old != nil && sameMechanism(old.config, cfg) {
		if err := validate(cfg); err != nil {
			return nil, err
		}
		t := *old
		link := *old.link // in-flight requests still hold the old one: what changes goes into a copy
		link.OnError = cfg.OnError
		t.link, t.config = &link, cfg
		if t.mail != nil {
			t.mail = mailRules(*cfg.Mail)
		}
		if !sameOptions(old.config, cfg) {
			c.configure = append(c.configure, reconfigured{old, cfg})
		}
		c.shadow(old, &t)
		return &t, nil
	}
	m, err := build(cfg, c.app.opts.Clock.Now())
	if err != nil {
		return nil, err
	}
	link := policy.NewLink(name, m.judge, cfg.OnError)
	link.Shadow.Store(cfg.Shadow)
	t := &throttle{name: name, kind: kindOf(cfg), link: link, config: cfg, mechanism: m}
	if m.bloom != nil {
		m.bloom.Notify(c.app.noticed(name))
	}
	if m.stamp != nil {
		c.app.meet(m.stamp)
	}
	if old != nil { // another mechanism under the same name: its series go on
		link.Counts, link.Shadow = old.link.Counts, old.link.Shadow
		c.shadow(old, t)
	}
	if m.reach != nil {
		m.reach.enter(c.app, name, link.Shadow)
	}
	c.undo.add(func() { t.retire(c.app.opts.Clock.Now()) }) // or it would be advanced for ever
	if clocked, ok := m.judge.(weir.Clocked); ok {
		c.app.pace.start(clocked)
	}
	return t, nil
}

// shadow applies what the configuration says about shadow, if it says something else than before: what an operator has
// switched since stays.
func (c *change) shadow(old, next *throttle) {
	if old.config.Shadow != next.config.Shadow {
		c.commit = append(c.commit, func() { next.link.Shadow.Store(next.config.Shadow) })
	}
}

// mailChain makes the chain of a list of throttles that judge mail. What the spool asks itself is left out.
func (c *change) mailChain(path string, names []string) (*policy.Chain, error) {
	return c.chain(path, slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		t := c.next.throttle(name)
		return t != nil && (t.reach != nil || t.mail != nil)
	}))
}

// chain makes the chain of a list of throttles, which stands at a path. What comes last is asked after all of them.
func (c *change) chain(path string, names []string, last ...*policy.Link) (*policy.Chain, error) {
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
	return chain, weir.Under(path, err)
}
