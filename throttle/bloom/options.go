package bloom

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"weir"
)

// Bounds on what an operator may write.
const (
	MaxLevels = 4      // of IPv6 prefixes
	MaxRanges = 10_000 // in groups and exemptions, together
	MaxGroups = 1_000
	MaxRate   = 1 << 40
	MaxBurst  = 1 << 50
	MaxMemory = 64 << 30

	minRotate = 10 * time.Second
	maxRotate = 30 * 24 * time.Hour
	maxPer    = 365 * 24 * time.Hour
	maxTimes  = 1 << 20 // the limit, for the widest networks
	maxBytes  = MaxTokens / 3
	ample     = 3 // tokens of a limiter: see Options.AmpleBurst
)

// A Count says what is counted.
type Count string

const (
	Events Count = "events"
	Bytes  Count = "bytes"
)

// Options configure a Bloom limiter: a limit for each source network, in memory that does not grow with their number.
type Options struct {
	// The limit of each source network: 100/s, 20/m; where bytes are counted 10MB/s.
	Rate weir.Rate `yaml:"rate"`
	// How much a source may take at once after it was idle. At least k, and better three times k: with less, networks
	// that keep to their limit refuse each other. Default: a second's worth, and at least three times k.
	Burst weir.Number `yaml:"burst"`
	// What is counted: events (requests, connections or packets; the default) or bytes. A limit on bytes paces what
	// flows.
	Count Count `yaml:"count"`
	// What one token stands for: so many events or bytes; what is smaller costs a whole one. A limiter holds 65535
	// tokens. Default: 1; where bytes are counted, as much as the burst takes, and never less.
	Grain weir.Number `yaml:"grain"`
	// How many bits of an IPv4 address make a source network. Default 24.
	V4 int `yaml:"v4"`
	// How many bits of an IPv6 address make a source network. Of several, all must pass. Default [64, 48].
	V6 []int `yaml:"v6"`
	// How many times the limit the next wider IPv6 network of the list gets. Default 4.
	Wider int `yaml:"wider"`
	// Ranges of addresses that count as one source, whatever their prefixes, by the name of the group.
	Groups map[string][]netip.Prefix `yaml:"groups"`
	// Ranges of addresses that are never limited: partners, offices behind one address.
	Exempt []netip.Prefix `yaml:"exempt"`
	// How many networks may be far over their limit at the same time. Default 100000.
	Attackers int64 `yaml:"attackers"`
	// The share of innocent networks that may be refused while so many attack. Default 1%.
	Collateral weir.Share `yaml:"collateral"`
	// How many limiters each source has, 1 to 8. Default 5.
	K int `yaml:"k"`
	// How much memory the tables may grow to while more innocent networks are refused than allowed. Default: they do
	// not grow.
	MaxMemory weir.Size `yaml:"max_memory"`
	// How often the key changes. The key decides which networks share limiters. At least ten times as long as the burst
	// takes to fill. Default 10m, or as long as that.
	Rotate weir.Duration `yaml:"rotate"`
}

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.K = cmp.Or(o.K, 5)
	if o.Burst == 0 && o.Rate.Per > 0 {
		second := float64(o.Rate.Count) / o.Rate.Per.Seconds()
		o.Burst = max(weir.Number(math.Ceil(min(second, MaxBurst))), ample*weir.Number(o.K)*max(o.Grain, 1))
	}
	o.Count = cmp.Or(o.Count, Events)
	o.V4 = cmp.Or(o.V4, 24)
	if len(o.V6) == 0 {
		o.V6 = []int{64, 48}
	}
	o.Wider = cmp.Or(o.Wider, 4)
	o.Attackers = cmp.Or(o.Attackers, 100_000)
	o.Collateral = cmp.Or(o.Collateral, 0.01)
	if o.Rotate == 0 {
		o.Rotate = weir.Duration(max(10*time.Minute, o.learn()))
	}
	return o
}

