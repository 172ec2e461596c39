package quota

import (
	"fmt"
	"math/bits"
	"strings"

	"weir"
	"weir/identify"
)

// Bounds of costs.
const (
	MaxCost        = 1_000_000_000 // of one request
	MaxCostRules   = 100
	DefaultMaxCost = 1000
)

// Cost says what requests cost.
type Cost struct {
	// What some requests cost. Where several rules match, the highest cost counts; where none does, it is 1. What the
	// decision API or Envoy says that a request costs is multiplied by it.
	Rules []CostRule `yaml:"rules"`
	// The header of the answer that says, as a whole number, what the request has cost: X-Cost. Until the answer comes,
	// the request is charged what the rules say; then it is charged the rest, even over the limit, or given back what
	// is too much. For HTTP gates; services that ask the decision API say it when they settle. Default: none.
	Header string `yaml:"header"`
	// The most that an answer may charge. Higher figures count as this. Default 1000.
	Max int `yaml:"max"`
	// What a request costs at least whose answer never came, as its client left first or the upstream failed. Default:
	// what the rules say.
	Unanswered int `yaml:"unanswered"`
}

// A CostRule is what some requests cost.
type CostRule struct {
	// How many requests each of them counts as.
	Cost int `yaml:"cost"`
	// Which requests. Where servers may read a request differently, any reading will do.
	Match Match `yaml:"match"`
}

// set reports whether anything costs another figure than 1.
func (c *Cost) set() bool { return len(c.Rules) > 0 || c.Header != "" }

func (c *Cost) validate(o *Options) error {
	var v mistakes
	within := func(path string, n, least int) {
		if n < least || n > MaxCost {
			v.Add(path, fmt.Sprintf("%d is out of bounds", n), fmt.Sprintf("%d to %d", least, MaxCost))
		}
	}
	v.AtMost("rules", "rules", len(c.Rules), MaxCostRules)
	for i, r := range c.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		within(at+".cost", r.Cost, 1)
		v.Under(at+".match", r.Match.validate())
		for j, plan := range r.Match.Plans {
			if !o.knowsPlan(plan) {
				v.Add(fmt.Sprintf("%s.match.plans[%d]", at, j), fmt.Sprintf("no account is on plan %q", plan),
					"name it under plans, members or default_plan")
			}
		}
	}
	switch {
	case c.Header == "" && (c.Max != 0 || c.Unanswered != 0):
		v.Add("header", "no header of the answer says what a request costs, so that max and unanswered have no effect",
			"write header: X-Cost, or leave them out")
		return v.Err()
	case c.Header == "":
		return v.Err()
	case !identify.IsToken(c.Header) || strings.EqualFold(c.Header, "Host"):
		v.Add("header", fmt.Sprintf("%q is not a header", c.Header), "write X-Cost")
	}
	if c.Max != 0 {
		within("max", c.Max, 1)
	}
	within("unanswered", c.Unanswered, 0)
	return v.Err()
}

// CostHeader is the header of answers that says what requests cost, or "".
func (o *Options) CostHeader() string { return o.Cost.Header }

// CostHeader is the header of answers that says what requests cost, or "". Outcome.Price is to have what it says.
func (q *Quota) CostHeader() string { return q.rules.Load().Cost.Header }

// charge is what an event is charged when it is judged. What costs more than any limit allows is refused, however much
// more it is.
func (rs *rules) charge(ev *weir.Event, a *account) int64 {
	n := min(ev.Charge(), MaxLimit+1)
	most := int64(1)
	for i := range rs.Cost.Rules {
		r := &rs.Cost.Rules[i]
		if int64(r.Cost) > most && r.Match.matches(&ev.Route, a.plan(rs)) {
			most = int64(r.Cost)
		}
	}
	if hi, lo := bits.Mul64(uint64(n), uint64(most)); hi == 0 && lo <= MaxLimit {
		return int64(lo)
	}
	return MaxLimit + 1
}

// reprice charges an event what its answer says, instead of what it was charged at first, and returns that. More than
// the limit may be used up then: the next one has to wait for it, or is refused. The shard is locked.
func (q *Quota) reprice(rs *rules, a *account, taken uint64, at, now, before int64, p weir.Price) int64 {
	after := before
	switch p.Known {
	case weir.Priced:
		after = max(0, p.N)
		if most := int64(rs.Cost.Max); after > most {
			after = most
			q.capped.Add(1)
		}
	case weir.Unanswered:
		after = max(before, int64(rs.Cost.Unanswered))
	}
	more := after - before
	if more == 0 {
		return after
	}
	a.each(rs, taken, func(r *rule, t *terms, st *state) {
		if r.once || r.bytes {
			return
		}
		r.roll(st, t, now)
		if more > 0 {
			a.charge(r, st, t, now, more)
			return
		}
		r.giveBack(st, t, at, -more, now)
		a.mark(r, st, t, now)
	})
	return after
}
