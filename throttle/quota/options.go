package quota

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/farm"
)

// Bounds on what an operator may write. A mask of 64 bits says which rules an event met, so there are at most 64.
const (
	MaxPolicies    = 64
	MaxAccountsCap = 100_000_000
	MaxNewPer      = 24 * time.Hour // of new_accounts
	// above that, a computer that reads our JSON as floating point would see another number
	MaxLimit = 1 << 53
)

// A Kind says what a policy counts.
type Kind string

const (
	Requests   Kind = "requests"   // requests per period
	Concurrent Kind = "concurrent" // requests under way at once
	Idle       Kind = "idle"       // the least time between the starts of two requests
	Volume     Kind = "volume"     // bytes per period, of requests and responses
)

// A WindowKind says how requests and bytes are counted over time.
type WindowKind string

const (
	Fixed   WindowKind = "fixed"   // counters start again at zero every period
	Sliding WindowKind = "sliding" // never more than the limit in any stretch of one period
	GCRA    WindowKind = "gcra"    // a steady rate of limit per period, with a burst
)

// An Over says what happens to an event over the limit.
type Over string

const (
	OverRefuse Over = "refuse"
	OverDelay  Over = "delay"
	OverStamp  Over = "stamp" // go on for a stamp; without one it is asked for
)

// A Farm says how the nodes of a farm count.
type Farm string

const (
	FarmLocal     Farm = "local"     // each for itself
	FarmBroadcast Farm = "broadcast" // together: each tells the others what it has granted
	FarmExact     Farm = "exact"     // together: what is granted is taken from an engine first, never one too many
)

// An OnLoss says what a node of a farm grants while it does not know what others have granted.
type OnLoss string

const (
	LossOpen   OnLoss = "open"   // the whole limit, as far as it knows
	LossShare  OnLoss = "share"  // its share of the limit
	LossClosed OnLoss = "closed" // nothing
)

// A Missing says what happens to an event that names no account.
type Missing string

const (
	MissingSource Missing = "source"
	MissingRefuse Missing = "refuse"
)

// Options configure a quota: the limits that each account has.
type Options struct {
	// The limits. Each event is held against every policy that matches it; it is charged to all of them or to none.
	Policies []Policy `yaml:"policies"`
	// What is counted apart: the limits hold for each combination of these parts. account, method, host, path:1 (the
	// first segment of the path), network (the source address, of IPv6 the /64; network:24/56 for other lengths),
	// country (see countries), header:X-Tenant, bearer, query:key, cookie:session, cert, cert:san and jwt:org. A part
	// that is missing is a value of its own. Whoever may choose a part freely gets a new limit with each value. At most
	// 8 parts. Default: the account.
	Key []string `yaml:"key"`
	// What requests cost, for policies of kind requests. Default: each costs 1.
	Cost Cost `yaml:"cost"`
	// What accounts on a plan get instead, by plan and policy.
	Plans map[string]map[string]Override `yaml:"plans"`
	// Which account is on which plan.
	Members map[string]string `yaml:"members"`
	// The plan of accounts that are not among the members; empty for none.
	DefaultPlan string `yaml:"default_plan"`
	// What single accounts get instead, by account and policy. Goes before the plan.
	Overrides map[string]map[string]Override `yaml:"overrides"`
	// What happens to a request that names no account: source (count by source address; the default) or refuse.
	OnMissing Missing `yaml:"on_missing"`
	// The length of the IPv4 prefix by which requests without an account are counted. Default 32.
	SourceV4 int `yaml:"source_v4"`
	// The length of the IPv6 prefix by which requests without an account are counted. Default 64.
	SourceV6 int `yaml:"source_v6"`
	// How many accounts are kept apart, at most. An account that the upstream has accepted keeps its place as long as
	// it is limited; the others make room for new ones, and then share a small number of limits. Default 100000.
	MaxAccounts int `yaml:"max_accounts"`
	// How many new accounts one source address may bring once the table is half full; source_v4 and source_v6 say how
	// much of an address counts. Accounts beyond it share a small number of limits. Accounts that the upstream accepts
	// do not count, up to ten times as many. Default 100/h.
	NewAccounts weir.Rate `yaml:"new_accounts"`
}

