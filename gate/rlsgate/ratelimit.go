package rlsgate

import (
	"context"
	"math"
	"slices"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"weir"
	"weir/policy"
)

// An item is one descriptor on its way.
type item struct {
	rule    *rule // imported; nil where nothing is limited
	account string
	hits    uint64
	pass    *policy.Pass // of a chain; nil where nothing is limited
	unfit   bool         // a key or value is too long, or it names its account twice
}

// A reply is what the service answers, and what it is made of.
type reply struct {
	rls.RateLimitResponse
	nearest  *rls.RateLimitResponse_DescriptorStatus // to its end, for the headers
	statuses []rls.RateLimitResponse_DescriptorStatus
	resets   []durationpb.Duration
	limits   []rls.RateLimitResponse_RateLimit // of throttles; rules have their own
}

// begin makes the reply one for n descriptors that are within their limits.
func (r *reply) begin(n int) {
	if cap(r.statuses) < n {
		r.statuses = make([]rls.RateLimitResponse_DescriptorStatus, n)
		r.resets = make([]durationpb.Duration, n)
		r.limits = make([]rls.RateLimitResponse_RateLimit, n)
		r.Statuses = make([]*rls.RateLimitResponse_DescriptorStatus, n)
	}
	r.statuses, r.resets, r.limits = r.statuses[:n], r.resets[:n], r.limits[:n]
	r.Statuses, r.nearest, r.ResponseHeadersToAdd = r.Statuses[:n], nil, nil
	r.OverallCode = rls.RateLimitResponse_OK
	for i := range r.statuses {
		st := &r.statuses[i]
		st.Code, st.CurrentLimit, st.LimitRemaining = rls.RateLimitResponse_OK, nil, 0
		st.DurationUntilReset = nil
		r.Statuses[i], r.resets[i].Seconds = st, 0
	}
}

// rateLimit fills in the reply of the rate limit service to Envoy.
func (g *Gate) rateLimit(ctx context.Context, req *rls.RateLimitRequest, r *reply) (err error) {
	v, err := g.enter(ctx)
	code := CodeFailed
	defer v.leave(ServiceRateLimit, &code, &err)
	if err != nil {
		return err
	}
	if err := v.check(req); err != nil {
		return err
	}
	r.begin(len(req.Descriptors))
	dom := v.setup.domains[req.Domain]
	if dom != nil {
		if err := v.limit(ctx, dom, req, r); err != nil {
			return err
		}
	}
	if v.setup.opts.Headers.Send && r.nearest != nil {
		r.ResponseHeadersToAdd = v.setup.opts.Headers.about(r.nearest, v.now)
	}
	code = CodeOK
	if r.OverallCode == rls.RateLimitResponse_OVER_LIMIT {
		code = CodeOverLimit
	}
	return nil
}

// check checks a request against the bounds, and notes which descriptors are too long to be counted.
func (v *visit) check(req *rls.RateLimitRequest) error {
	b := &v.setup.opts.Bounds
	switch n := len(req.Descriptors); {
	case req.Domain == "":
		return invalid("the request names no domain")
	case n == 0:
		return invalid("the request has no descriptors")
	case n > b.Descriptors:
		v.gate.env.Observer.Bounded(BoundDescriptors)
		return invalid("the request has %d descriptors; there may be %d", n, b.Descriptors)
	}
	v.items = slices.Grow(v.items[:0], len(req.Descriptors))
	for _, d := range req.Descriptors {
		if n := len(d.Entries); n > b.Entries {
			v.gate.env.Observer.Bounded(BoundEntries)
			return invalid("a descriptor has %d entries; there may be %d", n, b.Entries)
		}
		it := item{hits: hits(req, d)}
		for _, e := range d.Entries {
			if len(e.Key) > int(b.Value) || len(e.Value) > int(b.Value) {
				it.unfit = true
			}
		}
		if it.unfit {
			v.gate.env.Observer.Bounded(BoundValue)
		}
		v.items = append(v.items, it)
	}
	return nil
}

// hits is how much a descriptor charges: its own figure, which may be 0, or that of the request, which is at least 1.
func hits(req *rls.RateLimitRequest, d *common.RateLimitDescriptor) uint64 {
	switch {
	case d.IsNegativeHits: // it is not known what they were charged to
		return 0
	case d.HitsAddend != nil:
		return d.HitsAddend.Value
	}
	return uint64(max(req.HitsAddend, 1))
}

