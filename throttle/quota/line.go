package quota

import (
	"time"

	"weir"
	"weir/internal/queue"
)

// A line is those of one account who wait. It is made when somebody waits for the first time.
type line struct {
	account  *account
	waiters  queue.Listed[waiter]
	waiting  int
	delaying uint64  // rules that somebody in line waits, or waited, for
	deadline int64   // not after the earliest deadline in line
	due      int64   // when call has something to do
	called   *waiter // the one that was called last and is not yet on its way
	held     int64   // until when it holds up those behind it
	position int     // in shard.due
}

func (a *account) queue() *line {
	own := a.own()
	if own.line == nil {
		own.line = &line{account: a, deadline: never, due: never}
	}
	return own.line
}

// waits reports whether somebody is in the account's line.
func (a *account) waits() bool {
	l := a.line()
	return l != nil && l.waiting > 0
}

func (a *account) callDue(rs *rules, now int64) {
	if l := a.line(); l != nil && l.due != never {
		l.call(rs, now)
	}
}

// A waiter is an event in its account's line. It is called when every rule in its mask has room for it.
type waiter struct {
	node     queue.Node[waiter]
	account  *account
	turn     *weir.Turn
	stranger *stranger // whose event it is, where that has no account of its own
	version  uint32    // of the rules that mask, delayed and charged speak of
	mask     uint64    // what it will be charged to
	delayed  uint64    // because of which rules it waits, and is counted as waiting
	charged  uint64    // what it has been charged to
	cost     int64
	at       int64 // when it was charged
	deadline int64
	patience int64 // how long after joining the deadline is
	inLine   bool
}

// each calls f for those of the waiter's rules in a mask that still count the same.
func (w *waiter) each(rs *rules, mask uint64, f func(*rule, *terms, *state)) {
	w.account.each(rs, rs.still(mask, w.version), f)
}

func (l *line) join(rs *rules, w *waiter) {
	if l.waiting == 0 {
		l.deadline = never
	}
	l.deadline = min(l.deadline, w.deadline)
	l.waiters.Add(&w.node, w)
	w.account, w.inLine = l.account, true
	delayed := w.delayed
	w.delayed = 0
	w.each(rs, w.mask, func(r *rule, _ *terms, st *state) { st.ahead += r.price(w.cost) })
	w.delay(rs, delayed)
	l.waiting++
	l.account.shard.waiting.Add(1)
}

// delay counts the waiter as waiting because of more rules.
func (w *waiter) delay(rs *rules, more uint64) {
	more &^= w.delayed
	w.delayed |= more
	w.account.line().delaying |= more
	w.each(rs, more, func(r *rule, t *terms, st *state) {
		st.waiting++
		w.account.tell(r, st, t, never)
	})
}

func (w *waiter) leave(rs *rules) {
	l := w.account.line()
	l.waiters.Remove(&w.node)
	w.inLine = false
	w.each(rs, w.mask, func(r *rule, t *terms, st *state) {
		st.ahead -= r.price(w.cost)
		if w.delayed&r.bit != 0 {
			st.waiting--
			w.account.tell(r, st, t, never)
		}
	})
	l.waiting--
	w.account.shard.waiting.Add(-1)
	if l.waiting == 0 {
		l.delaying = 0
	}
}

// call lets everybody go whose turn it is at now, in order, and says when the next turn may come. A waiter never
// overtakes another that waits because of a rule that both are under.
func (l *line) call(rs *rules, now int64) {
	if l.waiting == 0 {
		l.schedule(never)
		return
	}
	var (
		blocked uint64 // rules that somebody further ahead waits for
		due     = int64(never)
		expire  = now >= l.deadline // somebody's time is over: look at everybody
	)
	if expire {
		l.deadline = never
	}
	for w := l.waiters.First(); w != nil; {
		next := w.node.Next()
		over, ready := w.over(rs, now)
		turn, deadline := over == 0 && w.mask&blocked == 0, w.deadline
		if turn && l.called != nil && now < l.held && l.held-now <= int64(holdUp) {
			// The one ahead is not on its way yet. Nobody behind this one goes either.
			turn, blocked = false, ^uint64(0)
			due = min(due, l.held)
			deadline = max(deadline, l.held)
		}
		switch {
		case turn:
			w.leave(rs)
			if l.called = nil; w.apart(rs) >= leastApart {
				l.called, l.held = w, now+int64(holdUp)
			}
			w.charge(rs, now)
			w.turn.Grant()
		case now >= deadline:
			w.leave(rs)
			w.turn.Refuse(weir.WaitTooLong)
		default:
			w.delay(rs, over)
			if w.mask&blocked == 0 {
				due = min(due, ready)
			}
			blocked |= w.delayed
			if expire {
				l.deadline = min(l.deadline, deadline)
			} else if l.delaying&^blocked == 0 {
				// Everybody behind waits for one of these too.
				next = nil
			}
		}
		w = next
	}
	if l.waiting == 0 {
		l.deadline = never
	}
	l.schedule(min(due, l.deadline))
}

