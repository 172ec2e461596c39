package quota

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"weir"
	"weir/identify"
)

// A rule is a policy ready for use. Each rule has a slot, which says where accounts keep its state; the slot stays the
// same over reloads as long as the rule counts the same thing.
type rule struct {
	Policy
	ident  string // of the policy
	slot   int
	since  uint32 // the version of the options since which the slot is this rule's
	bit    uint64
	base   terms
	loc    *time.Location
	bucket int64 // sliding: how long a part of the period is
	all    bool  // matches every event
	way    way
	bytes  bool      // counts bytes, not requests
	delay  bool      // over the limit, events wait
	stamp  bool      // over the limit, events may pay
	once   bool      // an event counts as one, whatever it costs
	debts  bool      // more than the limit may be charged: bytes, and what answers say
	kept   bool      // its counters are kept over a restart
	ceiled bool      // what this node may have been granted of it is
	from   int64     // steady: when this version of the options came; what was taken before was taken at another rate
	share  share     // of a farm's limit that this node grants
	shared *Shared   // with the other nodes; nil where each counts alone
	lender *Lender   // of what is granted; nil where that is decided here
	ids    [3]uint64 // by which nodes know it: see texts
	texts  texts
	about  atomic.Pointer[span]
}

// A way is how a rule counts.
type way uint8

const (
	inPeriods   way = iota // fixed: from zero in every period
	inStretches            // sliding: over the last stretch of one period
	steady                 // gcra and idle: what comes is paid off at a steady rate
	level                  // concurrent: what is under way
)

var ways = map[WindowKind]way{Fixed: inPeriods, Sliding: inStretches, GCRA: steady}

// span is the calendar period last asked for: calendars are slow, and all accounts are in the same month.
type span struct{ start, end int64 }

// terms are the figures of a rule for one account.
type terms struct {
	limit, burst, period int64 // in requests or bytes, and nanoseconds
	one, whole           int64 // the time that 1 and the whole burst take up at a steady rate
	exempt               bool
	shut                 bool   // nothing is granted, as other nodes cannot be heard
	alone                bool   // counted here, where others of the rule are on loan
	extra                int32  // of what is left over by dividing the limit among nodes, that takes turns: see share
	ranks                uint64 // the nodes that take those turns
	undivided            int64  // the limit before it was divided
	near                 int64  // with so much left the other nodes are told at once; steady: with so much time owed
}

// priced fills in what a rule would otherwise compute for every event.
func (r *rule) priced(t terms) terms {
	if t.limit > 0 {
		t.one, t.whole = t.time(1), t.time(t.burst)
	}
	if t.near = t.limit / 10; t.limit <= toldSingly {
		t.near = t.limit
	}
	if r.way == steady { // what is owed, and not what is left
		if t.near = t.whole - t.whole/10; t.burst <= toldSingly {
			t.near = 0
		}
	}
	return t
}

// rules are all rules of one version of the options.
type rules struct {
	Options
	version uint32
	list    []*rule
	only    *rule // the one that there is, where it counts the requests of every event
	slots   [MaxPolicies]slot
	volume  uint64             // the rules that count bytes
	keeps   int                // how many counters of one account are kept, at most
	byPlan  map[string][]terms // by slot, of plans with overrides and of accounts on none
	strange map[string][]terms // the same, for those who have no entry
	whole   map[string][]terms // the same, before it is divided among the nodes of a farm
	ties
	key       *identify.Key                  // what is counted apart; nil where that is the account
	by        string                         // the key in the identity of rules
	ofAccount bool                           // the key has an account
	byID      map[uint64]*rule               // those that are shared
	own       map[string]map[string]Override // of what is imposed, what fits the policies
}

// ties are what a quota is under besides its options: other nodes, and what operators have imposed. Without any, it is
// alone.
type ties struct {
	share   share
	shared  *Shared
	lender  *Lender
	empty   bool // nobody is counted yet, so that slots are free at once: the first one is the fastest
	imposed map[string]map[string]Override
	country func(netip.Addr) string // nil where nobody knows
}

func (t ties) divided(sh share) ties {
	t.share = sh
	return t
}

func (t ties) sharing(s *Shared) ties {
	t.shared = s
	return t
}

func (t ties) lending(l *Lender, empty bool) ties {
	t.lender, t.empty = l, empty
	return t
}

// slot says which rule uses a position in every account's state.
type slot struct {
	*rule
	identity string
}