// A Policy is one limit.
type Policy struct {
	// The name that answers, headers and logs show. Letters, digits, '-', '_' and '.'.
	Name string `yaml:"name"`
	// What is counted: requests (the default), concurrent, idle or volume.
	Kind Kind `yaml:"kind"`
	// How many requests per period, or at once. For volume write a size: 10MB.
	Limit Amount `yaml:"limit"`
	// Per how long: 1s, 5m, 12h, or one of day, week, month, year by the calendar.
	Period weir.Period `yaml:"period"`
	// The time zone of a calendar period, as in Europe/Berlin. Default UTC.
	TimeZone string `yaml:"time_zone"`
	// How requests and bytes are counted: fixed (the default), sliding or gcra.
	Window WindowKind `yaml:"window"`
	// How many may come at once with window gcra. Default: the limit.
	Burst Amount `yaml:"burst"`
	// The least time between the starts of two requests, for kind idle.
	Gap weir.Duration `yaml:"gap"`
	// What happens over the limit: refuse (the default), delay, or stamp, for kinds requests and idle. Clients
	// that pay with a stamp then go on, and do not count against the limit; all others are asked for one.
	Over Over `yaml:"over"`
	// The bounds of a delay.
	Delay Delay `yaml:"delay"`
	// How the nodes of a farm count: broadcast (the default) is together, in memory, and may be over by a little; exact
	// is together and never over, with an engine (farm.counters); local is each for itself.
	Farm Farm `yaml:"farm"`
	// With farm: exact, how much a node takes from the engine ahead of need, at most; 0 is one question for each
	// decision. Default: weir chooses, by demand and by what is left.
	Ahead Amount `yaml:"ahead"`
	// What a node grants while it cannot hear every other node, or with farm: exact cannot ask the engine. open is the
	// whole limit less what it hears of, share is its part of the limit, closed is nothing. With farm: exact it is
	// closed unless something else is written, which needs window fixed or kind concurrent. With farm: local, share
	// divides the limit always. Kind idle has no parts. Default open.
	OnLoss OnLoss `yaml:"on_loss"`
	// Which requests the policy is about. Default: all.
	Match Match `yaml:"match"`
}

// Delay bounds how many wait, and how long.
type Delay struct {
	// How many requests of one account may wait here; one more is refused at once. Default 100.
	Max int `yaml:"max"`
	// The longest wait; what would wait longer is refused at once. Default 10s.
	MaxWait weir.Duration `yaml:"max_wait"`
}

// Match selects requests. What is left out matches everything; of what is given, all must match.
type Match struct {
	// Methods, as in GET. A header that overrides the method counts as well.
	Methods []string `yaml:"methods"`
	// Hosts: example.com, or *.example.com for everything below it.
	Hosts []string `yaml:"hosts"`
	// Path patterns: /v1/users, /v1/* for one segment, /v1/** for everything below. Where servers may read a path
	// differently, as with /v1/users;x=1, any reading will do. Upper and lower case are the same.
	Paths []string `yaml:"paths"`
	// Plans that the account may be on.
	Plans []string `yaml:"plans"`
}

// An Override is what a plan or an account gets instead of the figures of a policy.
type Override struct {
	// The limit instead.
	Limit Amount `yaml:"limit"`
	// The burst instead, for window gcra.
	Burst Amount `yaml:"burst"`
	// The gap instead, for kind idle.
	Gap weir.Duration `yaml:"gap"`
	// No limit at all by this policy.
	Exempt bool `yaml:"exempt"`
}

// WithDefaults returns the options with everything filled in that was left out.
func (o Options) WithDefaults() Options {
	o.OnMissing = cmp.Or(o.OnMissing, MissingSource)
	o.SourceV4 = cmp.Or(o.SourceV4, 32)
	o.SourceV6 = cmp.Or(o.SourceV6, 64)
	o.MaxAccounts = cmp.Or(o.MaxAccounts, 100_000)
	o.NewAccounts = cmp.Or(o.NewAccounts, weir.Rate{Count: 100, Per: time.Hour})
	if o.Cost.Header != "" {
		o.Cost.Max = cmp.Or(o.Cost.Max, DefaultMaxCost)
	}
	o.Policies = slices.Clone(o.Policies)
	for i := range o.Policies {
		p := &o.Policies[i]
		p.Kind = cmp.Or(p.Kind, Requests)
		p.Window = cmp.Or(p.Window, Fixed)
		p.Over = cmp.Or(p.Over, OverRefuse)
		p.Farm = cmp.Or(p.Farm, FarmBroadcast)
		if p.Farm == FarmExact {
			p.OnLoss = cmp.Or(p.OnLoss, LossClosed)
		}
		p.OnLoss = cmp.Or(p.OnLoss, LossOpen)
		p.Delay.Max = cmp.Or(p.Delay.Max, 100)
		p.Delay.MaxWait = cmp.Or(p.Delay.MaxWait, weir.Duration(10*time.Second))
		if !p.Burst.Set {
			p.Burst = p.Limit
		}
	}
	return o
}

