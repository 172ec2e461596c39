package quota

import (
	"time"

	"weir"
)

// A share is which part of a farm's limits a node grants. The zero share is the whole.
//
// What is left over when a limit is divided goes to the nodes in turn, so that in each period all of them together
// grant the limit, and each has its turn where the limit is less than the number of nodes. Windows differ:
//
//   - fixed: the period, by its number, on all nodes the same.
//   - sliding: what is left over goes by rank. A limit below the number of nodes takes turns in every other period: so
//     no stretch of one period has the turns of two.
//   - gcra: the rate is divided as it is, one per two seconds if need be. Each node has a burst of at least one.
//   - concurrent: what is left over goes by rank.
type share struct{ of, rank int64 }

// Share says among how many nodes the limits of policies with on_loss: share are divided, and which of them this one
// is, from 0. With one node, or none, it grants the whole. It may be called at any time; what was used stays used.
func (q *Quota) Share(of, rank int) {
	sh := share{int64(of), int64(rank)}
	if of <= 1 || rank < 0 || rank >= of {
		sh = share{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	rs := q.rules.Load()
	if sh == rs.share {
		return
	}
	latest := q.seen.Load()
	for i := range q.table.shards {
		s := &q.table.shards[i]
		s.mu.Lock()
		latest = max(latest, s.latest)
		s.mu.Unlock()
	}
	_ = q.configure(rs.Options, sh, time.Unix(0, latest)) // the options are valid
}

// divide returns terms of an account as this node grants them.
func (rs *rules) divide(whole []terms) []terms {
	if rs.share.of == 0 {
		return whole
	}
	own := make([]terms, len(whole))
	copy(own, whole)
	for _, r := range rs.list {
		if r.OnLoss == LossShare {
			own[r.slot] = r.divide(own[r.slot])
		}
	}
	return own
}

func (r *rule) divide(t terms) terms {
	of, rank := r.share.of, r.share.rank
	if t.limit == 0 {
		return t
	}
	part, rest := t.limit/of, t.limit%of
	switch {
	case r.way == steady:
		if rest == 0 {
			t.limit = part
		} else {
			t.period = mul(t.period, of)
		}
		t.burst = max(1, byRank(t.burst, of, rank))
	case r.way == level, r.way == inStretches && part > 0:
		t.limit = byRank(t.limit, of, rank)
	default:
		t.limit, t.extra = part, int32(rest)
	}
	return t.priced()
}

// byRank is a node's part of n, where what is left over goes to the first ones.
func byRank(n, of, rank int64) int64 {
	if rank < n%of {
		return n/of + 1
	}
	return n / of
}

// nothing reports whether nothing is ever granted.
func (t *terms) nothing() bool { return t.limit == 0 && t.extra == 0 }

// most is the limit in the best of periods.
func (t *terms) most() int64 {
	if t.extra != 0 {
		return t.limit + 1
	}
	return t.limit
}

// sharedNow is the limit that holds at now, of terms with something left over. The state has been rolled to now.
func (r *rule) sharedNow(st *state, t *terms, now int64) int64 {
	if r.way == inPeriods {
		now = st.start
	}
	return r.sharedLimit(t, now)
}

// limit is the limit in the period that a time lies in.
func (r *rule) limit(t *terms, at int64) int64 {
	if t.extra == 0 {
		return t.limit
	}
	return r.sharedLimit(t, at)
}

func (r *rule) sharedLimit(t *terms, at int64) int64 {
	n := r.number(at)
	if r.way == inStretches {
		if n%2 != 0 {
			return t.limit
		}
		n /= 2
	}
	if place := (n + r.share.rank) % r.share.of; (place+r.share.of)%r.share.of < int64(t.extra) {
		return t.limit + 1
	}
	return t.limit
}

// number is the number of the period that a time lies in. All nodes count the same ones.
func (r *rule) number(at int64) int64 {
	if r.Period.Calendar == weir.NoCalendar {
		start, _ := r.bounds(at)
		return start / int64(r.Period.Length)
	}
	start, _ := r.Period.Bounds(time.Unix(0, at), r.loc)
	y, m, d := start.In(r.loc).Date()
	switch days := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400; r.Period.Calendar {
	case weir.Year:
		return int64(y)
	case weir.Month:
		return int64(y)*12 + int64(m)
	case weir.Week:
		return days / 7
	default:
		return days
	}
}

// turn is the earliest time from at on whose period allows n, of which some period does.
func (r *rule) turn(t *terms, n, at int64) int64 {
	if n <= t.limit {
		return at
	}
	for range 2 * r.share.of {
		if n <= r.limit(t, at) {
			return at
		}
		_, at = r.bounds(at)
	}
	return at
}

// granted is what so many periods grant, of which the first starts at a time.
func (r *rule) granted(t *terms, start, periods int64) int64 {
	sum := mul(t.limit, periods)
	if t.extra == 0 {
		return sum
	}
	sum = add(sum, mul(int64(t.extra), periods/r.share.of))
	for range periods % r.share.of { // a turn comes again after so many periods
		sum = add(sum, r.limit(t, start)-t.limit)
		start = add(start, t.period)
	}
	return sum
}

// periods is how many periods it takes to grant n, about: never fewer than it takes.
func (r *rule) periods(t *terms, n int64) int64 {
	if t.limit == 0 {
		return mul(n/int64(t.extra)+1, r.share.of)
	}
	return n / t.limit
}
