package quota

import (
	"weir"
	"weir/farm"
)

// grant is check and take for the most common case: an account like all others, of which nobody waits, under one rule
// for requests that allows the event. It takes a tenth off the time of such a decision. Otherwise it takes nothing.
func (r *rule) grant(rs *rules, a *account, cost, now int64, answer *weir.Answer) bool {
	st, t := a.state(r), &r.base
	if r.lends(t) {
		return r.grantLent(rs, a, st, cost, now, answer)
	}
	r.roll(st, t, now)
	if cost > MaxLimit || r.when(st, t, now, cost) > now || a.has(contended) {
		return false
	}
	answer.Figures = grow(answer.Figures)
	f := &answer.Figures[len(answer.Figures)-1]
	r.figure(f, st, t, now)
	f.Remaining = max(0, f.Remaining-cost)
	a.charge(r, st, t, now, cost)
	h := &answer.Hold
	h.Ref, h.A, h.At, h.N, h.V = a, r.bit, now, cost, rs.version
	return true
}

// grantLent is grant for what is on loan: the loan is looked up once.
func (r *rule) grantLent(rs *rules, a *account, st *state, cost, now int64, answer *weir.Answer) bool {
	if cost == 0 || cost > MaxLimit || st.room(now) < cost || a.has(contended) {
		return false
	}
	ln := st.loan()
	if ln == nil {
		return false
	}
	t := &r.base
	answer.Figures = grow(answer.Figures)
	f := &answer.Figures[len(answer.Figures)-1]
	left := min(t.limit, add(st.others-st.used, ln.left))
	r.fill(f, st, t, now, left, r.lentFreeAt(ln, t, now))
	f.Remaining = max(0, left-cost)
	if st.used = min(add(st.used, cost), farm.MaxNumber); st.used >= st.start {
		st.start = never
		ln.borrower.call(now)
	}
	a.mark(r, st, t, now)
	h := &answer.Hold
	h.Ref, h.A, h.At, h.N, h.V = a, r.bit, now, cost, rs.version
	return true
}
