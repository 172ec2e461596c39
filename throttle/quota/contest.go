package quota

import "math/bits"

// Lines on several nodes share a limit. Without an order among them, each would call its first one when a period
// begins: with six nodes and a limit of one, six would go on. So nodes tell how many wait, and each first leaves to the
// others what is theirs: of the limit as large a part as of those who ask for it. What does not divide goes to the
// nodes in turn, by the number of the period. What one does not take, the others take when they hear that nobody waits
// there.

// ready is when, among the lines of all nodes.
func (r *rule) ready(a *account, st *state, t *terms, now, n int64) int64 {
	if !a.has(contended) || r.shared == nil || !st.contested() {
		return r.when(st, t, now, n)
	}
	if r.way == steady {
		at := r.when(st, t, now, n)
		if at == never {
			return at
		}
		return max(at, r.turnAt(st, t, at))
	}
	if st.peers().waiting == 0 {
		at := r.when(st, t, now, n)
		if at <= now {
			at = r.lapReady(st, t, now, n)
		}
		return at
	}
	if !r.bytes {
		r.contend(st, t, n)
	}
	return r.when(st, t, now, n)
}

// weigh notes whether one of the account's limits is contested. Those who decide look no further where none is: what
// other nodes told lies elsewhere in memory.
func (a *account) weigh(rs *rules) {
	a.unset(contended)
	for _, r := range rs.list {
		if r.shared != nil && a.counts(r) && a.state(r).contested() {
			a.set(contended)
			return
		}
	}
}

// contend works out what the others have used or will take first, when n more are asked for here.
func (r *rule) contend(st *state, t *terms, n int64) {
	p := st.peers()
	r.recount(st, t)
	limit, number, own := r.limit(t, st.start), int64(0), st.used
	switch r.way {
	case inPeriods:
		number = r.number(st.start)
	case inStretches:
		at := ringSlot(st.start)
		number, own = st.start, st.ring.own(at)
		limit = t.most() - (st.used - st.ring.at(at)) // what the current part may have
	}
	d := division{limit: max(0, limit), number: number}
	mine := -1
	for i := range p.list {
		e := &p.list[i]
		if mine < 0 && e.node.name > r.shared.self.name {
			mine = d.join(own, st.asks(n))
		}
		// Who has taken something stays, so that nobody's turn changes in the middle of a period.
		if taken := r.taken(st, e); taken > 0 || e.waiting > 0 {
			d.join(taken, e.waiting)
		}
	}
	if mine < 0 {
		mine = d.join(own, st.asks(n))
	}
	st.others += d.others(mine)
}

// asks is how many wait here, when n more ask. The others must come to the same result, so it is what they were told.
func (st *state) asks(n int64) int64 {
	if p := st.peers(); st.waiting > 0 && p.told > 0 {
		return p.told
	}
	return max(st.ahead, n)
}

// taken is what a node has taken in the current period, or part of a window, or has under way.
func (r *rule) taken(st *state, e *peer) int64 {
	if r.way != inStretches {
		return e.used(r, st)
	}
	if e.parts == nil || e.parts.latest != st.start {
		return 0
	}
	return e.parts.total.at(ringSlot(st.start))
}

// A division is how a limit is divided among the nodes at which somebody waits, in the order of their names.
type division struct {
	limit, number int64
	count         int
	asked, taken  [maxColleagues + 1]int64 // asked is all, with what was taken
	sum           int64
}

// join adds a node that has taken something and asks for more, and returns which one it is.
func (d *division) join(taken, more int64) int {
	d.taken[d.count], d.asked[d.count] = taken, add(taken, more)
	d.sum = add(d.sum, d.asked[d.count])
	d.count++
	return d.count - 1
}

// others is what the other nodes than one will take first, besides what they have taken.
func (d *division) others(but int) (n int64) {
	rest := d.limit
	for i := range d.count {
		rest -= d.part(i)
	}
	for i := range d.count {
		part := d.part(i)
		if turn := (int64(i) + d.number) % int64(d.count); turn < rest {
			part++
		}
		if i != but {
			n = add(n, max(0, min(part, d.asked[i])-d.taken[i]))
		}
	}
	return n
}

// part is what a node has of the limit, without what does not divide.
func (d *division) part(i int) int64 {
	if d.sum <= d.limit {
		return d.asked[i]
	}
	hi, lo := bits.Mul64(uint64(d.limit), uint64(d.asked[i]))
	quo, _ := bits.Div64(hi, lo, uint64(d.sum))
	return int64(quo)
}

// leastSlot is how long the turn of one must be for nodes to take turns. In shorter ones they hear of each other too
// late, and what they take at the same time is a debt that all know of.
const leastSlot = int64(2e6)

// turnAt is the first time from at on when it is this node's turn to let one go at a steady rate. The nodes at which
// somebody waits have turns in the order of their names, by the clock that all share; more of them where more wait.
func (r *rule) turnAt(st *state, t *terms, at int64) int64 {
	if t.one < leastSlot {
		return at
	}
	p, asks := st.peers(), st.asks(1)
	most := asks
	for i := range p.list {
		most = max(most, p.list[i].waiting)
	}
	// Lines that differ by less than half have as many turns: else they would change with each who joins or leaves.
	turns := func(waiting int64) int64 {
		return max(1, int64(8)>>(bits.Len64(uint64(most))-bits.Len64(uint64(waiting))))
	}
	own := turns(asks)
	least, sum, before := own, own, int64(0)
	for i := range p.list {
		if e := &p.list[i]; e.waiting > 0 {
			least = min(least, turns(e.waiting))
			sum += turns(e.waiting)
			if e.node.name < r.shared.self.name {
				before += turns(e.waiting)
			}
		}
	}
	sum, before, own = sum/least, before/least, own/least // they are powers of two
	// The turns of a node lie apart.
	step := sum*5/8 + 1
	for gcd(step, sum) != 1 {
		step++
	}
	now := at / t.one
	if at%t.one > t.one/4*3 { // the clocks of nodes differ a little: nobody goes where a turn ends
		now++
	}
	number := now
	for range sum {
		if place := number % sum * step % sum; place >= before && place < before+own {
			break
		}
		number++
	}
	return max(at, mul(number, t.one))
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