// Validate returns every mistake in the options, as joined weir.FieldErrors.
func (o Options) Validate() error {
	var v mistakes
	if len(o.Policies) == 0 {
		v.Add("policies", "a quota without a policy limits nothing",
			"add one: {name: per-second, limit: 5, period: 1s}")
	}
	v.AtMost("policies", "policies", len(o.Policies), MaxPolicies)
	v.OneOf("on_missing", string(o.OnMissing), string(MissingSource), string(MissingRefuse))
	if o.SourceV4 < 0 || o.SourceV4 > 32 {
		v.Add("source_v4", "an IPv4 prefix is 1 to 32 bits long", "")
	}
	if o.SourceV6 < 0 || o.SourceV6 > 128 {
		v.Add("source_v6", "an IPv6 prefix is 1 to 128 bits long", "")
	}
	if o.MaxAccounts < 0 || o.MaxAccounts > MaxAccountsCap {
		v.Add("max_accounts", fmt.Sprintf("must lie between 1 and %d", MaxAccountsCap), "")
	}
	switch r := o.NewAccounts; {
	case r == weir.Rate{}:
	case r.Count <= 0 || r.Count > MaxAccountsCap:
		v.Add("new_accounts", fmt.Sprintf("%s is out of bounds", r), fmt.Sprintf("1 to %d accounts", MaxAccountsCap))
	case r.Per < time.Second || r.Per > MaxNewPer:
		v.Add("new_accounts", fmt.Sprintf("%s is out of bounds", r),
			fmt.Sprintf("accounts per 1s to %s", weir.Duration(MaxNewPer)))
	}
	byName := map[string]Policy{}
	for i, p := range o.WithDefaults().Policies {
		at := fmt.Sprintf("policies[%d]", i)
		v.Under(at, p.validate())
		if p.Name != "" {
			if _, double := byName[p.Name]; double {
				v.Add(at+".name", fmt.Sprintf("there is another policy %q", p.Name), "names must differ")
			}
			byName[p.Name] = p
		}
		for j, plan := range p.Match.Plans {
			if !o.knowsPlan(plan) {
				v.Add(fmt.Sprintf("%s.match.plans[%d]", at, j), fmt.Sprintf("no account is on plan %q", plan),
					"name it under plans, members or default_plan")
			}
		}
	}
	o.validateKey(&v.Mistakes)
	v.Under("cost", o.Cost.validate(&o))
	v.overrides("plans", o.Plans, byName)
	v.overrides("overrides", o.Overrides, byName)
	return v.Err()
}

// knowsPlan reports whether anybody can be on a plan. Gates may bring plans of their own, which Plans must then name.
func (o *Options) knowsPlan(plan string) bool {
	_, ok := o.Plans[plan]
	return ok || plan == o.DefaultPlan || slices.Contains(slices.Collect(maps.Values(o.Members)), plan)
}