// AmpleBurst returns the least burst that keeps ordinary visitors from refusing each other, if the configured one is
// smaller, and otherwise 0. A limiter that holds one token is drained by one visit, as if by an attacker.
func (o Options) AmpleBurst() weir.Number {
	o = o.WithDefaults()
	if least := ample * weir.Number(o.K) * max(o.Grain, 1); o.Count == Events && o.Burst < least {
		return least
	}
	return 0
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var v weir.Mistakes
	switch {
	case o.Rate == weir.Rate{}:
		v.Add("rate", "a source has no limit", "write rate: 100/s")
	case o.Rate.Count < 1 || o.Rate.Count > MaxRate || o.Rate.Per > maxPer:
		v.Add("rate", fmt.Sprintf("%s is out of bounds", o.Rate), fmt.Sprintf("1/365d to %d/s", int64(MaxRate)))
	}
	v.Within("burst", int64(o.Burst), 1, MaxBurst)
	v.Within("grain", int64(o.Grain), 1, MaxBurst)
	v.OneOf("count", string(o.Count), string(Events), string(Bytes))
	v.Within("v4", int64(o.V4), 1, 32)
	v.AtMost("v6", "levels", len(o.V6), MaxLevels)
	for i, n := range o.V6 {
		at := fmt.Sprintf("v6[%d]", i)
		if n < 1 || n > 128 {
			v.Add(at, fmt.Sprintf("%d is out of bounds", n), "1 to 128")
		}
		if i > 0 && n >= o.V6[i-1] {
			v.Add(at, fmt.Sprintf("/%d is not wider than /%d", n, o.V6[i-1]),
				"from the narrowest to the widest: [64, 48]")
		}
	}
	v.Within("wider", int64(o.Wider), 1, 1_000_000)
	o.validateRanges(&v)
	v.Within("k", int64(o.K), 1, MaxK)
	if o.MaxMemory < 0 || o.MaxMemory > MaxMemory {
		v.Add("max_memory", fmt.Sprintf("%s is out of bounds", o.MaxMemory),
			fmt.Sprintf("up to %s", weir.Size(MaxMemory)))
	}
	if r := o.Rotate.Std(); r != 0 && (r < minRotate || r > max(maxRotate, o.WithDefaults().learn())) {
		v.Add("rotate", fmt.Sprintf("%s is out of bounds", o.Rotate),
			fmt.Sprintf("%s to %s", weir.Duration(minRotate), weir.Duration(maxRotate)))
	}
	if len(v) > 0 {
		return v.Err()
	}
	// The checks below need figures that are within bounds.
	full := o.WithDefaults()
	plan, err := full.plan(full.Attackers)
	if err != nil {
		v.Under("", err)
	}
	start := int64(0) // of memory
	for i := range full.V6 {
		s, err := full.fit(i)
		if err != nil {
			v.Under("", err)
			break
		}
		start += 2 * s.sized(plan.Limiters()).Bytes()
	}
	if least := full.learn(); full.Rotate.Std() < least {
		v.Add("rotate",
			fmt.Sprintf("a source's burst takes %s to fill, and a new key needs ten times that", weir.Duration(least/learnFills)),
			fmt.Sprintf("at least %s, or leave it out", weir.Duration(least)))
	}
	if err == nil && o.MaxMemory > 0 && int64(o.MaxMemory) < start {
		v.Add("max_memory", fmt.Sprintf("the tables have %s from the start", weir.Size(start)),
			"more than that, or leave it out")
	}
	return v.Err()
}

