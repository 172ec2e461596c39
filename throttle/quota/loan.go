package quota

import (
	"math"

	"weir"
	"weir/farm"
)

// What a node grants of a policy with farm: exact it has on loan from an engine that all nodes ask (farm.Pot). The
// state of such a rule is a borrower, whatever the window: used is what was spent of the current slice, others is how
// much may be spent of it, and end is until when. start is how much must be spent for more to be fetched. So an event
// that is admitted costs a comparison and an addition. Windows are the engine's business.

// A loan is what else is known of one limit of one account. What a decision reads of it stands first.
type loan struct {
	left     int64 // what the engine could have granted more
	ends     int64 // from then on nothing counts that was spent of it
	opens    int64 // when the engine expects to have more
	borrower *borrower
	mark     string // of the last grant
	slice    int64  // what is spent now
	begun    int64  // since when it has been known: what was charged earlier was of another one
	no       int64  // until then the engine is not asked for more than it had left
	block    int64  // how much is taken ahead
	took     int64  // when more was last asked for
	from     int64  // what was spent then
	seen     int64  // what was spent when it was last looked after
	base     int64  // on loss: what was spent before the current period
	ceiling  int64  // on the disk
	ceiled   int64  // the slice that it is of
	newer    bool   // the mark is newer than the one on the disk
}

// loan returns what is known of a limit; nil while the engine has said nothing.
func (st *state) loan() *loan {
	if st.ring == nil {
		return nil
	}
	return st.ring.loan
}

// lent is the memory of a loan, and of the ring by which it is found. A decision reads the end of one and the beginning
// of the other: they are in the same cache line, the only one that it needs besides those of an account that is counted
// here.
type lent struct {
	ring ring
	loan loan
	_    [24]byte // to the end of a cache line, where the next one begins
}

// borrower returns the account's borrower, or nil.
func (a *account) borrower(rs *rules) *borrower {
	if a == nil {
		return nil
	}
	for _, r := range rs.list {
		if r.lender != nil && a.counts(r) {
			if ln := a.state(r).loan(); ln != nil {
				return ln.borrower
			}
		}
	}
	return nil
}

// borrows returns the loan of a rule, which is made if need be.
func (a *account) borrows(rs *rules, r *rule) *loan {
	st := a.state(r)
	if ln := st.loan(); ln != nil {
		return ln
	}
	p := a.borrower(rs)
	if p == nil {
		p = &borrower{account: a, lender: r.lender, run: r.lender.run(), key: r.lender.key(a)}
	}
	st = a.state(r)
	if st.ring == nil {
		both := new(lent)
		both.ring.loan, st.ring = &both.loan, &both.ring
	} else {
		st.ring.loan = new(loan)
	}
	ln := st.ring.loan
	ln.borrower, ln.left, st.start = p, math.MaxInt64, never
	return ln
}

// room is what may be spent at now.
func (st *state) room(now int64) int64 {
	if now >= st.end {
		return 0
	}
	return max(0, st.others-st.used)
}

// A credit says how a node stands with the engine.
type credit uint8

const (
	ample   credit = iota // there is room
	askable               // the engine may have more
	denied                // it had no more just now
	cut                   // it cannot be asked
)

// lends reports whether what is granted by some terms is on loan. Those who have no entry are counted here.
func (r *rule) lends(t *terms) bool { return r.lender != nil && !t.alone }

// credit tells whether n more fit, or may.
func (r *rule) credit(st *state, n, now int64) credit {
	if st.room(now) >= n {
		return ample
	}
	ln := st.loan()
	switch {
	case r.lender.lost.Load() || ln != nil && now < ln.borrower.shut:
		return cut
	case ln != nil && now < ln.no && n > ln.left:
		return denied
	}
	return askable
}

// lend decides by how the node stands with the engine. It reports whether that is all there is to say: else the rule is
// over its limit.
func (b *bill) lend(r *rule, t *terms, need int64, a *weir.Answer) bool {
	acc := b.account
	how := r.credit(acc.state(r), need, b.now)
	if b.failed && how == askable {
		how = cut
	}
	switch {
	case how == ample:
		return true
	case how == denied:
		return false
	case how == askable:
		b.asks |= r.bit
		return true
	}
	acc.borrows(b.rules, r).borrower.probe(b.now)
	if r.OnLoss != LossClosed {
		until := r.alone(acc.state(r), t, b.now, need)
		if until > b.now {
			b.refuse(a, weir.OverLimit, until)
		}
		return true
	}
	b.refuseUnknown(a)
	return true
}

// refuseUnknown refuses the event by the rule last checked because the engine or other nodes cannot be asked, unless
// another refuses for longer. Nobody knows how much is left, so no figure says so, and the client is to come back soon:
// such a failure is over in seconds. Not all come at the same time.
func (b *bill) refuseUnknown(a *weir.Answer) {
	last := len(a.Figures) - 1
	name := a.Figures[last].Rule
	a.Figures = a.Figures[:last]
	at := uint64(1) << (last - b.before)
	b.free, b.places = b.free&^at, b.places&^at
	mixed := (b.account.hash ^ uint64(b.now)) * 0x9e3779b97f4a7c15
	until := b.now + int64(lookAgain) + int64(mixed>>32)*int64(lookAgainSpread)>>32
	if a.Verdict < weir.Refuse || until > b.until {
		b.until = until
		a.Figure = weir.Figure{Rule: name}
		a.Verdict, a.Reason, a.Until = weir.Refuse, weir.Overload, instant(until)
	}
}

