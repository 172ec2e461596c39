package quota

import (
	"fmt"
	"maps"
	"reflect"
	"time"

	"weir"
)

// MaxImposed is how many accounts operators may give figures of their own while a quota runs. Each has an entry in the
// table, whatever max_accounts says.
const MaxImposed = 10_000

// Impose replaces what operators have set for single accounts while the quota runs, by account and policy. It goes
// before the options' overrides of the same policy, takes effect at once, and stays over Configure. What does not fit
// the policies has no effect until it does; CheckOverride says whether it fits. Those who wait are called by the new
// limits.
//
// With more than MaxImposed accounts it returns an error, and nothing has changed.
func (q *Quota) Impose(all map[string]map[string]Override, now time.Time) error {
	if len(all) > MaxImposed {
		return fmt.Errorf("limits of %d accounts, at most %d", len(all), MaxImposed)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	rs := q.rules.Load()
	if len(all)+len(rs.imposed) == 0 || reflect.DeepEqual(all, rs.imposed) {
		return nil
	}
	with := rs.ties
	with.imposed = make(map[string]map[string]Override, len(all))
	for account, byPolicy := range all {
		with.imposed[account] = maps.Clone(byPolicy) // the map is the caller's
	}
	return q.configure(rs.Options, with, now)
}

// CheckOverride returns every mistake in figures that one account is to have under a policy, as joined
// weir.FieldErrors.
func (o Options) CheckOverride(policy string, figures Override) error {
	var names []string
	for _, p := range o.WithDefaults().Policies {
		if p.Name == policy {
			return figures.fits(&p)
		}
		names = append(names, p.Name)
	}
	var v mistakes
	v.Add("policy", fmt.Sprintf("there is no policy %q", policy), weir.Suggest(policy, names...))
	return v.Err()
}

// fits is validate for figures that are imposed: there must be one, and of the policy's kind.
func (o *Override) fits(p *Policy) error {
	var v mistakes
	if *o == (Override{}) {
		v.Add("", "no figure is given", figureOf(p.Kind))
	}
	if p.Kind == Idle && o.Limit.Set {
		v.Add("limit", "kind idle has no limit", figureOf(p.Kind))
	}
	v.Under("", o.validate(p))
	return v.Err()
}

// figureOf is a hint: what can be set for an account under a policy of a kind.
func figureOf(k Kind) string {
	switch k {
	case Idle:
		return "give a gap, as in 50ms"
	case Volume:
		return "give a limit, as in 10MB"
	}
	return "give a limit, as in 50"
}

// fitting is the part of what is imposed that fits the policies.
func (rs *rules) fitting(imposed map[string]map[string]Override) map[string]map[string]Override {
	policies := make(map[string]*Policy, len(rs.Policies))
	for i := range rs.Policies {
		policies[rs.Policies[i].Name] = &rs.Policies[i]
	}
	own := make(map[string]map[string]Override, len(imposed))
	for account, byPolicy := range imposed {
		for policy, figures := range byPolicy {
			if p := policies[policy]; p == nil || figures.fits(p) != nil {
				continue
			}
			if own[account] == nil {
				own[account] = map[string]Override{}
			}
			own[account][policy] = figures
		}
	}
	return own
}

// overrides are the figures of a single account: what operators have imposed goes before what the options say.
func (rs *rules) overrides(account string) map[string]Override {
	own := rs.own[account]
	if len(own) == 0 {
		return rs.Overrides[account]
	}
	if len(rs.Overrides[account]) == 0 {
		return own
	}
	both := maps.Clone(rs.Overrides[account])
	maps.Copy(both, own)
	return both
}
