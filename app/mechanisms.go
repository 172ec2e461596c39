package app

import (
	"sync/atomic"
	"time"

	"weir"
	"weir/config"
	"weir/console"
	"weir/throttle/bloom"
	"weir/throttle/outbreak"
	"weir/throttle/quota"
	"weir/throttle/reach"
	"weir/throttle/stamp"
)

// A mechanism is what decides behind a throttle, and what app does with it. What is nil is not done.
type mechanism struct {
	judge     weir.Throttle
	configure func(c config.Throttle, now time.Time) error   // never nil; on an error it keeps the options that it has
	retire    func(now time.Time)                            // lets everybody go who waits in it
	enter     func(a *App, name string, shadow *atomic.Bool) // tells it, once, about its throttle
	show      func(c config.Throttle, v *console.Throttle)   // fills in what the console shows of it
}

// options are those of a mechanism.
type options interface{ Validate() error }

// A kind is one row of the table of mechanisms.
type kind struct {
	name    string
	options func(config.Throttle) options // nil where the entry is of another kind
	build   func(config.Throttle, time.Time) (*mechanism, error)
	fits    func(old, next config.Throttle) bool // whether a mechanism can take other options; nil: it always can
}

// kinds is the table of mechanisms. A new one is a folder below throttle, a field of config.Throttle and a row here.
func kinds() []kind {
	return []kind{
		of("bloom", func(c config.Throttle) *bloom.Options { return c.Bloom }, newBloom).when(sameCount),
		of("quota", func(c config.Throttle) *quota.Options { return c.Quota }, newQuota),
		of("stamp", func(c config.Throttle) *stamp.Options { return c.Stamp }, newStamp),
		of("mail", func(c config.Throttle) *outbreak.Options { return c.Mail }, newMail),
		of("reach", func(c config.Throttle) *reach.Options { return c.Reach }, newReach),
	}
}

// of makes a row of the table.
func of[O any, P interface {
	*O
	options
}](name string, get func(config.Throttle) P, build func(O, time.Time) (*mechanism, error)) kind {
	return kind{name: name,
		options: func(c config.Throttle) options {
			if o := get(c); o != nil {
				return o
			}
			return nil
		},
		build: func(c config.Throttle, now time.Time) (*mechanism, error) {
			m, err := build(*get(c), now)
			return m, weir.Under(name, err)
		}}
}

func (k kind) when(fits func(old, next config.Throttle) bool) kind {
	k.fits = fits
	return k
}

// kindOf returns the row of an entry.
func kindOf(c config.Throttle) kind {
	for _, k := range kinds() {
		if k.options(c) != nil {
			return k
		}
	}
	none := &weir.FieldError{Msg: "no mechanism is named",
		Hint: "add bloom: {…}, quota: {…}, stamp: {…}, mail: {…} or reach: {…}"}
	return kind{build: func(config.Throttle, time.Time) (*mechanism, error) { return nil, none }}
}

func newBloom(o bloom.Options, now time.Time) (*mechanism, error) {
	l, err := bloom.New(o, now)
	if err != nil {
		return nil, err
	}
	return &mechanism{judge: l.Throttle(), retire: l.Retire,
		configure: func(c config.Throttle, now time.Time) error { return l.Configure(*c.Bloom, now) },
		enter:     func(a *App, name string, _ *atomic.Bool) { l.Notify(a.noticed(name)) },
		show:      func(_ config.Throttle, v *console.Throttle) { v.Bloom = bloomView(l.Stats()) }}, nil
}

// sameCount: bytes are metered, and events are not.
func sameCount(old, next config.Throttle) bool { return old.Bloom.Count == next.Bloom.Count }

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

func newQuota(o quota.Options, _ time.Time) (*mechanism, error) {
	q, err := quota.New(o)
	if err != nil {
		return nil, err
	}
	return &mechanism{judge: q, retire: q.Retire,
		configure: func(c config.Throttle, now time.Time) error { return q.Configure(*c.Quota, now) },
		show: func(_ config.Throttle, v *console.Throttle) {
			s := q.Stats()
			v.Table = &console.Table{Accounts: s.Accounts, Probation: s.Probation, Waiting: s.Waiting,
				Strangers: s.Strangers, PushedOut: s.PushedOut}
		}}, nil
}

func newStamp(o stamp.Options, now time.Time) (*mechanism, error) {
	t, err := stamp.NewThrottle(o, now, readList)
	return &mechanism{judge: t,
		configure: func(c config.Throttle, now time.Time) error { return t.Configure(*c.Stamp, now, readList) },
		enter:     func(a *App, _ string, _ *atomic.Bool) { a.meet(t) },
		show:      func(c config.Throttle, v *console.Throttle) { v.Stamp = stampView(t, c.Stamp) }}, err
}

// newMail makes what stands for a mail throttle, which the spool runs by its options.
func newMail(o outbreak.Options, _ time.Time) (*mechanism, error) {
	return &mechanism{judge: outgoing{},
		configure: func(config.Throttle, time.Time) error { return nil }}, o.Validate()
}

// newReach makes what watches users' recipients. The spool runs it too, where it judges mail.
func newReach(o reach.Options, _ time.Time) (*mechanism, error) {
	d, err := newReachDesk(o)
	return &mechanism{judge: d, enter: func(a *App, name string, shadow *atomic.Bool) { d.enter(a, name, shadow) },
		configure: func(c config.Throttle, _ time.Time) error { return d.configure(*c.Reach) }}, err
}
