package quota

import (
	"math/bits"
	"time"

	"weir"
	"weir/farm"
)

// A share is which part of a farm's limits a node grants. The zero share is the whole.
//
// What is left over when a limit is divided goes to the nodes in turn, so that in each period all of them together
// grant the limit, and each has its turn where the limit is less than the number of nodes. While nodes do not agree on
// their ranks nobody has a turn. Windows differ:
//
//   - fixed: the period, by its number, on all nodes the same.
//   - sliding: what is left over goes by rank. A limit below the number of nodes takes turns in every other period: so
//     no stretch of one period has the turns of two.
//   - gcra: the rate is divided as it is, one per two seconds if need be. Each node has a burst of at least one.
//   - concurrent: what is left over goes by rank.
type share struct {
	of, rank int64
	up       uint64 // the ranks of the nodes that can be heard, this one included
	parts    uint64 // of those, the ones that have a part; this one may have none
	turns    bool   // all agree on the ranks
	blank    uint64 // the rules of which it is not known what was used in the current window
}

// lost reports whether there are nodes that cannot be heard, or nobody has a part.
func (sh share) lost() bool {
	return int64(bits.OnesCount64(sh.up)) < sh.of || sh.of > 0 && sh.parts == 0
}

// own is the ranks that this node grants for when it counts alone.
func (sh share) own() uint64 { return 1 << sh.rank }

