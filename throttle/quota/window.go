package quota

import (
	"math"
	"math/bits"
	"time"

	"weir"
)

// buckets is how many parts of a period a sliding window counts separately. The ring has one part more: the
// oldest one counts in full until the current one is over. So no stretch of one period sees more than the limit, but a
// charge counts for up to a sixteenth of the period too long.
const buckets = 16

// never is later than everything.
const never = math.MaxInt64

// state is what one account has used of one rule. The zero state is fresh. To fill one cache line, all ways of counting
// (see way) share the fields used, start, end and others. What they mean depends on the way. Times are in nanoseconds
// since the epoch. The other nodes are those of a farm that count the rule together (farm: broadcast). A line is where
// the account's requests wait; each node has one.
//
// A fixed window (inPeriods):
//
//	used    charged in the current period: requests on this node; bytes on all nodes, with the debt of earlier periods
//	start   when the period starts
//	end     when it ends
//	others  requests: charged by the other nodes in the period, and what goes first to the lines there
//
// A sliding window (inStretches), whose parts are in the ring:
//
//	used    charged in all parts on all nodes
//	start   the number of the current part
//	end     when the current part ends
//	others  what goes first to the lines of the other nodes
//
// GCRA, and kind idle (steady), where a charge takes up time, see cost:
//
//	start   when all that was charged will be paid off
//	end     the cost of one request at the rate that start was computed with
//	used    a time: since when others counts; 0 without a farm
//	others  the cost of all that this node has charged since then, as the other nodes are told it
//
// Kind concurrent (level):
//
//	used    requests under way on this node
//	others  requests under way on the other nodes, and what goes first to the lines there
//
// With farm: exact the engine does the counting, and the fields describe the loan: see loan.go.
type state struct {
	since   uint32 // the version of the options that gave the slot to this rule; with another one, the state is void
	waiting int32  // how many requests wait because of this rule
	used    int64
	start   int64
	end     int64
	others  int64
	ahead   int64 // what all who wait will be charged
	pace    int64 // when the next one in line may be called
	ring    *ring // the parts of a sliding window; others have a ring only for its peers and loan
}

// forget forgets what was charged. Parts of the ring that had a charge are marked as changed, so that the store forgets
// it, too. Those who wait stay in line.
func (st *state) forget(w way) {
	fresh := state{since: st.since, waiting: st.waiting, ahead: st.ahead, ring: st.ring}
	if st.ring != nil {
		st.ring.forget()
	}
	if w == inStretches && st.ring != nil {
		fresh.start, fresh.end = st.start, st.end // the slots of the ring depend on them
	}
	*st = fresh
}

// roll brings a state up to now: what is over no longer counts. If the clock runs backwards a little, nothing changes.
// If it is set back by more than a period, the count starts again. Otherwise the account would be refused until the
// clock is where it was. A loan of farm: exact has nothing to roll.
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
		if r.bytes && st.used > 0 && !setBack { // bytes beyond the limit are a debt
			st.used = max(0, st.used-r.paid(st, t, start))
		} else {
			st.used, st.others = 0, 0
		}
		st.start, st.end = start, end
		if st.ring != nil { // other nodes may have told what they used in the new period
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
				st.ring.changed &^= 1 << gone // the store knows by itself when a part is over
			}
			st.ring.untold &^= 1 << gone
			if st.ring.peers != nil {
				st.ring.peers.forget(gone)
			}
		}
		if p := st.ring.peers; p != nil {
			st.others = 0
			p.dropReset(r.resetMatters(st))
		}
	case steady:
		st.rescale(t, now)
		// Requests never owe more than a burst, or two bursts if the nodes of a farm charge at the same time. If more
		// is owed, the clock was set back. A period more is tolerated, as events may be late. Rules with debts may owe
		// any amount.
		most := t.whole
		if r.shared != nil {
			most = add(t.whole, t.whole)
		}
		if !r.debts && st.start-now > add(most, t.period) {
			st.start = add(now, most)
		}
	}
}

// rescale converts what is owed if the rate has changed: the same requests or bytes now take up another time.
func (st *state) rescale(t *terms, now int64) {
	if st.end == t.one || t.one == 0 {
		return
	}
	if owed := st.start - now; owed > 0 && st.end > 0 {
		hi, lo := bits.Mul64(uint64(owed), uint64(t.one))
		owed = never / 4
		if hi < uint64(st.end) {
			quo, _ := bits.Div64(hi, lo, uint64(st.end))
			owed = int64(min(quo, never/4))
		}
		st.start = add(now, owed)
	}
	st.end = t.one
}

// paid returns how many bytes of a debt are paid off by the period of the state and those after it, up to start.
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

// ringSlot returns the slot of the ring that a part has, by its number. Just after the epoch numbers are below zero.
func ringSlot(bucket int64) int64 { return (bucket + buckets + 1) % (buckets + 1) }

// begin makes the part in which now lies the current one. The ring must be empty.
func (r *rule) begin(st *state, now int64) {
	if st.ring == nil {
		st.ring = new(ring)
	}
	st.start = now / r.bucket
	st.end = (st.start + 1) * r.bucket
}

// partOf returns the number of the part that a charge made at now goes to. It is the part in which now lies, as
// giveBack looks for the charge there. The current part may begin after now: another node's clock was a little ahead.
func (r *rule) partOf(st *state, now int64) int64 {
	if now >= st.end-r.bucket {
		return st.start
	}
	return max(now/r.bucket, st.start-buckets)
}

// put adds n, which may be negative, to a part of a sliding window.
func (r *rule) put(st *state, bucket, n int64) {
	at := ringSlot(bucket)
	st.ring.set(at, st.ring.at(at)+n)
	if r.kept {
		st.ring.changed |= 1 << at
	}
	st.ring.untold |= 1 << at
	st.used += n
}