// rebase moves the deadlines when the clock was set back: nobody waits longer because of it.
func (l *line) rebase(now int64) {
	l.deadline = never
	for w := l.waiters.First(); w != nil; w = w.node.Next() {
		w.deadline = min(w.deadline, now+w.patience)
		l.deadline = min(l.deadline, w.deadline)
	}
}

const (
	// catchUp is how late a call may come without putting off the next one. Clocks tick in milliseconds, and high
	// limits are to be used up all the same. The least gap of kind idle is never cut short.
	catchUp = time.Millisecond
	// holdUp is how long an event whose turn was called may keep the next one waiting.
	holdUp = 100 * time.Millisecond
	// leastApart is how far apart events must be to be kept in order. Above 5,000 a second that costs too much.
	leastApart = int64(100 * time.Microsecond)
)

func (w *waiter) away(rs *rules, now int64) {
	l := w.account.line()
	if l.called != w {
		return
	}
	l.called = nil
	w.each(rs, w.delayed, func(r *rule, t *terms, st *state) {
		st.pace = max(st.pace, now+r.gap(t)/2) // this one was slow to start, and the next must not follow at once
	})
	w.account.callDue(rs, now)
}

// apart is how far apart the rules that a waiter waited for let events go.
func (w *waiter) apart(rs *rules) int64 {
	apart := int64(never)
	w.each(rs, w.delayed, func(r *rule, t *terms, _ *state) {
		switch r.way {
		case level:
		case steady:
			apart = min(apart, cost(1, t))
		default:
			apart = min(apart, r.gap(t))
		}
	})
	return apart
}

// over returns the rules that have no room for the waiter at now, and when all of them may have.
func (w *waiter) over(rs *rules, now int64) (over uint64, ready int64) {
	ready = now
	w.each(rs, w.mask, func(r *rule, t *terms, st *state) {
		if t.exempt {
			return
		}
		r.roll(st, t, now)
		when := r.readyAt(w.account, st, t, now, r.need(w.cost, t))
		if when > now && r.lends(t) {
			when = r.lineReady(rs, w.account, t, now, r.need(w.cost, t))
			st = w.account.state(r)
		}
		if w.delayed&r.bit != 0 && st.pace-now <= int64(maxGap) {
			when = max(when, st.pace)
		}
		if when > now {
			over |= r.bit
			ready = max(ready, when)
		}
	})
	return over, ready
}

func (w *waiter) charge(rs *rules, now int64) {
	w.each(rs, w.mask, func(r *rule, t *terms, st *state) {
		charged := now
		if r.way == steady && r.Kind != Idle {
			charged -= int64(catchUp)
		}
		w.account.charge(r, st, t, charged, r.price(w.cost))
		if gap := r.gap(t); gap > 0 && w.delayed&r.bit != 0 {
			if late := now - st.pace; late > int64(catchUp) || late < -int64(maxGap) {
				st.pace = now
			}
			st.pace += gap
		}
	})
	if w.charged == 0 { // else it has waited for a place since, and what it gives back was charged before
		w.at = now
	}
	w.charged |= w.mask
}

// need is what must fit before an event of this cost goes on. Bytes are charged as they flow: an event is not let in if
// it would then wait behind others for the first of them.
func (r *rule) need(cost int64, t *terms) int64 {
	if r.bytes {
		return r.worth(t)
	}
	return r.price(cost)
}

// price is what an event of this cost is charged when it goes on.
func (r *rule) price(cost int64) int64 {
	switch {
	case r.bytes:
		return 0
	case r.once:
		return 1
	}
	return cost
}

// schedule sets when call has something to do next.
func (l *line) schedule(due int64) {
	if due == l.due {
		return
	}
	l.due = due
	s := l.account.shard
	switch {
	case due == never:
		s.due.Remove(l)
	case l.position > 0:
		s.due.Fix(l)
	default:
		s.due.Add(l)
	}
	if s.due.First() == l {
		if alarm := s.table.alarm.Load(); alarm != nil {
			(*alarm)(due)
		}
	}
}