func (p Policy) validate() error {
	var v mistakes
	if p.Name == "" {
		v.Add("", "the policy has no name", "add name: per-second")
	} else if i := strings.IndexFunc(p.Name, notInName); i >= 0 || len(p.Name) > 64 {
		v.Add("name", fmt.Sprintf("%q is not a name", p.Name), "letters, digits, '-', '_' and '.', at most 64")
	}
	counted := p.Kind == Requests || p.Kind == Volume
	switch p.Kind {
	case Requests, Concurrent, Volume:
		v.limit("limit", p.Limit, p.Kind)
		if p.Gap != 0 {
			v.Add("gap", "only kind idle has a gap", "")
		}
	case Idle:
		if p.Gap <= 0 {
			v.Add("gap", "kind idle needs a gap", "write gap: 50ms")
		}
		if p.Limit.Set {
			v.Add("limit", "kind idle has no limit", "the gap is its limit")
		}
	}
	v.OneOf("kind", string(p.Kind), string(Requests), string(Concurrent), string(Idle), string(Volume))
	switch {
	case counted && p.Period.IsZero():
		v.Add("period", fmt.Sprintf("kind %s needs a period", p.Kind), "write period: 1s")
	case !counted && !p.Period.IsZero() && (p.Kind == Concurrent || p.Kind == Idle):
		v.Add("period", fmt.Sprintf("kind %s has no period", p.Kind), "")
	case p.Period.Calendar == weir.NoCalendar && !p.Period.IsZero() && p.Period.Length < time.Millisecond:
		v.Add("period", fmt.Sprintf("%s is too short a period", p.Period), "1ms is the shortest")
	}
	if p.Window == Sliding || p.Window == GCRA {
		if p.Period.Calendar != weir.NoCalendar {
			v.Add("window", fmt.Sprintf("a period of the calendar needs window fixed, not %s", p.Window),
				"or write a length, as in 30d")
		}
		if p.Kind == Concurrent || p.Kind == Idle {
			v.Add("window", fmt.Sprintf("kind %s has no window", p.Kind), "")
		}
	}
	v.OneOf("window", string(p.Window), string(Fixed), string(Sliding), string(GCRA))
	if p.Burst != p.Limit {
		if p.Window != GCRA {
			v.Add("burst", "only window gcra has a burst", "leave it out, or write window: gcra")
		} else {
			v.limit("burst", p.Burst, p.Kind)
			if p.Burst.N < 1 {
				v.Add("burst", "a burst of nothing lets nothing through", "1 is the least")
			}
		}
	}
	if p.TimeZone != "" {
		if p.Period.Calendar == weir.NoCalendar {
			v.Add("time_zone", "only periods of the calendar have a time zone", "write period: day")
		} else if _, err := time.LoadLocation(p.TimeZone); err != nil {
			v.Add("time_zone", fmt.Sprintf("%q is not a time zone", p.TimeZone), "write Europe/Berlin or UTC")
		}
	}
	v.OneOf("over", string(p.Over), string(OverRefuse), string(OverDelay), string(OverStamp))
	switch {
	case p.Over == OverStamp && p.Kind == Concurrent:
		v.Add("over", "a stamp cannot pay for kind concurrent", "write over: delay, or refuse")
	case p.Over == OverStamp && p.Kind == Volume:
		v.Add("over", "a stamp cannot pay for kind volume: the bytes are known only afterwards",
			"write over: delay, or refuse")
	}
	v.OneOf("farm", string(p.Farm), string(FarmLocal), string(FarmBroadcast), string(FarmExact))
	v.exact(&p)
	v.OneOf("on_loss", string(p.OnLoss), string(LossOpen), string(LossShare), string(LossClosed))
	switch {
	case p.OnLoss == LossShare && p.Kind == Idle:
		v.Add("on_loss", "a gap cannot be divided: two nodes may start a request at the same time",
			"leave on_loss out, or write a policy of kind requests with window gcra")
	case p.OnLoss == LossClosed && p.Farm == FarmLocal:
		v.Add("on_loss", "a node that counts for itself misses no other node, so closed would have no effect",
			"write farm: broadcast, or on_loss: share")
	}
	if p.Delay.Max < 0 || p.Delay.Max > MaxWaiting {
		v.Add("delay.max", fmt.Sprintf("must lie between 1 and %d", MaxWaiting), "")
	}
	if p.Delay.MaxWait < 0 || p.Delay.MaxWait.Std() > MaxWait {
		v.Add("delay.max_wait", fmt.Sprintf("must lie between 1ms and %s", weir.Duration(MaxWait)), "")
	}
	v.Under("match", p.Match.validate())
	return v.Err()
}

// exact looks at what an engine must be able to count.
func (v *mistakes) exact(p *Policy) {
	if p.Farm != FarmExact {
		if p.Ahead.Set {
			v.Add("ahead", "ahead is for farm: exact only", "leave it out, or write farm: exact")
		}
		return
	}
	if p.Kind == Idle {
		v.Add("farm", "kind idle cannot be counted exactly: a gap has nothing to lend",
			"write farm: broadcast, or kind: requests with window: gcra and burst: 1")
	}
	if p.Kind == Volume {
		v.Add("farm", "kind volume cannot be counted exactly: bytes have flowed when they are counted",
			"write farm: broadcast")
	}
	if p.Kind == Requests && p.Window != Fixed && p.OnLoss != LossClosed {
		v.Add("on_loss", fmt.Sprintf("a node cannot count window %s without the engine that counts it", p.Window),
			"leave on_loss out, or write window: fixed")
	}
	if p.Ahead.Set && p.Ahead.N != 0 {
		v.limit("ahead", p.Ahead, p.Kind)
	}
	d := p.Period.Length
	if d%time.Microsecond != 0 {
		v.Add("period", fmt.Sprintf("%s is not a whole number of microseconds, in which engines count", d), "")
	}
	if d > 0 && d < farm.MinPeriod {
		v.Add("period", fmt.Sprintf("%s is too short for farm: exact", d),
			fmt.Sprintf("%s is the shortest", farm.MinPeriod))
	}
	if d > farm.MaxPeriod {
		v.Add("period", fmt.Sprintf("%s is too long for farm: exact", d), "the longest is ten years")
	}
}