// compile makes rules of options that are valid, keeping the slots of what came before.
func compile(o Options, before *rules, with ties) (*rules, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	rs := &rules{Options: o.WithDefaults(), version: 1, ties: with, byID: map[uint64]*rule{}}
	rs.list = make([]*rule, len(rs.Policies))
	rs.compileKey()
	rs.own = rs.fitting(with.imposed)
	if before != nil {
		rs.version = before.version + 1
		for i := range rs.Policies { // those that stay first, so that newcomers do not take their slots
			if at := before.slotOf(rs.identity(i)); at >= 0 {
				rs.assign(i, at, before.slots[at].since)
			}
		}
	}
	for i, r := range rs.list {
		if r == nil {
			used := before
			if with.empty {
				used = nil
			}
			rs.assign(i, rs.freeSlot(used), rs.version)
		}
	}
	if r := rs.list[0]; len(rs.list) == 1 && r.all && r.way != level && !r.bytes && !rs.Cost.set() {
		rs.only = r
	}
	rs.empty = false
	rs.whole = map[string][]terms{"": make([]terms, MaxPolicies)}
	for _, r := range rs.list {
		rs.whole[""][r.slot] = r.base
	}
	for plan, overrides := range rs.Plans {
		rs.whole[plan] = rs.override(rs.whole[""], overrides)
	}
	rs.byPlan, rs.strange = make(map[string][]terms, len(rs.whole)), make(map[string][]terms, len(rs.whole))
	for plan, all := range rs.whole {
		rs.byPlan[plan], rs.strange[plan] = rs.divide(all, false), rs.divide(all, true)
	}
	for _, r := range rs.list {
		r.base = rs.byPlan[""][r.slot]
	}
	return rs, nil
}

// assign puts the i-th policy into a slot.
func (rs *rules) assign(i, at int, since uint32) {
	r := newRule(rs.Policies[i], at)
	r.since = since
	r.share = rs.share
	r.ident += rs.by
	r.debts = r.bytes || rs.Cost.Header != ""
	r.texts = r.written(rs.SourceV4, rs.SourceV6)
	if r.Farm == FarmBroadcast && rs.shared != nil {
		r.shared = rs.shared
		for i, text := range []string{r.texts.account, r.texts.v4, r.texts.v6} {
			r.ids[i] = idOf(text)
			rs.byID[r.ids[i]] = r
		}
	}
	rs.list[i] = r
	if r.Farm == FarmExact && rs.lender != nil {
		r.lender, r.kept = rs.lender, false // the engine keeps it, and a ceiling is on the disk
		r.ceiled = r.keepsCeilings()
	}
	rs.slots[at] = slot{r, rs.identity(i)}
	if r.bytes {
		rs.volume |= r.bit
	}
	switch {
	case r.kept && r.way == inStretches:
		rs.keeps += buckets + 1
	case r.kept:
		rs.keeps++
	}
}

// slotOf returns the slot of what counts the same thing, or -1.
func (rs *rules) slotOf(identity string) int {
	return slices.IndexFunc(rs.slots[:], func(s slot) bool { return s.rule != nil && s.identity == identity })
}

// freeSlot returns a slot for a new rule, one that the rules before did not use if possible: it may be in use yet.
func (rs *rules) freeSlot(before *rules) int {
	if before != nil {
		for i := range rs.slots {
			if rs.slots[i].rule == nil && before.slots[i].rule == nil {
				return i
			}
		}
	}
	return slices.IndexFunc(rs.slots[:], func(s slot) bool { return s.rule == nil })
}

// terms returns the figures of an account on a plan, by slot. They are shared and must not be changed.
func (rs *rules) terms(plan string, overrides map[string]Override) []terms {
	if _, known := rs.byPlan[plan]; !known {
		plan = ""
	}
	if len(overrides) == 0 {
		return rs.byPlan[plan]
	}
	return rs.divide(rs.override(rs.whole[plan], overrides), false)
}

// strangerTerms returns the figures of those on a plan who have no entry.
func (rs *rules) strangerTerms(plan string) []terms {
	if t, known := rs.strange[plan]; known {
		return t
	}
	return rs.strange[""]
}

func (rs *rules) override(all []terms, overrides map[string]Override) []terms {
	own := slices.Clone(all)
	for _, r := range rs.list {
		if o, ok := overrides[r.Name]; ok {
			own[r.slot] = r.priced(o.apply(own[r.slot]))
		}
	}
	return own
}

// identity is what the i-th policy counts, and where.
func (rs *rules) identity(i int) string {
	p := &rs.Policies[i]
	if p.Farm == FarmExact && rs.lender != nil {
		return p.identity() + rs.by + rs.lender.identity
	}
	return p.identity() + rs.by
}

