package app

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/identify/country"
	"weir/internal/clock"
	"weir/policy"
	"weir/throttle/bloom"
	"weir/throttle/outbreak"
	"weir/throttle/quota"
	"weir/throttle/reach"
	"weir/throttle/stamp"
)

// A mechanism is what decides behind a throttle, and what app does with it. What is nil is not done.
type mechanism struct {
	judge     weir.Throttle
	configure func(c config.Throttle, now time.Time) error     // never nil; an error changes nothing
	retire    func(now time.Time)                              // releases those who wait in it
	enter     func(a *App, name string, shadow *policy.Switch) // tells it, once, about its throttle
	show      func(c config.Throttle, v *console.Throttle)     // fills in what the console shows of it
}

// A kind is what app adds to one mechanism.
type kind struct {
	name  string
	build func(config.Options, time.Time) (*mechanism, error)
	fits  func(old, next config.Throttle) bool // whether a mechanism can take other options; nil: it always can
}

// kinds are the mechanisms that need more of app than to be made. The configuration has all of them; one whose options
// are a weir.Maker needs no row here.
func kinds() []kind {
	return []kind{
		{"bloom", of(newBloom), sameCount},
		{"quota", of(newQuota), nil},
		{"stamp", of(newStamp), nil},
		{"mail", of(newMail), nil},
		{"reach", of(newReach), nil},
	}
}

// of builds a mechanism by options of its own type.
func of[O any](build func(O, time.Time) (*mechanism, error)) func(config.Options, time.Time) (*mechanism, error) {
	return func(o config.Options, now time.Time) (*mechanism, error) { return build(*any(o).(*O), now) }
}

// made builds a mechanism that needs nothing but its options.
func made(o config.Options, now time.Time) (*mechanism, error) {
	maker, ok := o.(weir.Maker)
	if !ok {
		return nil, fmt.Errorf("no way is known to make a throttle of %T", o)
	}
	t, err := maker.Make(now)
	if err != nil {
		return nil, err
	}
	m := &mechanism{judge: t, configure: func(c config.Throttle, now time.Time) error {
		_, o := c.Mechanism()
		return o.(weir.Maker).Renew(t, now)
	}}
	if r, ok := t.(interface{ Retire(time.Time) }); ok {
		m.retire = r.Retire
	}
	return m, nil
}

// kindOf returns the kind of an entry, and its options.
func kindOf(c config.Throttle) (kind, config.Options) {
	name, o := c.Mechanism()
	for _, k := range kinds() {
		if k.name == name {
			return k, o
		}
	}
	return kind{name: name, build: made}, o
}

func newBloom(o bloom.Options, now time.Time) (*mechanism, error) {
	l, err := bloom.New(o, now)
	if err != nil {
		return nil, err
	}
	return &mechanism{judge: l.Throttle(), retire: l.Retire,
		configure: func(c config.Throttle, now time.Time) error { return l.Configure(*c.Bloom, now) },
		enter:     func(a *App, name string, _ *policy.Switch) { l.Notify(a.noticed(name)) },
		show: func(c config.Throttle, v *console.Throttle) {
			v.Bloom = &console.Bloom{Stats: l.Stats(), AmpleBurst: int64(c.Bloom.AmpleBurst())}
		}}, nil
}

// sameCount: bytes are metered, and events are not.
func sameCount(old, next config.Throttle) bool { return old.Bloom.Count == next.Bloom.Count }

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

func newQuota(o quota.Options, now time.Time) (*mechanism, error) {
	m, err := made(&o, now)
	if err != nil {
		return nil, err
	}
	m.enter = func(a *App, _ string, _ *policy.Switch) { m.judge.(*quota.Quota).Locate(a.countryOf) }
	m.show = func(_ config.Throttle, v *console.Throttle) {
		s := m.judge.(*quota.Quota).Stats()
		v.Table = &console.Table{Accounts: s.Accounts, Probation: s.Probation, Waiting: s.Waiting,
			Strangers: s.Strangers, PushedOut: s.PushedOut, Capped: s.Capped}
		if f := s.Farm; f != nil {
			v.Table.Farm = &console.Told{Told: f.Told, Heard: f.Heard, Ignored: f.Unknown}
		}
		if l := s.Lent; l != nil {
			v.Table.Lent = &console.Lent{Calls: l.Calls, Failed: l.Failed, Denied: l.Denied, Waited: l.Waited,
				Held: l.Held, Crowded: l.Crowded, Kept: l.Kept}
		}
	}
	return m, nil
}

func newStamp(o stamp.Options, now time.Time) (*mechanism, error) {
	t, err := stamp.NewThrottle(o, now, readList)
	return &mechanism{judge: t,
		configure: func(c config.Throttle, now time.Time) error { return t.Configure(*c.Stamp, now, readList) },
		enter: func(a *App, _ string, shadow *policy.Switch) {
			t.Follow(shadow.Load)
			a.meet(t)
		},
		show: func(c config.Throttle, v *console.Throttle) { v.Stamp = &console.Stamp{Stats: t.Stats()} }}, err
}

// newMail makes what stands for a mail throttle, which the spool runs by its options.
func newMail(o outbreak.Options, _ time.Time) (*mechanism, error) {
	return &mechanism{judge: outgoing{},
		configure: func(config.Throttle, time.Time) error { return nil }}, o.Validate()
}

// newReach makes what watches users' recipients. The spool runs it too, where it judges mail.
func newReach(o reach.Options, _ time.Time) (*mechanism, error) {
	d, err := newReachJudge(o)
	return &mechanism{judge: d, enter: func(a *App, name string, shadow *policy.Switch) { d.enter(a, name, shadow) },
		configure: func(c config.Throttle, _ time.Time) error { return d.configure(*c.Reach) }}, err
}

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

// prepareCountries reads the file that says which country an address is in. It is read on every reload: the one on disk
// may be a newer one.
func (c *change) prepareCountries() error {
	path := c.next.cfg.Countries
	var file *country.File
	if path != "" {
		var err error
		if file, err = country.Open(path); err != nil {
			return &weir.FieldError{Path: "countries", Msg: err.Error()}
		}
	}
	if !c.live {
		c.app.countries.Store(file) // nobody asks yet
		return nil
	}
	c.commit = append(c.commit, func() { c.app.countries.Store(file) })
	return nil
}

// countryOf returns the country of an address, or "" where it is not known.
func (a *App) countryOf(addr netip.Addr) string { return a.countries.Load().Of(addr) }