// when returns the earliest time at which n more fit if nothing else is charged: now if they fit, never if they never
// will. The state has been rolled to now. If the limit is divided among nodes, not every period allows the same, and
// turn finds the first one that allows n.
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
		case free >= n: // the lines of the other nodes go first in this part
			return r.turn(t, n, st.end)
		}
		for i := st.start - buckets; i <= st.start; i++ {
			if free += st.ring.at(ringSlot(i)); free >= n {
				return r.turn(t, n, (i+buckets+1)*r.bucket)
			}
		}
		return st.end // the lines of the other nodes take all of this part
	default: // inPeriods
		if n > t.most() {
			return never
		}
		missing := n - (r.limit(t, st.start) - st.used - st.others)
		if missing <= 0 {
			return now
		}
		if !r.bytes { // the next period starts at zero
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
	// Nobody waits for years: beyond 100 periods an estimate is enough.
	for ; n > 0 && start < math.MaxInt64/2; n-- {
		_, end := r.Period.Bounds(time.Unix(0, start), r.loc)
		if n > 100 {
			return add(start, mul(n, end.UnixNano()-start))
		}
		start = end.UnixNano()
	}
	return start
}

// estimate returns when an event that joins the line now, and costs n, can expect to be let in. All who wait go first.
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
	default: // inPeriods
		left := max(0, r.limit(t, st.start)-st.used-st.others)
		if total <= left {
			return at + int64(st.waiting)*gap
		}
		behind := total - left - 1
		return add(r.later(st.end, r.periods(t, behind)), behind%t.most()*gap)
	}
}

// charge counts n as used at now. Nothing is checked.
func (r *rule) charge(st *state, t *terms, now, n int64) {
	switch {
	case r.lends(t):
		r.spend(st, now, n)
	case r.way == steady:
		from := max(st.start, now)
		st.start = add(from, cost(n, t))
		if r.shared != nil {
			st.countTime(now, st.start-from)
		}
	case r.way == inStretches:
		if st.ring == nil {
			r.begin(st, now)
		}
		r.put(st, r.partOf(st, now), n)
	case r.bytes && r.shared != nil:
		st.used += n
		st.countBytes(n)
	default:
		st.used += n
	}
}

// giveBack gives back n that were charged at the time at, as far as they still count at now.
func (r *rule) giveBack(st *state, t *terms, at, n, now int64) {
	switch {
	case r.lends(t):
		r.unspend(st, at, n)
	case r.way != level && at <= st.wipedAt(): // an operator's reset has forgotten the charge
	case r.way == level:
		st.used = max(0, st.used-n)
	case r.way == steady:
		// What was paid off since the charge is not given back. Of charges made before the last change of the options
		// nothing is given back: how much was paid off at the old rate is not known. A request of kind idle is given
		// back only if no later one has started, here or at another node.
		if at > r.from && (r.Kind != Idle || st.start == at+t.one) {
			d := min(max(0, cost(n, t)-max(0, now-at)), max(0, st.start-now))
			st.start -= d
			if p := st.peers(); r.Kind == Idle && p != nil {
				for i := range p.list {
					st.start = max(st.start, p.list[i].before)
				}
			}
			if r.shared != nil {
				st.countTime(now, -d)
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
				st.countBytes(-min(n, st.used))
			}
			st.used = max(0, st.used-n)
		}
	}
}

// left returns how much fits at now. The state has been rolled to now.
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

// freeAt returns when the whole limit is free again if nothing more is charged; if nothing is left, when something is.
func (r *rule) freeAt(st *state, t *terms, now, left int64) int64 {
	switch {
	case r.lends(t):
		return r.lentFreeAt(st.loan(), t, now)
	case left == 0:
		return r.when(st, t, now, 1)
	case r.way == steady:
		return max(now, st.start)
	case r.way == inPeriods:
		return st.end
	case st.ring == nil: // nothing was charged yet
		return (now/r.bucket + buckets + 1) * r.bucket
	}
	return st.end + buckets*r.bucket
}

// idle reports whether nothing counts any more at now, so that the state may be forgotten. It is not about kind idle.
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

// gap returns how far apart those in line are let in, so that the upstream sees them one after the other and in order.
// The gaps of a whole limit take up half of the period at most. A steady rate has its own gaps.
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

// Units of figures, as people read them.
const (
	unitRequests = "requests"
	unitPlaces   = "at once"
	unitBytes    = "bytes"
)

// figure fills f with what people see of the state. It does so in place, as figures are a good part of what a decision
// costs.
func (r *rule) figure(f *weir.Figure, st *state, t *terms, now int64) {
	left, reset := r.left(st, t, now), int64(0)
	if r.way != level {
		reset = r.freeAt(st, t, now, left)
	}
	r.fill(f, st, t, now, left, reset)
}

// fill is figure for callers that already know what is left and when it is reset.
func (r *rule) fill(f *weir.Figure, st *state, t *terms, now, left, reset int64) {
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

// grow returns the figures with one more, for the caller to fill in.
func grow(figures []weir.Figure) []weir.Figure {
	if n := len(figures); n < cap(figures) {
		return figures[:n+1]
	}
	return append(figures, weir.Figure{})
}

// instant returns nanoseconds as a time. For never, and for 0, this is the zero time.
func instant(ns int64) time.Time {
	if ns == never || ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// cost returns the time that n take up at the steady rate of limit per period: n · period / limit, rounded up.
func cost(n int64, t *terms) int64 {
	if n == 1 {
		return t.one
	}
	return t.time(n)
}

// time is cost, computed.
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

// mul and add return never instead of overflowing.
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
