package quota

import (
	"math"
	"math/bits"
	"time"

	"weir"
)

// buckets is how many parts of a period a sliding window counts apart. One more is kept: the current part is only
// partly over, so the oldest one still counts whole. No stretch of one period ever sees more than the limit, and a
// charge is remembered for at most 1/16 of the period too long.
const buckets = 16

// never is later than everything.
const never = math.MaxInt64

// state is what one account has used of one rule. The zero state is fresh.
type state struct {
	since   uint32 // the version since which the slot means this rule
	waiting int32  // how many wait because of this rule
	used    int64  // fixed, sliding: charged in the window; a level: under way; steady: since when others counts
	// fixed: start of the period; sliding: number of the current bucket; gcra: when all that was charged is paid off
	start int64
	// fixed: end of the period; sliding: of the current bucket; gcra: the time of one by which start was worked out
	end int64
	// fixed requests, a level: what the rest of a farm has, or will take first; sliding: the latter; steady: all that
	// was ever charged here, by the time it takes up
	others int64
	ahead  int64 // what all who wait will be charged by it
	pace   int64 // when the next one in line may be called
	ring   *ring
}

// reset forgets what was charged, and what of it a store must forget is marked as changed. Those who wait stay.
func (st *state) reset(w way) {
	fresh := state{since: st.since, waiting: st.waiting, ahead: st.ahead, ring: st.ring}
	if st.ring != nil {
		st.ring.forget()
	}
	if w == inStretches && st.ring != nil {
		fresh.start, fresh.end = st.start, st.end
	}
	*st = fresh
}

// roll brings a state up to now. A clock that runs backwards a little changes nothing. One that is set back by more
// than a period starts the count again: else an account would be shut out until the clock is where it was.
func (r *rule) roll(st *state, t *terms, now int64) {
	if r.lends(t) {
		return
	}
	switch r.way {
	case inPeriods:
		setBack := st.start > now && st.start-now > st.end-st.start
		if now < st.end && !setBack {
			return
		}
		start, end := r.bounds(now)
		if r.bytes && st.used > 0 && !setBack {
			st.used = max(0, st.used-r.paid(st, t, start))
		} else {
			st.used, st.others = 0, 0
		}
		st.start, st.end = start, end
		if st.ring != nil {
			r.recount(st, t)
		}
	case inStretches:
		if st.ring == nil || now < st.end && st.end-now <= (buckets+1)*r.bucket {
			return
		}
		if now < st.end || now-st.end >= buckets*r.bucket {
			st.ring.empty()
			st.ring.changed, st.used = 0, 0
			r.begin(st, now)
		}
		for ; st.end <= now; st.end += r.bucket {
			st.start++
			gone := ringSlot(st.start)
			st.used -= st.ring.at(gone)
			st.ring.set(gone, 0)
			if r.kept {
				st.ring.changed &^= 1 << gone // a store knows when it ends
			}
			st.ring.untold &^= 1 << gone
			if st.ring.peers != nil {
				st.ring.peers.forget(gone)
			}
		}
		if p := st.ring.peers; p != nil { // who waits stays the same, so that there is nothing to count anew
			st.others = 0
			p.outlive(r.matters(st))
		}
	case steady:
		st.rescale(t, now)
		// Requests never owe more than a burst, so more means that the clock was set back. Bytes may owe more, and
		// requests whose answers say what they cost. A late
		// event must not be taken for a clock that was set back.
		// All nodes of a farm together may owe another burst.
		most := t.whole
		if r.shared != nil {
			most = add(t.whole, t.whole)
		}
		if !r.debts && st.start-now > add(most, t.period) {
			st.start = add(now, most)
		}
	}
}

// rescale keeps what is owed when a steady rate has changed: so many requests or bytes take another time now.
func (st *state) rescale(t *terms, now int64) {
	if st.end == t.one || t.one == 0 {
		return
	}
	if owed := st.start - now; owed > 0 && st.end > 0 {
		hi, lo := bits.Mul64(uint64(owed), uint64(t.one))
		if owed = never / 4; hi < uint64(st.end) {
			quo, _ := bits.Div64(hi, lo, uint64(st.end))
			owed = int64(min(quo, never/4))
		}
		st.start = add(now, owed)
	}
	st.end = t.one
}

