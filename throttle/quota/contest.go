package quota

import "math/bits"

// Lines on several nodes share a limit. Without an order among them, each node would call its first waiter when a
// period begins: with six nodes and a limit of one, six would go on. So each node tells the others how much waits
// there, and leaves them their parts of the limit. The part of a node is in proportion to what it has used and what
// waits there. What is left over by dividing goes to the nodes in turn, by the number of the period. What a node does
// not take of its part, the others take when they hear that nobody waits there any more.

// readyAt is when, but leaves to the other nodes what they may take first.
func (r *rule) readyAt(a *account, st *state, t *terms, now, n int64) int64 {
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
	if st.peers().waiting == 0 { // then there is a race
		at := r.when(st, t, now, n)
		if at <= now {
			at = r.lapReady(st, t, now, n)
		}
		return at
	}
	if !r.bytes {
		r.leaveToOthers(st, t, n)
	}
	return r.when(st, t, now, n)
}

// noteContended sets the flag contended if one of the account's limits is contested. A decision reads the flag first:
// what the other nodes told is elsewhere in memory.
func (a *account) noteContended(rs *rules) {
	a.unset(contended)
	for _, r := range rs.list {
		if r.shared != nil && a.counts(r) && a.state(r).contested() {
			a.set(contended)
			return
		}
	}
}

// leaveToOthers sets st.others to what the other nodes have used or may take first, if n more are asked for here.
func (r *rule) leaveToOthers(st *state, t *terms, n int64) {
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
		if mine < 0 && e.node.name > r.shared.self.name { // the list has the other nodes by name, and not this one
			mine = d.join(own, st.demand(n))
		}
		// A node that has taken something stays in the division, so that no turn changes in the middle of a period.
		if taken := r.taken(st, e); taken > 0 || e.waiting > 0 {
			d.join(taken, e.waiting)
		}
	}
	if mine < 0 {
		mine = d.join(own, st.demand(n))
	}
	st.others += d.others(mine)
}

// demand is how much waits here if n more are asked for, as the others were last told: all must divide the limit alike.
func (st *state) demand(n int64) int64 {
	if p := st.peers(); st.waiting > 0 && p.told > 0 {
		return p.told
	}
	return max(st.ahead, n)
}

// taken is what a node has taken in the current period or part of a window, or what it has under way.
func (r *rule) taken(st *state, e *peer) int64 {
	if r.way != inStretches {
		return e.used(r, st)
	}
	if e.parts == nil || e.parts.latest != st.start {
		return 0
	}
	return e.parts.total.at(ringSlot(st.start))
}

// A division divides a limit among the nodes where something was taken or waits, in the order of their names.
type division struct {
	limit, number int64
	count         int
	taken, wanted [maxColleagues + 1]int64 // wanted is what was taken and what waits
	sum           int64                    // of wanted
}

// join adds a node that has taken something and asks for more, and returns its index.
func (d *division) join(taken, more int64) int {
	d.taken[d.count], d.wanted[d.count] = taken, add(taken, more)
	d.sum = add(d.sum, d.wanted[d.count])
	d.count++
	return d.count - 1
}

// others is what all nodes but the one with this index may still take of their parts.
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
			n = add(n, max(0, min(part, d.wanted[i])-d.taken[i]))
		}
	}
	return n
}

// part is what a node has of the limit, without what is left over by dividing.
func (d *division) part(i int) int64 {
	if d.sum <= d.limit {
		return d.wanted[i]
	}
	hi, lo := bits.Mul64(uint64(d.limit), uint64(d.wanted[i]))
	quo, _ := bits.Div64(hi, lo, uint64(d.sum))
	return int64(quo)
}

// leastSlot is how long a slot must be for nodes to take turns. In shorter ones they hear of each other too late. What
// they then charge at the same time is a debt that all of them know of.
const leastSlot = int64(2e6)

// turnAt is the first time from at on at which it is this node's turn to let one event go at a steady rate. Time is cut
// into slots, each as long as one event takes up. The nodes at which somebody waits have turns, some slots of each
// cycle, in the order of their names. A node with a longer line has more turns. All nodes compute the same from the
// farm's clock.
func (r *rule) turnAt(st *state, t *terms, at int64) int64 {
	if t.one < leastSlot {
		return at
	}
	p, asks := st.peers(), st.demand(1)
	most := asks
	for i := range p.list {
		most = max(most, p.list[i].waiting)
	}
	// A line half as long has half as many turns. Between that nothing changes when somebody joins or leaves.
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
	// Turns are powers of two, so that the least divides them all.
	sum, before, own = sum/least, before/least, own/least
	// With steps that have no divisor in common with the cycle, the turns of a node lie apart.
	step := sum*5/8 + 1
	for gcd(step, sum) != 1 {
		step++
	}
	now := at / t.one
	if at%t.one > t.one/4*3 { // the clocks of nodes differ a little: nobody goes at the end of a slot
		now++
	}
	number := now
	for range sum {
		if turn := number % sum * step % sum; turn >= before && turn < before+own {
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
