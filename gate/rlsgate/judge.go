package rlsgate

import (
	"context"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"

	"weir"
	"weir/gate/refusal"
)

// judge puts the descriptors that name an account before the chain of their domain. It takes for all of them or for
// none: when one is refused, what the others took is given back. A descriptor that must wait is held if max_wait allows
// it, and is over the limit otherwise.
func (v *visit) judge(ctx context.Context, dom *domain, req *rls.RateLimitRequest, r *reply) error {
	refused, waits := r.OverallCode == rls.RateLimitResponse_OVER_LIMIT, false
	for i, d := range req.Descriptors {
		it := &v.items[i]
		if it.unfit || it.rule != nil {
			continue // a descriptor with its own limit is counted by that
		}
		v.event = weir.Event{Time: v.now, Kind: "rls", Cost: int64(min(it.hits, maxCost))}
		if !dom.opts.event(&v.event, d.Entries) {
			continue
		}
		v.parts, _ = dom.parts(v.parts[:0], d.Entries) // limit has turned away what is not clear
		v.event.Parts = v.parts
		if it.hits == 0 {
			v.peek(dom, i, r)
			continue
		}
		it.pass = v.pass()
		dom.chain.Judge(ctx, &v.event, it.pass)
		a := &it.pass.Answer
		if a.Ban {
			v.gate.env.Offend(&v.event, a)
		}
		switch {
		case a.Verdict == weir.Wait && v.worthWaiting(it.pass):
			waits = true
		case a.Verdict != weir.Admit:
			refused = true
		}
	}
	if waits && !refused {
		for i := range v.items {
			p := v.items[i].pass
			if p == nil || p.Answer.Verdict != weir.Wait || refused {
				continue
			}
			if err := v.await(ctx, p); err != nil && ctx.Err() != nil {
				return status.FromContextError(err).Err()
			}
			refused = refused || p.Answer.Verdict != weir.Admit
		}
	}
	for i := range v.items {
		if p := v.items[i].pass; p != nil {
			// A wait that ended because another descriptor was refused is not a refusal.
			over := p.Answer.Verdict != weir.Admit && (p.Answer.Verdict != weir.Wait || !v.worthWaiting(p))
			v.tell(&p.Answer, i, over, r)
		}
	}
	if refused && r.OverallCode == rls.RateLimitResponse_OK { // a turn did not come
		for i := range v.items {
			if p := v.items[i].pass; p != nil && p.Answer.Verdict != weir.Admit {
				r.over(i)
			}
		}
	}
	v.settle(!refused)
	return nil
}

// maxCost is the most that an event may cost: more than any limit, and far from where sums overflow.
const maxCost = 1 << 60

// peek asks about a descriptor that charges nothing.
func (v *visit) peek(dom *domain, i int, r *reply) {
	v.event.Cost = 1
	steps, a := dom.chain.Explain(&v.event)
	if a.Verdict == weir.Admit {
		for _, s := range steps {
			for _, f := range s.Answer.Figures {
				if f.Unit == "requests" && !s.Shadow {
					f.Remaining++ // what would be charged is not
					a.Figures = append(a.Figures, f)
				}
			}
		}
	}
	v.tell(&a, i, a.Verdict != weir.Admit, r)
}

// tell puts an answer of the throttles into the status of a descriptor.
func (v *visit) tell(a *weir.Answer, i int, over bool, r *reply) {
	st := &r.statuses[i]
	f := &a.Figure
	if f.Unit == "" && f.Limit == 0 {
		f = nearest(a.Figures)
	}
	if f != nil {
		limit := &r.limits[i]
		limit.Name, limit.RequestsPerUnit, limit.Unit = f.Rule, clamp(f.Limit), unitOf(f.Window)
		st.CurrentLimit = limit
		st.LimitRemaining = clamp(f.Remaining)
		if seconds := refusal.WholeSeconds(until(a, f).Sub(v.now)); seconds > 0 {
			r.resets[i].Seconds = seconds
			st.DurationUntilReset = &r.resets[i]
		}
	}
	if over {
		r.over(i)
	} else {
		r.near(st)
	}
}

// until is when the limit begins anew, or when there is room again, whichever is later.
func until(a *weir.Answer, f *weir.Figure) time.Time {
	if a.Until.After(f.Reset) {
		return a.Until
	}
	return f.Reset
}

// nearest is the figure with the least left. Figures of requests go before others.
func nearest(figures []weir.Figure) *weir.Figure {
	var best *weir.Figure
	for i := range figures {
		f := &figures[i]
		if best == nil || (f.Unit == "requests") != (best.Unit == "requests") && f.Unit == "requests" ||
			(f.Unit == "requests") == (best.Unit == "requests") && f.Remaining < best.Remaining {
			best = f
		}
	}
	return best
}

// unitOf is the unit that a window is called by. Others have none.
func unitOf(w weir.Window) rls.RateLimitResponse_RateLimit_Unit {
	length, calendar := w.Length(), w.Calendar() != weir.NoCalendar
	for u, known := range units {
		if known.name != "" && (calendar && known.name == w.String() || !calendar && known.period == length) {
			return rls.RateLimitResponse_RateLimit_Unit(u)
		}
	}
	return rls.RateLimitResponse_RateLimit_UNKNOWN
}

// about are the headers about a limit.
func (h *Headers) about(st *rls.RateLimitResponse_DescriptorStatus, now time.Time) []*core.HeaderValue {
	reset := strconv.FormatInt(resetOf(st, now), 10)
	all := []*core.HeaderValue{
		{Key: h.Limit, Value: strconv.FormatUint(uint64(st.CurrentLimit.RequestsPerUnit), 10)},
		{Key: h.Remaining, Value: strconv.FormatUint(uint64(st.LimitRemaining), 10)},
		{Key: h.Reset, Value: reset},
	}
	if st.Code == rls.RateLimitResponse_OVER_LIMIT && reset != "0" {
		all = append(all, &core.HeaderValue{Key: "Retry-After", Value: reset})
	}
	return all
}

// resetOf is in how many seconds the limit begins anew; 0 when that is not known.
func resetOf(st *rls.RateLimitResponse_DescriptorStatus, now time.Time) int64 {
	if st.DurationUntilReset != nil {
		return st.DurationUntilReset.Seconds
	}
	if u := Unit(st.CurrentLimit.Unit); u.valid() {
		return u.untilReset(now)
	}
	return 0
}