// lineReady is when those in line may go on. Where the engine has to be asked, it is.
func (r *rule) lineReady(rs *rules, a *account, t *terms, now, n int64) int64 {
	if t.nothing() || n > r.most(t) {
		return never
	}
	ln := a.borrows(rs, r)
	st := a.state(r)
	switch how := r.credit(st, n, now); {
	case how == ample:
		return now
	case how == denied:
		return ln.no
	case how == askable:
		ln.borrower.call(now)
		return now + tellLater
	}
	ln.borrower.probe(now)
	if r.OnLoss != LossClosed {
		if at := r.alone(st, t, now, n); at <= now {
			return now
		}
	}
	return now + tellLater
}

// most is how much an event may cost at all.
func (r *rule) most(t *terms) int64 {
	if r.way == steady {
		return t.burst
	}
	return t.limit
}

// lentWhen is when for what is on loan.
func (r *rule) lentWhen(st *state, t *terms, now, n int64) int64 {
	switch {
	case st.room(now) >= n:
		return now
	case t.nothing() || n > r.most(t):
		return never
	}
	if ln := st.loan(); ln != nil {
		return max(now+1, ln.opens)
	}
	return now + 1
}

// lentEstimate is estimate for what is on loan.
func (r *rule) lentEstimate(st *state, t *terms, now, n int64) int64 {
	at := r.lentWhen(st, t, now, min(n, r.most(t)))
	if r.way == level || t.limit == 0 || at == never {
		return at
	}
	rounds := (st.ahead + n - 1) / t.limit
	return add(at, mul(rounds, max(t.period, 1)))
}

// lentLeft is what the farm had left, as far as this node knows.
func (r *rule) lentLeft(st *state, t *terms, now int64) int64 {
	room := st.room(now)
	switch ln := st.loan(); {
	case ln == nil:
		return t.limit
	case ln.ends != 0 && now >= ln.ends && r.way != level:
		return t.limit
	default:
		return min(t.limit, add(room, ln.left))
	}
}

// lentFreeAt is freeAt for what is on loan; the loan is nil if there is none.
func (r *rule) lentFreeAt(ln *loan, t *terms, now int64) int64 {
	switch {
	case ln != nil && ln.opens > now:
		return ln.opens
	case ln != nil && r.way == inPeriods && ln.ends > now:
		return ln.ends
	case r.way == inPeriods:
		_, end := r.bounds(now)
		return end
	}
	return add(now, t.period)
}

// spend counts what is granted.
func (r *rule) spend(st *state, now, n int64) {
	ln := st.loan()
	alone := now >= st.end || st.used+n > st.others
	st.used = min(add(st.used, n), farm.MaxNumber)
	if ln == nil {
		return // nothing but 0 is spent without a loan
	}
	if alone && r.way != level && n != 0 {
		ln.borrower.see(now, tellLater) // the engine is to know
	}
	if st.used >= st.start {
		st.start = never
		ln.borrower.call(now)
	}
}

// unspend gives back n that were charged at a time.
func (r *rule) unspend(st *state, at, n int64) {
	ln := st.loan()
	if r.way != level && (ln == nil || at < ln.begun) {
		return // of a slice that is over
	}
	st.used = max(0, st.used-n)
	if ln != nil {
		ln.base = min(ln.base, st.used)
		ln.borrower.see(ln.borrower.account.shard.latest, idleAfter)
	}
}

// lentIdle reports whether nothing would be lost by forgetting the state. What is not spent has to go back first.
func (r *rule) lentIdle(st *state, now int64) bool {
	ln := st.loan()
	if ln == nil {
		return st.used == 0
	}
	if ln.borrower.calling || st.room(now) > 0 || st.used > st.others && r.way != level {
		return false
	}
	return st.used == 0 || r.way != level && now >= ln.ends
}

// ownPart is what this node grants on loss of the engine: its part of the limit, or with on_loss: open as much as if it
// were alone.
func (r *rule) ownPart(t *terms) terms {
	if r.OnLoss == LossOpen || r.share.of == 0 {
		return *t
	}
	return r.divide(*t, r.share.own())
}

// alone is when n more fit into what this node grants on loss of the engine, with what it has spent of the period
// already. There is a loan. Only levels and fixed windows have an on_loss that grants anything.
func (r *rule) alone(st *state, t *terms, now, n int64) int64 {
	part := r.ownPart(t)
	if part.nothing() {
		return never
	}
	ln := st.loan()
	if r.way == level {
		if st.used+n <= part.limit {
			return now
		}
		return never
	}
	start, end := r.bounds(now)
	if ln.ends <= now {
		ln.ends, ln.base = end, st.used
		st.others = min(st.others, st.used)
	}
	if limit := r.limit(&part, start); st.used-ln.base+n <= limit {
		return now
	}
	return end
}
