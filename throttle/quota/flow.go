package quota

import (
	"time"

	"weir"
)

// Rations reports whether a policy counts bytes.
func (q *Quota) Rations() bool { return q.rules.Load().volume != 0 }

// flowing locks the account of a hold, and returns the rules of the hold that count bytes.
func (q *Quota) flowing(h *weir.Hold) (acc *account, rs *rules, taken uint64) {
	acc, _ = ownerOf(h)
	acc.shard.mu.Lock()
	rs = q.rules.Load()
	taken, _ = takenBy(h, rs)
	return acc, rs, taken & rs.volume
}

// Ask grants bytes before they flow, as far as the volume policies that delay have room, and charges them to every
// policy that counts bytes. Policies that refuse do not hold up what is under way. The whole is granted by any policy
// that has one byte left, as a request is let in; what is over the limit is a debt.
func (q *Quota) Ask(h weir.Hold, most int64, whole bool, now time.Time) (granted int64, again time.Time) {
	if h.B == 0 {
		return most, again // under no policy that counts bytes
	}
	acc, rs, taken := q.flowing(&h)
	defer acc.shard.mu.Unlock()
	at := acc.shard.clock(nanos(now))
	granted = most
	var wait int64
	acc.each(rs, taken, func(r *rule, t *terms, st *state) {
		if t.exempt || !r.delay && !whole {
			return
		}
		r.roll(st, t, at)
		left := r.left(st, t, at)
		want := min(most, r.worth(t))
		if r.shared != nil && !whole && left >= want {
			if left = min(left, r.ration(st, left, want)); left < want {
				acc.tell(r, st, t, never)
			}
		}
		switch {
		case whole && left > 0:
			return
		case !whole && left >= want:
			granted = min(granted, left)
			return
		}
		// Whoever waits asks again after max_wait at the latest: a limit may have been raised meanwhile.
		soonest, latest := at+int64(time.Millisecond), at+int64(r.Delay.MaxWait)
		wait = max(wait, soonest, min(r.when(st, t, at, want), latest))
	})
	switch {
	case wait > 0 && whole:
		return 0, again
	case wait > 0:
		return 0, time.Unix(0, wait)
	}
	acc.each(rs, taken, func(r *rule, t *terms, st *state) {
		r.roll(st, t, at)
		r.charge(st, t, at, granted)
		acc.mark(r, st, t, at)
	})
	return granted, again
}

// ration is how much of what is left may flow before the other nodes of a farm are told: bytes come so fast that all of
// them would else take the whole at the same time.
func (r *rule) ration(st *state, left, want int64) int64 {
	p := st.peers()
	if p == nil || r.way != inPeriods {
		return left
	}
	untold := p.own.total
	if p.own.slice != st.start {
		untold = 0
	} else if p.flown <= untold {
		untold -= p.flown
	}
	return max(want, left/(2*int64(len(p.list)+1))) - untold
}

// Return gives back what was asked for at a time and did not flow, as far as it still counts.
func (q *Quota) Return(h weir.Hold, n int64, asked, now time.Time) {
	if h.B == 0 {
		return
	}
	acc, rs, taken := q.flowing(&h)
	defer acc.shard.mu.Unlock()
	at := nanos(asked)
	acc.each(rs, taken, func(r *rule, t *terms, st *state) {
		// A nanosecond is kept: what a part takes up is rounded up, as the whole was.
		r.giveBack(st, t, at, n, max(at+1, nanos(now)))
		acc.mark(r, st, t, at)
	})
}

// worth is how much is worth waiting for where room comes byte by byte.
func (r *rule) worth(t *terms) int64 {
	const payload = 1400 // of a packet, about
	if r.way == steady {
		return max(1, min(t.burst/8, payload))
	}
	return 1
}

// Flow charges bytes to the volume policies that the event met, and says until when to pause where they delay.
func (q *Quota) Flow(h weir.Hold, n int64, now time.Time) time.Time {
	if h.B == 0 {
		return time.Time{} // under no policy that counts bytes
	}
	acc, rs, taken := q.flowing(&h)
	defer acc.shard.mu.Unlock()
	at := acc.shard.clock(nanos(now))
	var until int64
	acc.each(rs, taken, func(r *rule, t *terms, st *state) {
		r.roll(st, t, at)
		r.charge(st, t, at, n)
		acc.mark(r, st, t, at)
		if r.delay && !t.exempt {
			// The rest of a pause that would be longer than anybody may wait stays as a debt.
			until = max(until, min(r.when(st, t, at, 1), at+int64(r.Delay.MaxWait)))
		}
	})
	if until <= at {
		return time.Time{}
	}
	return time.Unix(0, until)
}
