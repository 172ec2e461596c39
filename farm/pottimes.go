package farm

import (
	"math"
	"time"
)

// CallTimes are the bounds by which GuardStats counts how long calls took. A call that found no answer in CallTime ends
// a little later.
var CallTimes = [...]time.Duration{50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond,
	500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond,
	20 * time.Millisecond, 25 * time.Millisecond}

// recentTimes is how long calls are recent at least, and half of how long they are at most.
const recentTimes = time.Minute

// potTimes count calls by how long they took.
type potTimes struct {
	all    [len(CallTimes) + 1]uint64
	sum    time.Duration
	turned time.Time                  // when newer was taken
	newer  [len(CallTimes) + 1]uint64 // all, a while ago
	older  [len(CallTimes) + 1]uint64 // all, at the turn before
}

// add counts a call.
func (t *potTimes) add(now time.Time, took time.Duration) {
	t.turn(now)
	took = max(took, 0)
	i := 0
	for i < len(CallTimes) && took > CallTimes[i] {
		i++
	}
	t.all[i]++
	t.sum += took
}

// turn lets old calls be forgotten.
func (t *potTimes) turn(now time.Time) {
	passed := now.Sub(t.turned)
	if passed < recentTimes {
		return
	}
	t.older = t.newer
	if passed >= 2*recentTimes {
		t.older = t.all
	}
	t.newer, t.turned = t.all, now
}

// quantile estimates a quantile of the recent calls. Within two bounds they are taken to be spread evenly.
func (t *potTimes) quantile(q float64) time.Duration {
	var recent [len(CallTimes) + 1]uint64
	total := uint64(0)
	for i := range recent {
		recent[i] = t.all[i] - t.older[i]
		total += recent[i]
	}
	rank := math.Ceil(q * float64(total))
	low := time.Duration(0)
	for i, bound := range CallTimes {
		if n := float64(recent[i]); rank <= n && n > 0 {
			return low + time.Duration(rank/n*float64(bound-low))
		}
		rank -= float64(recent[i])
		low = bound
	}
	if total == 0 {
		return 0
	}
	return low
}
