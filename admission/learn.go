package admission

import (
	"math"
	"time"
)

const (
	// tolerance is how many times as long as by itself a request may take before the limit is lowered.
	tolerance = 1.4
	// smooth is the part of the way to a new limit that one window may go.
	smooth = 0.3
	// A window ends after windowShort with windowMany requests, and at least twice the limit. With fewer requests it
	// ends after windowLong, if there were windowFew.
	windowMany, windowFew   = 100, 10
	windowShort, windowLong = int64(100 * time.Millisecond), int64(2 * time.Second)
	// A probe ends after probeMany requests. Quick requests end first, so counting begins after probeFrom times what a
	// request takes by itself, and lasts at least until probeOver times that.
	probeMany            = 100
	probeFrom, probeOver = 2, 5
	// A probe is given up if it takes longer than drainLong until so few are in use, or then longer than probeLong.
	drainLong, probeLong = int64(time.Second), int64(10 * time.Second)
	// If half of the limit gets this share of the work done, the limit was too high.
	enough = 0.95
	// forget is how long the base is believed; hasten is how long the first one is, before a probe has looked at it.
	forget, hasten = int64(30 * time.Second), int64(3 * time.Second)
)

// A learner finds out how many requests an upstream can work on at once, from how long they take, in windows of about a
// hundred requests. As long as a request takes about as long as by itself, more are let through, by the square root of
// the limit; when it takes longer, fewer, in proportion. Nothing is learnt while less than half is in use.
//
// How long a request takes by itself is the least mean seen recently. When it has not been seen for a while, because
// the upstream was busy, half as many are let through for a moment (a probe). If as much is done then, it was far too
// many.
//
// Means are geometric: overload makes all requests slower by a factor; a download of an hour is one among many.
type learner struct {
	least, most float64
	limit       float64

	from int64   // when the window began
	sum  float64 // of the logarithms of what requests took in this window
	n    int     // requests in this window
	peak int     // the most in use in this window
	mean float64 // what requests took in the last window

	base  float64 // what a request takes by itself; 0 if that is not known
	fresh int64   // the time until which base is believed

	probe   int   // the capacity during a probe; 0 without one
	drained int64 // since when no more than probe are in use; 0 if more are
	until   int64 // when the probe is given up
}

// bound sets the bounds of the limit, and the limit to begin with.
func (r *learner) bound(least, most, begin int) {
	r.least, r.most = float64(least), float64(most)
	if r.limit == 0 {
		r.limit = float64(begin)
	}
	r.limit = max(r.least, min(r.limit, r.most))
}

func (r *learner) capacity() int {
	if r.probe > 0 {
		return r.probe
	}
	return r.usual()
}

// usual is how many the upstream can work on at once, as far as is known.
func (r *learner) usual() int { return int(math.Round(r.limit)) }

func (r *learner) used(n int) { r.peak = max(r.peak, n) }

// learn counts a request that is done. inUse is how many others are under way.
func (r *learner) learn(began, at int64, inUse int) {
	took := at - began
	if took <= 0 {
		return
	}
	if r.probe > 0 {
		r.look(took, began, at, inUse)
		return
	}
	if r.from == 0 {
		r.from = began
	}
	r.sum += math.Log(float64(took))
	r.n++
	span, many := at-r.from, max(windowMany, int(2*r.limit))
	if !(r.n >= many && span >= windowShort || r.n >= windowFew && span >= windowLong) {
		return
	}
	peak := float64(r.peak)
	r.mean = r.nextWindow(at, inUse)
	switch {
	case r.base == 0:
		r.base, r.fresh = r.mean, at+hasten
	case r.mean < r.base:
		r.base += (r.mean - r.base) / 2
	case peak < r.limit/2:
		// The upstream has little to do: requests take what they take by themselves.
		r.base += (r.mean - r.base) / 10
	}
	if peak < r.limit/2 {
		r.fresh = at + forget
		return
	}
	next := r.limit*max(0.5, min(r.base*tolerance/r.mean, 1)) + math.Sqrt(r.limit)
	r.limit = max(r.least, min(r.limit+(next-r.limit)*smooth, r.most))
	if at >= r.fresh && !r.begin(at) {
		// The limit is too low for a probe. What takes longer for so long probably does so by itself.
		r.base += (r.mean - r.base) / 10
		r.fresh = at + forget
	}
}

// begin begins a probe. It reports false if the least capacity is too close to the limit for one.
func (r *learner) begin(at int64) bool {
	half := int(max(r.least, r.limit/2))
	if float64(half) > 0.75*r.limit {
		return false
	}
	r.probe, r.drained = half, 0
	r.until = at + max(drainLong, int64(3*r.mean))
	return true
}

// look counts a request that is done during a probe. Requests that began before so few were in use do not count.
func (r *learner) look(took, began, at int64, inUse int) {
	if r.drained == 0 && inUse <= r.probe {
		r.drained = at
		r.until = at + max(probeLong, int64(2*probeOver*r.base))
	}
	if r.drained == 0 || began < r.drained || float64(at-r.drained) < probeFrom*r.base {
		return
	}
	r.sum += math.Log(float64(took))
	if r.n++; r.n >= probeMany && float64(at-r.drained) >= probeOver*r.base {
		r.end(at, inUse)
	}
}

// end ends a probe. What was seen becomes the base, if there were enough requests.
func (r *learner) end(at int64, inUse int) {
	n, half := r.n, r.probe
	found := r.nextWindow(at, inUse)
	r.probe, r.fresh = 0, at+forget
	if n < windowFew {
		return
	}
	r.base = found
	if float64(half)/found > enough*r.limit/r.mean {
		// As much was done with half as many at once: it was too many all along, and may still be.
		r.limit, r.mean = float64(half), found
		r.begin(at)
	}
}

// adopt takes over what another node has learnt, and goes on from there.
func (r *learner) adopt(limit, base float64, at int64) {
	*r = learner{least: r.least, most: r.most, limit: max(r.least, min(limit, r.most)), base: base, fresh: at + forget,
		peak: r.peak}
}

func (r *learner) nextWindow(at int64, inUse int) (mean float64) {
	mean = math.Exp(r.sum / float64(max(1, r.n)))
	r.from, r.sum, r.n, r.peak = at, 0, 0, inUse
	return mean
}
