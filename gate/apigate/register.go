package apigate

import (
	"container/heap"
	"sync"
	"time"

	"weir/internal/clock"
)

// A register has every open hold. The goroutine that takes a hold out of it settles it, so that each is settled once.
// One timer, for the hold that expires first, serves all. It is safe for concurrent use.
type register struct {
	clock  clock.Clock
	seen   Observer
	expire func(*hold) // settles a hold that has expired

	mu     sync.Mutex
	open   map[string]*hold
	due    expiries
	timer  clock.Timer
	wake   time.Time // when the timer fires
	closed bool
}

func newRegister(env Env, expire func(*hold)) *register {
	return &register{clock: env.Clock, seen: env.Observer, expire: expire, open: map[string]*hold{}}
}

// add enters a hold for a time, and returns when it expires; false when there is no room.
func (r *register) add(h *hold, ttl time.Duration, most int) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.open) >= most {
		return time.Time{}, false
	}
	now := r.clock.Now()
	h.expires = now.Add(ttl)
	r.open[h.id] = h
	heap.Push(&r.due, h)
	r.arm(now)
	r.seen.Holds(1)
	return h.expires, true
}

// find returns the hold of an id, or nil.
func (r *register) find(id string) *hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open[id]
}

// keep lets a hold live for at least a time, and returns when it expires; false when it is no longer open.
func (r *register) keep(h *hold, ttl time.Duration) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[h.id] != h {
		return time.Time{}, false
	}
	if later := r.clock.Now().Add(ttl); later.After(h.expires) {
		h.expires = later
		heap.Fix(&r.due, h.index)
	}
	return h.expires, true
}

// take takes a hold out and reports whether it was there. If so, the caller must settle it.
func (r *register) take(h *hold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open[h.id] != h {
		return false
	}
	r.remove(h)
	return true
}

// close takes out all holds, and lets no more in.
func (r *register) close() []*hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	var rest []*hold
	for _, h := range r.open {
		rest = append(rest, h)
		r.remove(h)
	}
	r.stop()
	return rest
}

// remove, arm and stop are called with r.mu held.
func (r *register) remove(h *hold) {
	delete(r.open, h.id)
	heap.Remove(&r.due, h.index)
	r.seen.Holds(-1)
}

// arm sets the timer for the hold that expires first, unless it fires early enough already. A timer that fires too
// early, for a hold that is gone, costs less than setting it again with every hold.
func (r *register) arm(now time.Time) {
	if len(r.due) == 0 || r.timer != nil && !r.due[0].expires.Before(r.wake) {
		return
	}
	r.stop()
	r.wake = r.due[0].expires
	r.timer = r.clock.AfterFunc(r.wake.Sub(now), r.run)
}

func (r *register) stop() {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
}

// run ends the holds that have expired.
func (r *register) run() {
	for _, h := range r.expired() {
		r.seen.Expired()
		r.expire(h)
	}
}

func (r *register) expired() (over []*hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	for len(r.due) > 0 && !r.due[0].expires.After(now) {
		over = append(over, r.due[0])
		r.remove(r.due[0])
	}
	r.stop() // it has fired, or another one has in its place
	r.arm(now)
	return over
}

// expiries is a heap of holds, the one that expires first on top.
type expiries []*hold

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].expires.Before(e[j].expires) }
func (e expiries) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].index, e[j].index = i, j
}

func (e *expiries) Push(x any) {
	h := x.(*hold)
	h.index = len(*e)
	*e = append(*e, h)
}

func (e *expiries) Pop() any {
	last := len(*e) - 1
	h := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return h
}
