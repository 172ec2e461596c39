package app

import (
	"maps"
	"slices"
	"sync"

	"weir"
	"weir/console"
	"weir/gate/rlsgate"
	"weir/policy"
	"weir/throttle/quota"
)

// prepareRLS keeps the gate for Envoy whose address stays, or makes one.
func (c *change) prepareRLS(o rlsgate.Options) (*gate, error) {
	o = o.WithDefaults()
	parts := rlsgate.Parts{Domains: map[string]*policy.Chain{}}
	var err error
	for _, name := range slices.Sorted(maps.Keys(o.Domains)) {
		if parts.Domains[name], err = c.chain("domains."+name+".throttles", o.Domains[name].Throttles); err != nil {
			return nil, err
		}
	}
	gt := &gate{kind: "rls", listen: o.Listen,
		status: console.GateStatus{Policies: slices.Sorted(maps.Keys(o.Domains))}}
	if o.Authz != nil {
		if parts.Authz, err = c.chain("authz.throttles", o.Authz.Throttles); err != nil {
			return nil, err
		}
		gt.chain, gt.trusts, gt.account, gt.status.Throttles = parts.Authz, trusts(o.Authz.TrustedProxies),
			o.Authz.Account, o.Authz.Throttles
	}
	old := c.keep(gt.kind, gt.listen)
	if old == nil {
		gt.seen, gt.limits = &observer{all: c.app.metrics}, &envoyLimits{app: c.app}
		parts.Limit = gt.limits.link
		env := rlsgate.Env{Env: c.app.envOf(o.Listen), Observer: rlsObserver{gt.seen, o.Listen}, Offend: c.app.offend}
		if gt.rls, err = rlsgate.New(o, parts, env); err != nil {
			return nil, err
		}
	} else {
		gt.rls, gt.seen, gt.limits = old.rls, old.seen, old.limits
		parts.Limit = gt.limits.link
		commit, abort, err := gt.rls.Prepare(o, parts)
		if err != nil {
			return nil, err
		}
		c.reuse(commit, abort)
	}
	gt.server, gt.load = gt.rls, gt.seen.load
	gt.forget = func(m *console.Metrics) { m.ForgetRLS(o.Listen) }
	if old == nil {
		err = c.open(gt)
	}
	return gt, err
}

// envoyAccounts is how many values are counted apart for rules of one unit. Those beyond share limits.
const envoyAccounts = 1_000_000

// envoyLimits count what imported rules of Envoy's service limit: one quota for each unit, in which each limit is a
// plan, so that a limit that changes keeps its counters.
type envoyLimits struct {
	app *App

	mu    sync.Mutex
	units map[rlsgate.Unit]*envoyUnit
}

// An envoyUnit is the quota of one unit.
type envoyUnit struct {
	link  *policy.Link
	quota *quota.Quota
	plans map[string]map[string]quota.Override
}

// link returns what counts a rule.
func (l *envoyLimits) link(r rlsgate.Rule) (*policy.Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unit := l.units[r.Unit]
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
	o := quota.Options{Plans: plans, MaxAccounts: envoyAccounts, Policies: []quota.Policy{{Name: name,
		Limit: quota.Amount{N: 1, Set: true}, Period: weir.Period{Length: r.Unit.Period()}}}}
	var err error
	if unit.quota == nil {
		if unit.quota, err = quota.New(o); err == nil {
			unit.link = policy.NewLink("rls/"+name, unit.quota, policy.Closed)
			l.app.pace.start(unit.quota)
		}
	} else {
		err = unit.quota.Configure(o, l.app.opts.Clock.Now())
	}
	if err != nil {
		return nil, err
	}
	if l.units == nil {
		l.units = map[rlsgate.Unit]*envoyUnit{}
	}
	unit.plans = plans
	l.units[r.Unit] = unit
	return unit.link, nil
}

// retire ends the quotas.
func (l *envoyLimits) retire() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, unit := range l.units {
		unit.quota.Retire(l.app.opts.Clock.Now())
	}
	l.units = nil
}

// A rlsObserver is an observer as a gate for Envoy knows it.
type rlsObserver struct {
	*observer
	gate string
}

var _ rlsgate.Observer = rlsObserver{}

// Answered counts an answer.
func (o rlsObserver) Answered(service, code string) { o.all.EnvoyAnswered(o.gate, service, code) }

// Bounded counts what was turned away at a bound.
func (o rlsObserver) Bounded(bound string) { o.all.BoundReached("rls_" + bound) }