// identity is what a rule counts: counters go on over a reload, and over a restart, as long as it stays the same.
func (p *Policy) identity() string {
	text := fmt.Sprintf("%s %s %s %s", p.Name, p.Kind, p.Window, p.Period)
	if p.Period.Calendar != weir.NoCalendar {
		text += " " + cmp.Or(p.TimeZone, "UTC")
	}
	return text
}

func newRule(p Policy, at int) *rule {
	r := &rule{Policy: p, ident: p.identity(), slot: at, bit: 1 << at, all: p.Match.always(), loc: time.UTC,
		way: ways[p.Window], bytes: p.Kind == Volume, delay: p.Over == OverDelay, stamp: p.Over == OverStamp,
		once: p.Kind == Concurrent || p.Kind == Idle}
	r.base = terms{limit: p.Limit.N, burst: p.Burst.N, period: int64(p.Period.Length)}
	if p.Kind == Idle {
		// A least gap between two starts is a steady rate of one per gap, without a burst.
		r.way, r.base = steady, terms{limit: 1, burst: 1, period: int64(p.Gap)}
	}
	if p.Kind == Concurrent {
		r.way = level
	}
	r.base.undivided = r.base.limit
	r.base = r.priced(r.base)
	r.bucket = (r.base.period + buckets - 1) / buckets
	r.kept = r.long()
	if p.TimeZone != "" {
		r.loc, _ = time.LoadLocation(p.TimeZone) // Validate has loaded it before
	}
	r.Match.Hosts = slices.Clone(p.Match.Hosts) // the options are the caller's
	for i := range r.Match.Hosts {
		r.Match.Hosts[i] = strings.ToLower(r.Match.Hosts[i])
	}
	return r
}

func (o *Override) apply(t terms) terms {
	if o.Limit.Set {
		if t.burst == t.limit {
			t.burst = o.Limit.N
		}
		t.limit, t.undivided = o.Limit.N, o.Limit.N
	}
	if o.Burst.Set {
		t.burst = o.Burst.N
	}
	if o.Gap > 0 {
		t.period = int64(o.Gap)
	}
	t.exempt = o.Exempt || t.exempt && !o.limits()
	return t
}

// limits reports whether the override has a figure of its own. An account that has one is limited, even where its plan
// is exempt.
func (o *Override) limits() bool { return o.Limit.Set || o.Burst.Set || o.Gap > 0 }

// known reports whether the options name an account: it then has an entry in the table whatever happens. Where keys
// have several parts, they have to name the whole key: one account may have any number of keys.
func (rs *rules) known(account string) bool {
	_, override := rs.Overrides[account]
	_, member := rs.Members[account]
	_, imposed := rs.own[account]
	return override || imposed || member && rs.key == nil
}

// doubts reports whether an event is charged to an address that the options exempt from something, but may have come
// from another one. It is then counted by its source, without the exemption.
func (rs *rules) doubts(ev *weir.Event) bool {
	if !ev.SourceUnknown || !strings.HasPrefix(ev.Account, identify.SourcePrefix) {
		return false
	}
	for _, all := range []map[string]Override{rs.overrides(ev.Account), rs.Plans[rs.Members[ev.Account]]} {
		for _, o := range all {
			if o.Exempt {
				return true
			}
		}
	}
	return false
}

// still returns the rules of a mask that count the same as they did under an older version of the options.
func (rs *rules) still(mask uint64, version uint32) (still uint64) {
	for ; mask != 0; mask &= mask - 1 {
		if r := rs.slots[bits.TrailingZeros64(mask)].rule; r != nil && r.since <= version {
			still |= r.bit
		}
	}
	return still
}

// bounds returns start and end of the period that now lies in.
func (r *rule) bounds(now int64) (start, end int64) {
	if r.Period.Calendar == weir.NoCalendar {
		rest := now % r.base.period
		if rest < 0 {
			rest += r.base.period
		}
		return now - rest, now - rest + r.base.period
	}
	if s := r.about.Load(); s != nil && now >= s.start && now < s.end {
		return s.start, s.end
	}
	from, to := r.Period.Bounds(time.Unix(0, now), r.loc)
	s := &span{from.UnixNano(), to.UnixNano()}
	r.about.Store(s)
	return s.start, s.end
}

// each calls f with every rule of a mask, with the account's figures and its state. The shard is locked.
func (a *account) each(rs *rules, mask uint64, f func(*rule, *terms, *state)) {
	for ; mask != 0; mask &= mask - 1 {
		r := rs.slots[bits.TrailingZeros64(mask)].rule
		f(r, a.terms(rs, r), a.state(r))
	}
}