// Bounds of a delay, so that a slip of the pen cannot make a server hold requests for ever.
const (
	MaxWaiting = 100_000
	MaxWait    = time.Hour
)

func (m Match) validate() error {
	var v mistakes
	for i, method := range m.Methods {
		if method == "" || strings.ToUpper(method) != method {
			v.Add(fmt.Sprintf("methods[%d]", i), fmt.Sprintf("%q is not a method", method),
				"methods are written in capitals")
		}
	}
	for i, host := range m.Hosts {
		if host == "" || strings.Contains(strings.TrimPrefix(host, "*."), "*") || strings.ContainsAny(host, "/:") {
			v.Add(fmt.Sprintf("hosts[%d]", i), fmt.Sprintf("%q is not a host", host),
				"write example.com or *.example.com")
		}
	}
	for i, p := range m.Paths {
		at := fmt.Sprintf("paths[%d]", i)
		switch below, deep := strings.CutSuffix(p, "/**"); {
		case !strings.HasPrefix(p, "/"):
			v.Add(at, fmt.Sprintf("%q does not start with a slash", p), "write /v1/* or /v1/**")
		case strings.Contains(below, "**") && deep, strings.Contains(p, "**") && !deep:
			v.Add(at, fmt.Sprintf("%q has ** in the middle", p), "** stands at the end only")
		case path.Clean(p) != p && p != "/":
			v.Add(at, fmt.Sprintf("%q never matches", p),
				"paths are matched without double slashes, dots and a slash at the end")
		}
	}
	return v.Err()
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
}

// mistakes collects field errors, also those that only this package knows.
type mistakes struct{ weir.Mistakes }

func (v *mistakes) limit(path string, a Amount, kind Kind) {
	switch {
	case !a.Set:
		v.Add(path, fmt.Sprintf("kind %s needs a %s", kind, path), "")
	case kind == Volume && !a.Bytes && a.N != 0:
		v.Add(path, fmt.Sprintf("%d has no unit", a.N), fmt.Sprintf("did you mean %dKB or %dMB?", a.N, a.N))
	case kind != Volume && a.Bytes:
		v.Add(path, fmt.Sprintf("%s is a size; kind %s counts requests", a, kind),
			"leave the unit out, or write kind: volume")
	case a.N > MaxLimit:
		v.Add(path, fmt.Sprintf("%d is too large", a.N), fmt.Sprintf("at most %d", int64(MaxLimit)))
	}
}

// overrides looks at what accounts or plans get instead, by their names and the policies'.
func (v *mistakes) overrides(path string, all map[string]map[string]Override, policies map[string]Policy) {
	for _, who := range slices.Sorted(maps.Keys(all)) {
		for _, name := range slices.Sorted(maps.Keys(all[who])) {
			at, o := path+"."+who+"."+name, all[who][name]
			p, known := policies[name]
			if !known {
				v.Add(at, fmt.Sprintf("there is no policy %q", name),
					weir.Suggest(name, slices.Sorted(maps.Keys(policies))...))
				continue
			}
			v.Under(at, o.validate(&p))
		}
	}
}

// validate returns every mistake in the figures that somebody gets instead of those of a policy.
func (o *Override) validate(p *Policy) error {
	var v mistakes
	if o.Limit.Set {
		v.limit("limit", o.Limit, p.Kind)
	}
	switch {
	case o.Burst.Set && p.Window != GCRA:
		v.Add("burst", "only window gcra has a burst", "")
	case o.Burst.Set:
		v.limit("burst", o.Burst, p.Kind)
		if o.Burst.N < 1 {
			v.Add("burst", "a burst of nothing lets nothing through", "1 is the least")
		}
	}
	if o.Gap != 0 && (p.Kind != Idle || o.Gap < 0) {
		v.Add("gap", "only kind idle has a gap", "")
	}
	if o.Exempt && (o.Limit.Set || o.Burst.Set || o.Gap != 0) {
		v.Add("exempt", "exempt cannot be combined with other figures", "")
	}
	return v.Err()
}

// Make implements weir.Maker.
func (o Options) Make(time.Time) (weir.Throttle, error) { return New(o) }

// Renew implements weir.Maker.
func (o Options) Renew(t weir.Throttle, now time.Time) error { return t.(*Quota).Configure(o, now) }
