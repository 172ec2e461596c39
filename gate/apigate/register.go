package apigate

import (
	"sync"
	"time"

	"weir/gate"
	"weir/internal/clock"
	"weir/internal/queue"
)

// A register has every open hold. The goroutine that takes a hold out of it settles it, so that each is settled once.
// One timer, for the hold that expires first, serves all. It is safe for concurrent use.
type register struct {
	clock  clock.Clock
	seen   Observer
	expire func(*hold) // settles a hold that has expired

	mu     sync.Mutex
	open   map[string]*hold
	tally  gate.Tally         // whose these are
	due    queue.Ranked[hold] // the one that expires first goes first
	timer  clock.Timer
	wake   time.Time // when the timer fires
	closed bool
}

func newRegister(env Env, expire func(*hold)) *register {
	due := queue.NewRanked(func(a, b *hold) bool { return a.expires.Before(b.expires) },
		func(h *hold) *int { return &h.place })
	return &register{clock: env.Clock, seen: env.Observer, expire: expire, open: map[string]*hold{}, due: due}
}

// add enters a hold for a time, and returns when it expires; false when there is no room.
func (r *register) add(h *hold, ttl time.Duration, most int) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || !r.tally.Enter(h.who, most) {
		return time.Time{}, false
	}
	now := r.clock.Now()
	h.expires = now.Add(ttl)
	r.open[h.id] = h
	r.due.Add(h)
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
		r.due.Fix(h)
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
	r.due.Remove(h)
	r.tally.Leave(h.who)
	r.seen.Holds(-1)
}

// arm sets the timer for the hold that expires first, unless it fires early enough already. A timer that fires too
// early, for a hold that is gone, costs less than setting it again with every hold.
func (r *register) arm(now time.Time) {
	first := r.due.First()
	if first == nil || r.timer != nil && !first.expires.Before(r.wake) {
		return
	}
	r.stop()
	r.wake = first.expires
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
	for h := r.due.First(); h != nil && !h.expires.After(now); h = r.due.First() {
		over = append(over, h)
		r.remove(h)
	}
	r.stop() // it has fired, or another one has in its place
	r.arm(now)
	return over
}
