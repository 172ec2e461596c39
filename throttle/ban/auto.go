package ban

import (
	"hash/maphash"
	"math/bits"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"weir"
	"weir/identify"
	"weir/internal/tables"
	"weir/store"
)

// Bounds of automatic bans. Parts is how many parts the time is divided into in which refusals count.
const (
	Parts          = 60
	MaxTimes       = 1000
	maxAutoWithin  = time.Hour
	maxAutoFor     = 7 * 24 * time.Hour
	maxAutoNames   = 100
	autoSets       = 1 << 12
	autoWays       = 8 // in a set
	AutoRemembered = autoSets * autoWays
)

// Auto configures automatic bans of networks that stay over a limit. Only refusals that are charged to the source
// count: by a Bloom limiter, or by a quota where the request names no account. Those of accounts do not: whoever knows
// an account could use it up, and its owner would be banned. Those of limits that others share count for whoever got
// most of the limit.
type Auto struct {
	// In how many parts of the time a network must be refused: the time is divided into 60 parts, and each counts once,
	// however often the network is refused in it. So a page with a hundred pictures counts once or twice. Default 20.
	After int `yaml:"after"`
	// The time in which refusals count. Default 1m.
	Within weir.Duration `yaml:"within"`
	// How many times as much must have been refused as the limit allows in that time, or in its own period if that is
	// longer. Several people behind one address who are a little over the limit are not banned. Default 3.
	Times int `yaml:"times"`
	// How long a network stays banned. Default 10m.
	For weir.Duration `yaml:"for"`
	// The throttles whose refusals count. Default: all of kind bloom and quota.
	Throttles []string `yaml:"throttles"`
	// Ban. Without it, weir only counts and logs who would be banned.
	Enforce bool `yaml:"enforce"`
}

// WithDefaults returns the options with everything filled in that was left out.
func (o Auto) WithDefaults() Auto {
	if o.After == 0 {
		o.After = 20
	}
	if o.Within == 0 {
		o.Within = weir.Duration(time.Minute)
	}
	if o.Times == 0 {
		o.Times = 3
	}
	if o.For == 0 {
		o.For = weir.Duration(10 * time.Minute)
	}
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Auto) Validate() error {
	var v weir.Mistakes
	v.Within("after", int64(o.After), 2, Parts)
	v.Lasts("within", o.Within, minTime, maxAutoWithin)
	v.Within("times", int64(o.Times), 1, MaxTimes)
	v.Lasts("for", o.For, minTime, maxAutoFor)
	v.AtMost("throttles", "throttles", len(o.Throttles), maxAutoNames)
	return v.Err()
}

// counts reports whether refusals of a throttle count.
func (o *Auto) counts(throttle string) bool {
	return len(o.Throttles) == 0 || slices.Contains(o.Throttles, throttle)
}

// An Excess is a refusal over a limit, charged to its source.
type Excess struct {
	Source   netip.Addr
	Throttle string
	Limit    int64 // how much is allowed …
	Per      time.Duration
	// Shared: others than the network that would be banned may have used the limit up. The refusal counts only if most
	// of what the limit allows went to the network itself: see Granted.
	Shared bool
}

// A Repeat is what became of an Excess.
type Repeat uint8

const (
	Noted       Repeat = iota // it is counted, or counts for nothing
	WouldBan                  // it would have led to a ban
	BannedByNow               // it has led to a ban
)

// repeaters count who stays over a limit.
type repeaters struct {
	seed   maphash.Seed
	shared atomic.Int64 // when a shared limit last refused somebody, in nanoseconds since the epoch
	table  *tables.Sets[repeater, *repeater]
}

// of returns the hash of a network at a throttle; without a throttle, that of what is known of it as a whole.
func (r *repeaters) of(network netip.Prefix, throttle string) uint64 {
	return maphash.Comparable(r.seed, struct {
		netip.Prefix
		string
	}{network, throttle})
}

// A repeater is a network that was refused over a limit of a throttle. What is as old as all parts of time is
// forgotten, little by little.
type repeater struct {
	part    int64   // the number of the latest part of time
	mask    uint64  // in which of the parts up to then it was refused: bit 0 is the latest
	excess  float64 // how many times what the limit allows was refused
	granted float64 // how many events went on since it was first refused, while limits were shared
	// of the network as a whole: a ban is not reported again before this, in nanoseconds since the epoch
	told int64
}

const partsMask = 1<<Parts - 1

