package app

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"

	"weir"
	"weir/console"
	"weir/gate/rlsgate"
	"weir/policy"
	"weir/throttle/quota"
)

func (c *change) planRLS(p *gatePlan, o rlsgate.Options) error {
	chains, err := c.chains(p, o)
	if err != nil {
		return err
	}
	if p.old == nil {
		p.state = &envoyLimits{app: c.app, gate: o.Listen}
	}
	limits, exact := p.state.(*envoyLimits), o.Farm == rlsgate.FarmExact
	names := slices.Sorted(maps.Keys(o.Domains))
	p.status.Policies = names
	parts := rlsgate.Parts{Domains: map[string]*policy.Chain{},
		Limit: func(r rlsgate.Rule) (*policy.Link, error) { return limits.link(r, exact) }}
	for _, name := range names {
		parts.Domains[name] = chains["domains."+name+".throttles"]
	}
	parts.Authz = chains["authz.throttles"]
	if p.chain = parts.Authz; o.Authz != nil {
		p.status.Throttles = o.Authz.Throttles
	}
	wire(p, func() (*rlsgate.Gate, error) {
		return rlsgate.New(o, parts, rlsgate.Env{Env: c.app.envOf(o.Listen),
			Observer: rlsObserver{p.seen, c.app.metrics, o.Listen}, Offend: c.app.offend})
	}, func(g *rlsgate.Gate) (func(), func(), error) { return g.Prepare(o, parts) })
	return nil
}

// envoyAccounts is how many values are counted apart for rules of one unit. Those beyond share limits.
const envoyAccounts = 1_000_000

// envoyLimits count what imported rules of Envoy's service limit: one quota for each unit, in which each limit is a
// plan, so that a limit that changes keeps its counters.
type envoyLimits struct {
	app  *App
	gate string // where it listens

	mu    sync.Mutex
	units map[envoyKey]*envoyUnit
}

// An envoyKey is what has a quota of its own.
type envoyKey struct {
	unit  rlsgate.Unit
	exact bool // counted with the other nodes
}

// An envoyUnit is the quota of one unit.
type envoyUnit struct {
	link  *policy.Link
	quota *quota.Quota
	plans map[string]map[string]quota.Override
}

// link returns what counts a rule.
func (l *envoyLimits) link(r rlsgate.Rule, exact bool) (*policy.Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := envoyKey{r.Unit, exact}
	unit := l.units[key]
	if unit == nil {
		unit = &envoyUnit{}
	} else if _, known := unit.plans[r.Plan()]; known {
		return unit.link, nil
	}
	plans := maps.Clone(unit.plans)
	if plans == nil {
		plans = map[string]map[string]quota.Override{}
	}
	name := r.Unit.String()
	plans[r.Plan()] = map[string]quota.Override{name: {Limit: quota.Amount{N: r.Room(), Set: true}}}
	p := quota.Policy{Name: name, Limit: quota.Amount{N: 1, Set: true}, Period: weir.Period{Length: r.Unit.Period()},
		Farm: quota.FarmLocal}
	if exact {
		p.Farm, p.Ahead = quota.FarmExact, quota.Count(0) // the original asks for each request, too
	}
	o := quota.Options{Plans: plans, MaxAccounts: envoyAccounts, Policies: []quota.Policy{p}}
	var err error
	if unit.quota == nil {
		if unit.quota, err = quota.New(o); err == nil {
			unit.link = l.app.watchedLink("rls/"+name, unit.quota, policy.Closed)
			l.app.pace.Start(unit.quota)
		}
	} else {
		err = unit.quota.Configure(o, l.app.clock.Now())
	}
	if err != nil {
		return nil, err
	}
	if l.units == nil {
		l.units = map[envoyKey]*envoyUnit{}
	}
	unit.plans = plans
	l.units[key] = unit
	return unit.link, l.lend(l.app.member.Load())
}

// lend has exact units counted in the engine of a farm, once there is one. The limits are locked.
func (l *envoyLimits) lend(m *member) error {
	if !m.lends() {
		return nil
	}
	for key, unit := range l.units {
		name := fmt.Sprintf("rls.%x.%s", sha256.Sum256([]byte(l.gate)), key.unit)
		if key.exact && !m.lenders.has(name) {
			if err := m.lend(name, unit.quota, true); err != nil {
				return fmt.Errorf("rls %s: %w", l.gate, err)
			}
		}
	}
	return nil
}

// retire ends the quotas.
func (l *envoyLimits) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.app.member.Load(); m != nil {
		m.lenders.remove(func(_ string, q *lentQuota) bool {
			for _, unit := range l.units {
				if unit.quota == q.quota {
					return false
				}
			}
			return true
		})
	}
	for _, unit := range l.units {
		unit.quota.Retire(l.app.clock.Now())
	}
	l.units = nil
}

// A rlsObserver writes what happens at a gate for Envoy into the metrics.
type rlsObserver struct {
	*traffic
	all  *console.Metrics
	gate string
}

var _ rlsgate.Observer = rlsObserver{}

func (o rlsObserver) Answered(service, code string) {
	switch code {
	case rlsgate.CodeOK:
		o.judged[weir.Admit].Add(1)
	case rlsgate.CodeOverLimit, rlsgate.CodeDenied:
		o.judged[weir.Refuse].Add(1)
	}
	o.all.Count("weir_rls_answers_total", 1, o.gate, service, code)
}

func (o rlsObserver) Bounded(bound string) { o.all.BoundReached("rls_" + bound) }