// paid is how much of a debt the periods from the state's to the one that starts at start have paid off.
func (r *rule) paid(st *state, t *terms, start int64) int64 {
	if r.Period.Calendar == weir.NoCalendar {
		return r.granted(t, st.start, (start-st.start)/t.period)
	}
	var paid int64
	for at := st.start; at < start && paid < st.used; {
		_, end := r.Period.Bounds(time.Unix(0, at), r.loc)
		paid += r.limit(t, at)
		at = end.UnixNano()
		if t.nothing() {
			break
		}
	}
	return paid
}

// ringSlot is the slot of a bucket. Just after the epoch, buckets have numbers below zero.
func ringSlot(bucket int64) int64 { return (bucket + buckets + 1) % (buckets + 1) }

// begin makes the bucket that now lies in the current one of a ring that is empty.
func (r *rule) begin(st *state, now int64) {
	if st.ring == nil {
		st.ring = new(ring)
	}
	st.start = now / r.bucket
	st.end = (st.start + 1) * r.bucket
}

// partOf is the number of the bucket that a time lies in, so that what is given back is taken from where it was put.
// The current one may begin later: the clock of another node is a little ahead.
func (r *rule) partOf(st *state, now int64) int64 {
	if now >= st.end-r.bucket {
		return st.start
	}
	return max(now/r.bucket, st.start-buckets)
}

func (r *rule) put(st *state, bucket, n int64) {
	at := ringSlot(bucket)
	st.ring.set(at, st.ring.at(at)+n)
	if r.kept {
		st.ring.changed |= 1 << at
	}
	st.ring.untold |= 1 << at
	st.used += n
}

// when returns the earliest time at which n more fit if nothing else is charged; now if they fit. It has been rolled.
func (r *rule) when(st *state, t *terms, now, n int64) int64 {
	if r.lends(t) {
		return r.lentWhen(st, t, now, n)
	}
	if r.way == level {
		if st.used+st.others+n <= t.limit {
			return now
		}
		return never
	}
	if t.nothing() {
		return never
	}
	switch r.way {
	case steady:
		if n > t.burst {
			return never
		}
		return max(now, add(st.start, cost(n, t)-t.whole))
	case inStretches:
		if n > t.most() {
			return never
		}
		if t.extra != 0 && st.ring != nil {
			return r.turnInStretch(st, t, n, now)
		}
		free := t.most() - st.used
		switch {
		case free-st.others >= n:
			return r.turn(t, n, now)
		case free >= n: // others go first in this part
			return r.turn(t, n, st.end)
		}
		for i := st.start - buckets; i <= st.start; i++ {
			if free += st.ring.at(ringSlot(i)); free >= n {
				return r.turn(t, n, (i+buckets+1)*r.bucket)
			}
		}
		return st.end // others will take it first, of this part
	default:
		if n > t.most() {
			return never
		}
		missing := n - (r.limit(t, st.start) - st.used - st.others)
		if missing <= 0 {
			return now
		}
		if !r.bytes { // counters start again at zero
			return r.turn(t, n, st.end)
		}
		return r.turn(t, n, r.later(st.end, r.periods(t, missing-1)))
	}
}

// later returns the start of the period n periods after the one that starts at start.
func (r *rule) later(start, n int64) int64 {
	if r.Period.Calendar == weir.NoCalendar {
		return add(start, mul(n, r.base.period))
	}
	// Nobody waits for years, so an approximate end will do.
	for ; n > 0 && start < math.MaxInt64/2; n-- {
		_, end := r.Period.Bounds(time.Unix(0, start), r.loc)
		if n > 100 {
			return add(start, mul(n, end.UnixNano()-start))
		}
		start = end.UnixNano()
	}
	return start
}

