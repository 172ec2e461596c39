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
		if r.lends(t) {
			left, until := acc.lendBytes(rs, r, t, at, most, whole)
			if left >= want {
				granted = min(granted, left)
			} else {
				wait = max(wait, until)
			}
			return
		}
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

// lendBytes is how many bytes of what is on loan may flow, or until when to wait for some. The engine is asked
// meanwhile. The whole flows as long as the engine had something left: what is over is a debt of all nodes.
func (a *account) lendBytes(rs *rules, r *rule, t *terms, now, most int64, whole bool) (left, until int64) {
	ln := a.borrows(rs, r)
	st := a.state(r)
	room := st.room(now)
	if ln.want = max(ln.want, min(most, r.most(t))); room > 0 {
		if whole {
			return most, 0
		}
		return room, 0
	}
	switch how := r.credit(st, 1, now); {
	case t.nothing():
	case how == denied:
		return 0, max(now+int64(time.Millisecond), min(ln.no, now+int64(r.Delay.MaxWait)))
	case how != cut:
		ln.borrower.call(now)
		if whole && ln.left > 0 {
			return most, 0
		}
		return 0, now + int64(time.Millisecond)
	}
	ln.borrower.probe(now)
	switch {
	case t.nothing() || r.OnLoss == LossClosed:
	case r.alone(st, t, now, most) <= now:
		return most, 0
	case r.alone(st, t, now, r.worth(t)) <= now:
		return r.worth(t), 0
	}
	return 0, now + tellLater
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
		r.give(st, t, at, n, max(at+1, nanos(now)))
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
