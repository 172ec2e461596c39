package app

import (
	"fmt"
	"time"

	"weir"
	"weir/config"
	"weir/console"
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