// estimate returns when an event that joins the line now can expect to be called.
func (r *rule) estimate(st *state, t *terms, now, n int64) int64 {
	if r.lends(t) {
		return r.lentEstimate(st, t, now, n)
	}
	gap := r.gap(t)
	at := max(now, st.pace)
	if r.bytes {
		return add(max(at, r.when(st, t, now, 1)), int64(st.waiting)*gap)
	}
	total := st.ahead + n
	switch r.way {
	case steady:
		return max(at, add(max(st.start, now), cost(total, t)-t.whole))
	case inStretches:
		rounds := (total - 1) / t.most()
		first := r.when(st, t, now, total-rounds*t.most())
		return add(max(at, first), mul(rounds, (buckets+1)*r.bucket)+int64(st.waiting)*gap)
	default:
		left := max(0, r.limit(t, st.start)-st.used-st.others)
		if total <= left {
			return at + int64(st.waiting)*gap
		}
		behind := total - left - 1
		return add(r.later(st.end, r.periods(t, behind)), behind%t.most()*gap)
	}
}

func (r *rule) charge(st *state, t *terms, now, n int64) {
	switch {
	case r.lends(t):
		r.spend(st, t, now, n)
	case r.way == steady:
		from := max(st.start, now)
		st.start = add(from, cost(n, t))
		if r.shared != nil {
			st.run(now, st.start-from)
		}
	case r.way == inStretches:
		if st.ring == nil {
			r.begin(st, now)
		}
		r.put(st, r.partOf(st, now), n)
	case r.bytes && r.shared != nil:
		st.used += n
		st.flow(n)
	default:
		st.used += n
	}
}

// give gives back n that were charged at a time, as far as they still count at now.
func (r *rule) give(st *state, t *terms, at, n, now int64) {
	switch {
	case r.lends(t):
		r.unspend(st, at, n)
	case r.way != level && at <= st.wipedAt(): // it has been forgotten
	case r.way == level:
		st.used = max(0, st.used-n)
	case r.way == steady:
		// What has been paid off since is gone. This is exact right after the charge and never gives too much later.
		// How much was paid off at another rate is not known, nor how much was forgiven when the burst shrank.
		// Of two that started at the same time at two nodes, the later one counts.
		if at > r.from && (r.Kind != Idle || st.start == at+t.one) {
			d := min(max(0, cost(n, t)-max(0, now-at)), max(0, st.start-now))
			st.start -= d
			if p := st.peers(); r.Kind == Idle && p != nil {
				for i := range p.list {
					st.start = max(st.start, p.list[i].before)
				}
			}
			if r.shared != nil {
				st.run(now, -d)
			}
		}
	case r.way == inStretches:
		bucket := at / r.bucket
		if st.ring == nil || bucket > st.start || st.start-bucket > buckets {
			return
		}
		r.put(st, bucket, -min(n, st.ring.at(ringSlot(bucket))))
	default:
		if at >= st.start && at < st.end {
			if r.bytes && r.shared != nil {
				st.flow(-min(n, st.used))
			}
			st.used = max(0, st.used-n)
		}
	}
}

// left is how much fits at now. The state has been rolled to now.
func (r *rule) left(st *state, t *terms, now int64) int64 {
	if r.lends(t) {
		return r.lentLeft(st, t, now)
	}
	if r.way == steady {
		if t.limit == 0 {
			return 0
		}
		left := t.whole - max(0, st.start-now)
		if left <= 0 {
			return 0
		}
		hi, lo := bits.Mul64(uint64(left), uint64(t.limit))
		if hi >= uint64(t.period) {
			return t.burst
		}
		quo, _ := bits.Div64(hi, lo, uint64(t.period))
		return min(int64(quo), t.burst)
	}
	limit := t.limit
	if t.extra != 0 {
		limit = r.sharedNow(st, t, now)
	}
	return max(0, limit-st.used-st.others)
}