func (o Options) validateRanges(v *weir.Mistakes) {
	n := len(o.Exempt)
	v.Networks("exempt", o.Exempt)
	v.AtMost("groups", "groups", len(o.Groups), MaxGroups)
	taken, numbers := map[netip.Prefix]string{}, map[uint32]string{}
	for _, name := range slices.Sorted(maps.Keys(o.Groups)) {
		ranges := o.Groups[name]
		if len(ranges) == 0 {
			v.Add("groups."+name, "the group has no ranges", "write "+name+": [192.0.2.0/24]")
		}
		if other, same := numbers[groupNumber(name)]; same {
			v.Add("groups."+name, fmt.Sprintf("the name hashes to the same number as %q", other), "another name")
		}
		numbers[groupNumber(name)] = name
		n += len(ranges)
		v.Networks("groups."+name, ranges)
		for i, p := range ranges {
			if other, twice := taken[p.Masked()]; twice && p.IsValid() {
				v.Add(fmt.Sprintf("groups.%s[%d]", name, i), fmt.Sprintf("%s is in the group %q already", p, other),
					"an address is in one group")
			}
			taken[p.Masked()] = name
		}
	}
	v.AtMost("groups", "ranges in groups and exempt", n, MaxRanges)
}

// learn is how long the tables of a new key are charged before they take over, which is the shortest rotation. It is in
// whole seconds, as users write it. It is 0 for options that fit no table.
func (o Options) learn() (d time.Duration) {
	if o.K < 1 || o.K > MaxK || o.Rate.Count < 1 || o.Rate.Per <= 0 || o.Burst < 1 || o.Grain < 0 || o.Wider < 1 ||
		len(o.V6) > MaxLevels {
		return 0
	}
	for i := range o.V6 {
		if s, err := o.fit(i); err == nil {
			d = max(d, s.Learn())
		}
	}
	return min(d, math.MaxInt64-time.Second+1).Truncate(time.Second) + time.Second
}

// fit returns the shape of the structure of a level: the narrowest networks are on level 0. The options are complete.
func (o Options) fit(level int) (Shape, error) {
	times := int64(1)
	for i := 0; i < level && times <= maxTimes; i++ {
		times *= int64(o.Wider)
	}
	burst := int64(o.Burst)
	if times > maxTimes || burst > MaxBurst/times {
		return Shape{}, &weir.FieldError{Path: "wider", Msg: "the widest networks have hardly a limit",
			Hint: "a smaller figure"}
	}
	rate, grain := o.Rate, int64(o.Grain)
	rate.Count *= times
	burst *= times
	switch {
	case o.Count == Bytes:
		// Limiters of bytes can also owe. They get room for two more bursts, whatever grain is configured.
		grain = max(1, grain, (burst/int64(o.K)+maxBytes-1)/maxBytes)
	case grain == 0:
		// With a larger grain, an event that costs 1 would cost more. Wider networks get a smaller burst instead.
		grain = 1
		if level > 0 {
			burst = min(burst, MaxTokens*int64(o.K))
		}
	}
	into := Fit
	if o.Count == Bytes {
		// Bytes that flow are charged in whole tokens, and may be owed.
		into = func(rate weir.Rate, burst int64, k int, grain int64) (Shape, error) {
			return fit(rate, burst, k, grain, wide, 1)
		}
	}
	s, err := into(rate, burst, o.K, grain)
	if err != nil && o.Grain != 0 && level > 0 {
		// The grain was meant for the narrowest networks; wider ones may need a coarser one.
		s, err = into(rate, burst, o.K, 0)
	}
	return s, err
}

// plan sizes a table for so many attackers. Only a burst below two tokens for each limiter changes the size.
// The options are complete.
func (o Options) plan(attackers int64) (Plan, error) {
	burst := int64(o.Burst / max(o.Grain, 1))
	if o.Count == Bytes || burst < int64(o.K) || burst >= 2*int64(o.K) {
		burst = 0
	}
	return Size(o.K, attackers, o.Collateral, burst)
}

// Shapes returns the figures of the structures, one for each level, with the lines that the options plan for.
func (o Options) Shapes() (Shapes, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	plan, err := o.plan(o.Attackers)
	if err != nil {
		return nil, err
	}
	shapes := make(Shapes, len(o.V6))
	for i := range shapes {
		if shapes[i], err = o.fit(i); err != nil {
			return nil, err
		}
		shapes[i] = shapes[i].sized(plan.Limiters())
	}
	return shapes, nil
}