// Exceed counts a refusal over a limit. From a threshold on the network of the source is banned, here and on all nodes
// of a farm, or would be. It is not called for events that are admitted. Exempt networks are never banned; whoever
// calls leaves out sources that may be invented, and those of proxies.
func (l *List) Exceed(x Excess, now time.Time) (netip.Prefix, Repeat) {
	s := l.setup.Load()
	if s.Auto == nil || !s.Auto.counts(x.Throttle) || !x.Source.IsValid() || x.Limit <= 0 || x.Per <= 0 ||
		l.exempts(x.Source) {
		return netip.Prefix{}, Noted
	}
	o, at := s.Auto, now.UnixNano()
	network := s.network(x.Source)
	// Of a limit per day no small part is meant: somebody who has used it up and asks once a second is no flood.
	allowed := float64(x.Limit) * max(1, float64(o.Within)/float64(x.Per))
	if x.Shared {
		l.repeaters.shared.Store(at)
	}
	if !l.repeaters.note(o, network, &x, allowed, at) || !l.repeaters.tell(o, network, at) {
		return network, Noted
	}
	if !o.Enforce {
		l.counts.wouldBan.Add(1)
		return network, WouldBan
	}
	b := store.Ban{BanKey: store.BanKey{Prefix: network}, By: clip("auto: throttle "+x.Throttle, store.MaxBy),
		Reason: "stays over a limit", Since: now, Until: now.Add(o.For.Std())}
	if err := l.addEverywhere(b, now); err != nil { // counted where the list is full
		return network, Noted
	}
	l.counts.autoBanned.Add(1)
	return network, BannedByNow
}

// Network is what an automatic ban of a source bans.
func (l *List) Network(source netip.Addr) netip.Prefix { return l.setup.Load().network(source) }

func (s *setup) network(source netip.Addr) netip.Prefix { return identify.Network(source, s.V4, s.V6) }

// Sharing reports whether Granted is to be called: a limit that several networks share has lately refused somebody.
func (l *List) Sharing(now time.Time) bool {
	o := l.setup.Load().Auto
	return o != nil && now.UnixNano()-l.repeaters.shared.Load() <= int64(o.Within)
}

// Granted notes that an event of a source went on that was charged to the source. It counts for networks that the
// throttle has refused lately.
func (l *List) Granted(source netip.Addr, throttle string, now time.Time) {
	s := l.setup.Load()
	if s.Auto == nil || !source.IsValid() {
		return
	}
	part := s.Auto.part(now.UnixNano())
	set := l.repeaters.table.Lock(l.repeaters.of(s.network(source), throttle))
	defer set.Unlock()
	if who := set.Find(part); who != nil {
		who.age(part)
		who.granted++
	}
}

// part is the number of the part of time that an instant is in.
func (o *Auto) part(now int64) int64 { return now / (int64(o.Within) / Parts) }

// note counts a refusal of a network, and reports whether the network is over the threshold.
func (r *repeaters) note(o *Auto, network netip.Prefix, x *Excess, allowed float64, now int64) bool {
	set := r.table.Lock(r.of(network, x.Throttle))
	defer set.Unlock()
	who := set.Enter(o.part(now))
	who.age(o.part(now))
	who.mask |= 1
	who.excess += 1 / allowed
	own := !x.Shared || who.granted > allowed*float64(bits.Len64(who.mask))/Parts/2 // since the oldest part
	return own && bits.OnesCount64(who.mask) >= o.After && who.excess >= float64(o.Times)
}

// tell reports whether a ban of a network is to be made or reported: once until it would be over.
func (r *repeaters) tell(o *Auto, network netip.Prefix, now int64) bool {
	set := r.table.Lock(r.of(network, ""))
	defer set.Unlock()
	who := set.Enter(o.part(now))
	who.age(o.part(now))
	if who.mask = partsMask; now < who.told { // others go before it when there is no room
		return false
	}
	who.told = now + int64(o.For)
	return true
}

// Worth makes the network go first that was refused least. That a ban was reported is remembered while there is room.
func (r *repeater) Worth(part int64) uint64 {
	aged := *r
	aged.age(part)
	return uint64(1 + bits.OnesCount64(aged.mask))
}

// age forgets what is longer ago than the time in which refusals count. A clock that was set back begins again.
func (r *repeater) age(part int64) {
	switch passed := part - r.part; {
	case passed == 0:
	case passed < -1 || passed >= Parts:
		r.mask, r.excess, r.granted, r.part = 0, 0, 0, part
		if passed < 0 {
			r.told = 0
		}
	case passed > 0:
		r.mask = r.mask << passed & partsMask
		r.excess -= r.excess * float64(passed) / Parts
		r.granted -= r.granted * float64(passed) / Parts
		r.part = part
	}
}

// addEverywhere is Add for a mechanism's ban that other nodes cannot infer from offences: it is told to them.
func (l *List) addEverywhere(b store.Ban, now time.Time) error {
	b.Since, b.Until = b.Since.Round(0), b.Until.Round(0)
	if err := b.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = now.UnixNano()
	last := b.Since.UnixNano()
	if i := l.lifts.find(b.BanKey); i != nil && last <= i.ban.Since.UnixNano() {
		last = i.ban.Since.UnixNano() + 1 // lifted by a clock that is ahead, and refused since
	}
	if err := l.add(b, last); err != nil {
		return err
	}
	l.shared.sayListed(b, last)
	return nil
}