// reset is when the rule has its whole limit again if nothing more is charged, or something again if nothing is left.
func (r *rule) reset(st *state, t *terms, now, left int64) int64 {
	switch {
	case r.lends(t):
		return r.lentReset(st, t, now)
	case left == 0:
		return r.when(st, t, now, 1)
	case r.way == steady:
		return max(now, st.start)
	case r.way == inPeriods:
		return st.end
	case st.ring == nil: // it is about to be charged for the first time
		return (now/r.bucket + buckets + 1) * r.bucket
	}
	return st.end + buckets*r.bucket
}

// idle reports whether nothing that the state has counted counts at now.
func (r *rule) idle(st *state, t *terms, now int64) bool {
	if r.lends(t) {
		return r.lentIdle(st, now)
	}
	r.roll(st, t, now)
	if r.way == steady {
		return st.start <= now
	}
	return st.used == 0 && st.others == 0 && !st.expects()
}

// gap is how far apart those who leave the line are called, so that the upstream sees them in order and not all at
// once. It takes at most half of the time that the limit itself gives them. A steady rate has its own gaps.
func (r *rule) gap(t *terms) int64 {
	if r.way == steady || r.way == level || t.limit == 0 {
		return 0
	}
	period := t.period
	if r.Period.Calendar != weir.NoCalendar {
		return int64(maxGap)
	}
	return min(period/t.limit/2, int64(maxGap))
}

const maxGap = 10 * time.Millisecond

// What figures count, in words for people.
const (
	unitRequests = "requests"
	unitPlaces   = "at once"
	unitBytes    = "bytes"
)

// figure puts the state into numbers for people. It fills f in place: this is a good part of what a decision costs.
func (r *rule) figure(f *weir.Figure, st *state, t *terms, now int64) {
	left, reset := r.left(st, t, now), int64(0)
	if r.way != level {
		reset = r.reset(st, t, now, left)
	}
	r.tell(f, st, t, now, left, reset)
}

// tell is figure where it is known what is left, and when it begins anew.
func (r *rule) tell(f *weir.Figure, st *state, t *terms, now, left, reset int64) {
	f.By, f.Rule, f.Limit, f.Remaining = "", r.Name, t.limit, left
	if t.extra != 0 {
		f.Limit = r.sharedNow(st, t, now)
	}
	switch {
	case r.way == level:
		f.Unit, f.Window, f.Reset = unitPlaces, 0, time.Time{}
		return
	case r.bytes:
		f.Unit = unitBytes
	default:
		f.Unit = unitRequests
	}
	f.Window = weir.NewWindow(time.Duration(t.period), weir.NoCalendar)
	if r.Period.Calendar != weir.NoCalendar {
		start, end := st.start, st.end
		if r.lends(t) {
			start, end = r.bounds(now)
		}
		f.Window = weir.NewWindow(time.Duration(end-start), r.Period.Calendar)
	}
	f.Reset = instant(reset)
}

// grow returns the answer's figures with one more, to be filled in.
func grow(figures []weir.Figure) []weir.Figure {
	if n := len(figures); n < cap(figures) {
		return figures[:n+1]
	}
	return append(figures, weir.Figure{})
}

// instant turns nanoseconds into a time; never, and 0, into none.
func instant(ns int64) time.Time {
	if ns == never || ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// cost is the time that n take up at the steady rate of limit per period.
func cost(n int64, t *terms) int64 {
	if n == 1 {
		return t.one
	}
	return t.time(n)
}

// time works out what cost returns, rounded up.
func (t *terms) time(n int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(t.period))
	if hi >= uint64(t.limit) {
		return never / 4
	}
	quo, rem := bits.Div64(hi, lo, uint64(t.limit))
	if rem > 0 {
		quo++
	}
	return int64(min(quo, never/4))
}

// mul and add do not overflow: what would be too much is never.
func mul(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > never {
		return never
	}
	return int64(lo)
}

func add(a, b int64) int64 {
	if b > 0 && a > never-b {
		return never
	}
	return a + b
}