// Divide says among how many nodes the limits of a farm are divided, which of them this one is, which can be heard, and
// which of them have a part. A policy that counts on each node alone, with on_loss: share, is always divided.
// One that all nodes count together is divided while some cannot be heard: those that hear each other grant their parts
// together. A node that is the only one and has its part grants the whole, as it does where Of is 0. It may be called
// at any time; what was used stays used.
func (q *Quota) Divide(s farm.Standing) {
	sh := share{of: int64(s.Of), rank: int64(s.Rank), up: s.Up, parts: s.Parts, turns: s.Agreed}
	if s.Of <= 0 || s.Rank < 0 || s.Rank >= s.Of || s.Of > 64 || s.Of == 1 && s.Parts != 0 {
		sh = share{}
	} else {
		sh.up |= sh.own()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	rs := q.rules.Load()
	if sh.blank = rs.share.blank; sh == rs.share {
		return
	}
	_ = q.configure(rs.Options, rs.divided(sh), q.latest()) // the options are valid
}

// Unaware says that this node does not know what was used before a time, as it started then and has not heard the
// others. Until a window ends that had begun by then, policies that all nodes count together, with on_loss: share or
// closed, grant nothing: others may have used all of it. The zero time says that it knows. now says which windows have
// ended: as long as the node does not know, it is to be called again.
func (q *Quota) Unaware(since, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rs := q.rules.Load()
	sh := rs.share
	sh.blank = 0
	if !since.IsZero() {
		for _, r := range rs.list {
			if r.blank(&rs.whole[""][r.slot], nanos(since), nanos(now)) {
				sh.blank |= r.bit
			}
		}
	}
	if sh != rs.share {
		_ = q.configure(rs.Options, rs.divided(sh), now) // the options are valid
	}
}

// blank reports whether what was used before a time may count at now.
func (r *rule) blank(t *terms, since, now int64) bool {
	switch r.way {
	case inPeriods:
		start, _ := r.bounds(now)
		return start <= since
	case inStretches:
		return now-since < (buckets+1)*r.bucket
	case steady:
		return now-since < t.whole
	}
	return false
}

// latest is the latest time that anybody has brought.
func (q *Quota) latest() time.Time {
	latest := q.seen.Load()
	for i := range q.table.shards {
		s := &q.table.shards[i]
		s.mu.Lock()
		latest = max(latest, s.latest)
		s.mu.Unlock()
	}
	return time.Unix(0, latest)
}

// divide returns terms of an account as this node grants them, by itself or with those that it hears. Accounts without
// an entry are counted on each node alone.
func (rs *rules) divide(whole []terms, strangers bool) []terms {
	if rs.share.of == 0 && rs.share.blank == 0 && (rs.lender == nil || !strangers) {
		return whole
	}
	own := make([]terms, len(whole))
	copy(own, whole)
	for _, r := range rs.list {
		t, sh := &own[r.slot], rs.share
		switch {
		case r.lender != nil:
			if strangers {
				if sh.of > 0 {
					*t = r.divide(*t, sh.own())
				}
				t.alone = true
			}
		case r.Farm != FarmBroadcast:
			if r.OnLoss == LossShare && sh.of > 0 {
				*t = r.partOfFarm(*t, sh.own()&sh.parts, sh.turns)
			}
		case sh.lost() && r.OnLoss == LossClosed, sh.blank&r.bit != 0 && r.OnLoss != LossOpen:
			t.limit, t.shut = 0, t.limit > 0
		case r.Kind == Idle:
		case sh.of == 0:
		case strangers && r.OnLoss == LossOpen:
			*t = r.divide(*t, sh.own())
		case strangers:
			*t = r.partOfFarm(*t, sh.own()&sh.parts, sh.turns)
		case sh.lost() && r.OnLoss == LossShare:
			*t = r.partOfFarm(*t, sh.parts, sh.turns)
		}
	}
	return own
}

// divide returns what nodes of some ranks grant together.
func (r *rule) divide(t terms, ranks uint64) terms { return r.partOfFarm(t, ranks, true) }

// partOfFarm is divide where nobody may have a turn, as nodes do not agree on their ranks.
func (r *rule) partOfFarm(t terms, ranks uint64, turns bool) terms {
	of := r.share.of
	if t.limit == 0 {
		return t
	}
	part, rest, count := t.limit/of, t.limit%of, int64(bits.OnesCount64(ranks))
	switch {
	case r.way == steady:
		t = t.steadily(of, ranks)
	case !turns:
		t.limit = part * count
	case r.way == level, r.way == inStretches && part > 0:
		t.limit = byRank(t.limit, of, ranks)
	default:
		t.limit, t.extra, t.ranks = part*count, int32(rest), ranks
	}
	return r.priced(t)
}

// steadily is what nodes of some ranks grant together at a steady rate.
func (t terms) steadily(of int64, ranks uint64) terms {
	count := int64(bits.OnesCount64(ranks))
	if t.limit%of == 0 {
		t.limit = t.limit / of * count
	} else {
		t.limit, t.period = mul(t.limit, count), mul(t.period, of)
	}
	t.burst = max(1, byRank(t.burst, of, ranks))
	return t
}

// byRank is the part of n that some nodes have, where what is left over goes to the first ones.
func byRank(n, of int64, ranks uint64) int64 {
	first := uint64(1)<<(n%of) - 1
	return n/of*int64(bits.OnesCount64(ranks)) + int64(bits.OnesCount64(ranks&first))
}

// nothing reports whether nothing is ever granted.
func (t *terms) nothing() bool { return t.limit == 0 && t.extra == 0 }

// most is the limit in the best of periods.
func (t *terms) most() int64 {
	return t.limit + t.turns()
}

// turns is how many of those that take turns may have theirs in the same period.
func (t *terms) turns() int64 { return min(int64(t.extra), int64(bits.OnesCount64(t.ranks))) }

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
	limit := t.limit
	for ranks := t.ranks; ranks != 0; ranks &= ranks - 1 {
		place := (n + int64(bits.TrailingZeros64(ranks))) % r.share.of
		if (place+r.share.of)%r.share.of < int64(t.extra) {
			limit++
		}
	}
	return limit
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

// turnInStretch is the earliest time from at on at which n fit into a sliding window whose nodes take turns: what was
// charged before counts against the turn of the period in which the time lies.
func (r *rule) turnInStretch(st *state, t *terms, n, at int64) int64 {
	for range int(2*r.share.of) + 2*buckets {
		used, next := int64(0), int64(never)
		for i := st.start - buckets; i <= st.start; i++ {
			if over := (i + buckets + 1) * r.bucket; over > at {
				if c := st.ring.at(ringSlot(i)); c > 0 {
					used += c
					next = min(next, over)
				}
			}
		}
		if at < st.end { // others go first in this part
			used, next = used+st.others, min(next, st.end)
		}
		limit := r.limit(t, at)
		switch {
		case used+n <= limit:
			return at
		case n > limit || next == never:
			_, at = r.bounds(at)
		default:
			_, end := r.bounds(at)
			at = min(next, end)
		}
	}
	return at
}

// granted is what so many periods grant, of which the first starts at a time.
func (r *rule) granted(t *terms, start, periods int64) int64 {
	sum := mul(t.limit, periods)
	if t.extra == 0 {
		return sum
	}
	sum = add(sum, mul(int64(t.extra)*int64(bits.OnesCount64(t.ranks)), periods/r.share.of))
	for range periods % r.share.of { // a turn comes again after so many periods
		sum = add(sum, r.limit(t, start)-t.limit)
		start = add(start, t.period)
	}
	return sum
}

// periods is how many periods it takes to grant n, about: never fewer than it takes.
func (r *rule) periods(t *terms, n int64) int64 {
	if t.limit == 0 {
		return mul(n/(int64(t.extra)*int64(bits.OnesCount64(t.ranks)))+1, r.share.of)
	}
	return n / t.limit
}
