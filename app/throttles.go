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
	"weir/policy"
	"weir/quota"
)

// A throttle is one throttle of a generation. It does not change: a reload makes a new one around the same mechanism.
type throttle struct {
	name   string
	kind   string
	link   *policy.Link
	config config.Throttle
	quota  *quota.Quota // when kind is quota
}

// mechanism is what the table below makes of one entry of the configuration.
type mechanism struct {
	kind  string
	judge weir.Throttle
	quota *quota.Quota
}

// build is the table of mechanisms: it makes the one that an entry names.
func build(c config.Throttle) (mechanism, error) {
	switch {
	case c.Quota != nil:
		q, err := quota.New(*c.Quota)
		return mechanism{kind: "quota", judge: q, quota: q}, weir.Under("quota", err)
	}
	return mechanism{}, &weir.FieldError{Msg: "no mechanism is named", Hint: "add quota: {…}"}
}

// kindOf names the mechanism of an entry.
func kindOf(c config.Throttle) string {
	switch {
	case c.Quota != nil:
		return "quota"
	}
	return ""
}

// validate checks the options of a mechanism that is kept.
func validate(c config.Throttle) error {
	switch {
	case c.Quota != nil:
		return weir.Under("quota", c.Quota.Validate())
	}
	return nil
}

// configure gives a mechanism new options. On an error it has the old ones.
func (t *throttle) configure(c config.Throttle, now time.Time) error {
	switch {
	case t.quota != nil:
		return t.quota.Configure(*c.Quota, now)
	}
	return nil
}

// retire lets everybody go who waits in a throttle that is no longer configured.
func (t *throttle) retire(now time.Time) {
	if t.quota != nil {
		t.quota.Retire(now)
	}
}

// sameOptions reports whether two entries ask for the same mechanism with the same options.
func sameOptions(a, b config.Throttle) bool { return reflect.DeepEqual(a.Quota, b.Quota) }

// view is the throttle as the console sees it.
func (t *throttle) view() console.Throttle {
	v := console.Throttle{Link: t.link, Kind: t.kind}
	if t.quota != nil {
		s := t.quota.Stats()
		v.Table = &console.Table{Accounts: s.Accounts, Waiting: s.Waiting, Strangers: s.Strangers}
	}
	return v
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
		if t := c.next.throttle(old.name); t == nil || t.kind != old.kind {
			c.retired = append(c.retired, old)
		}
	}
	return errors.Join(errs...)
}

func (c *change) prepareThrottle(name string, cfg config.Throttle) (*throttle, error) {
	old := c.old.throttle(name)
	if old != nil && old.kind == kindOf(cfg) {
		if err := validate(cfg); err != nil {
			return nil, err
		}
		t := *old
		link := *old.link // in-flight requests still hold the old one: what changes goes into a copy
		link.OnError = cfg.OnError
		t.link, t.config = &link, cfg
		if !sameOptions(old.config, cfg) {
			c.configure = append(c.configure, reconfigured{old, cfg})
		}
		c.shadow(old, &t)
		return &t, nil
	}
	m, err := build(cfg)
	if err != nil {
		return nil, err
	}
	link := policy.NewLink(name, m.judge, cfg.OnError)
	link.Shadow.Store(cfg.Shadow)
	t := &throttle{name: name, kind: m.kind, link: link, config: cfg, quota: m.quota}
	if old != nil { // another mechanism under the same name: its series go on
		link.Counts, link.Shadow = old.link.Counts, old.link.Shadow
		c.shadow(old, t)
	}
	if clocked, ok := m.judge.(weir.Clocked); ok {
		c.app.pace.start(clocked)
	}
	return t, nil
}

// shadow applies what the configuration says about shadow, if it says something else than before: what an operator has switched
// since stays.
func (c *change) shadow(old, next *throttle) {
	if old.config.Shadow != next.config.Shadow {
		c.commit = append(c.commit, func() { next.link.Shadow.Store(next.config.Shadow) })
	}
}

// chain makes the chain of one gate.
func (c *change) chain(names []string) (*policy.Chain, error) {
	var links []*policy.Link
	for i, name := range names {
		t := c.next.throttle(name)
		if t == nil {
			return nil, &weir.FieldError{Path: fmt.Sprintf("throttles[%d]", i), Msg: fmt.Sprintf("there is no throttle %q", name)}
		}
		links = append(links, t.link)
	}
	chain, err := policy.New(links, c.app.failures.note)
	return chain, weir.Under("throttles", err)
}