// limit judges all descriptors of a request and fills in the reply.
func (v *visit) limit(ctx context.Context, dom *domain, req *rls.RateLimitRequest, r *reply) error {
	for i, d := range req.Descriptors {
		it := &v.items[i]
		if _, plain := dom.parts(nil, d.Entries); !it.unfit && (!plain || dom.opts.doubtful(d.Entries)) {
			it.unfit = true
			v.gate.env.Observer.Bounded(BoundAccount)
		}
		if it.unfit {
			r.over(i)
			continue
		}
		if d.Limit != nil {
			if err := v.overridden(it, req.Domain, d); err != nil {
				return err
			}
		} else if dom.tree != nil {
			v.key, it.rule = dom.tree.match(v.key[:0], req.Domain, d.Entries)
			if it.rule != nil && !it.rule.unlimited {
				it.account = account(string(v.key))
			}
		}
	}
	if dom.chain != nil {
		if err := v.judge(ctx, dom, req, r); err != nil {
			return err
		}
	}
	return v.count(ctx, r)
}

// overridden finds the counter for a limit that a descriptor brings itself.
func (v *visit) overridden(it *item, domain string, d *common.RateLimitDescriptor) error {
	r := Rule{Unit: Unit(d.Limit.Unit), Limit: d.Limit.RequestsPerUnit}
	if !r.Unit.valid() {
		return invalid("a descriptor brings a limit with the unknown unit %d", d.Limit.Unit)
	}
	if v.setup.counters.limit == nil {
		return nil
	}
	most := v.setup.opts.Bounds.Overrides
	c, full, err := v.setup.counters.override(r, most)
	switch {
	case full:
		v.gate.env.Observer.Bounded(BoundOverrides)
		return status.Errorf(codes.ResourceExhausted,
			"descriptors have brought %d different limits, and there may be no more", most)
	case err != nil:
		v.gate.env.Log.Error("a limit cannot be counted", "limit", r.String(), "err", err)
		return status.Error(codes.Unavailable, "the limit cannot be counted")
	}
	v.key = keyOf(v.key[:0], domain, d.Entries)
	it.account = account(string(v.key))
	it.rule = &rule{Rule: r, counter: c,
		told: &rls.RateLimitResponse_RateLimit{RequestsPerUnit: r.Limit,
			Unit: rls.RateLimitResponse_RateLimit_Unit(r.Unit)}}
	return nil
}

// count charges every descriptor that falls under a rule by itself, as the original does, except those whose rule is
// replaced by another.
func (v *visit) count(ctx context.Context, r *reply) error {
	for i := range v.items {
		it := &v.items[i]
		if it.rule == nil {
			continue
		}
		if it.rule.unlimited {
			r.statuses[i].LimitRemaining = math.MaxUint32
			continue
		}
		if v.replaced(it.rule) {
			continue
		}
		if err := v.charge(ctx, it, i, r); err != nil {
			return err
		}
	}
	return nil
}

// replaced reports whether the rule of another descriptor of the request replaces this one.
func (v *visit) replaced(r *rule) bool {
	if r.name == "" {
		return false
	}
	for i := range v.items {
		if other := v.items[i].rule; other != nil && slices.Contains(other.replaces, r.name) {
			return true
		}
	}
	return false
}

// charge counts one descriptor.
func (v *visit) charge(ctx context.Context, it *item, i int, r *reply) error {
	rule, link, st := it.rule, it.rule.counter.link, &r.statuses[i]
	v.event = weir.Event{Time: v.now, Kind: "rls", Account: it.account}
	left, over, err := rule.counter.hit(ctx, &v.event, &v.answer, it.hits)
	if err != nil {
		link.Counts.Errors.Add(1)
		v.gate.env.Log.Error("a throttle failed", "throttle", link.Name, "err", err)
		if link.OnError == policy.Open {
			return nil
		}
		return status.Error(codes.Unavailable, "the limit cannot be counted")
	}
	st.CurrentLimit, st.LimitRemaining = rule.told, left
	shadow := rule.shadow || link.Shadow.Load()
	verdict := weir.Admit
	if over {
		verdict = weir.Refuse
	}
	if over {
		link.Refused(&v.event, v.answer.Figure, v.setup.opts.Listen, shadow)
	}
	if shadow {
		link.Counts.Shadowed[verdict].Add(1)
	} else {
		link.Counts.Verdicts[verdict].Add(1)
	}
	if over && !shadow && rule.quota { // the original says no more than this
		r.near(st)
		return nil
	}
	r.resets[i].Seconds = rule.Unit.untilReset(v.now)
	st.DurationUntilReset = &r.resets[i]
	if over && !shadow {
		r.over(i)
		return nil
	}
	r.near(st)
	return nil
}

// over makes descriptor i, and with it the request, over the limit.
func (r *reply) over(i int) {
	r.statuses[i].Code = rls.RateLimitResponse_OVER_LIMIT
	r.OverallCode = rls.RateLimitResponse_OVER_LIMIT
	if r.statuses[i].CurrentLimit != nil {
		r.nearest = &r.statuses[i]
	}
}

// near notes a limit that is nearer to its end than those before it.
func (r *reply) near(st *rls.RateLimitResponse_DescriptorStatus) {
	if st.CurrentLimit == nil || r.nearest != nil && st.LimitRemaining >= r.nearest.LimitRemaining {
		return
	}
	r.nearest = st
}
