package quota

import "math"

// pushOut looks at a few accounts on probation and drops the one that is worth the least. What it has used is not forgotten: it goes to
// its set of strangers, with which the account shares from then on until nothing of that counts any more. So nobody gets more than a
// limit by being pushed out.
//
// A key that got nothing but to be turned away gets no more than that after it was pushed out either. It is remembered while that costs
// newcomers nothing, see crowded.
func (s *shard) pushOut(t *table, rs *rules, now int64) (found bool, looked int) {
	var least *account
	n := int(s.newcomer.Load())
	for range min(looks, n) {
		looked++
		s.pushHand = (s.pushHand + 1) % n
		a := s.ring[s.pushHand]
		if a.has(owed) || !a.idling() || a.pins > 0 || a.line != nil && a.line.first != nil {
			continue
		}
		if least == nil || a.worth() < least.worth() {
			least = a
		}
	}
	if least == nil {
		return false, looked
	}
	hash := t.hash(least.name, least.source())
	if s.pushed.cells == nil {
		s.pushed.cells = make([]uint32, pushedCells(rs.MaxAccounts))
	}
	if !least.invented() || !s.pushed.crowded(hash, now) {
		if least.version != rs.version {
			least.update(rs)
		}
		s.pushed.mark(hash, least.fold(rs, t.stranger(hash), now))
	}
	s.drop(t, least)
	t.pushedOut.Add(1)
	return true, looked
}

// fold adds what an account has used to a set of strangers, and returns until when it counts.
func (a *account) fold(rs *rules, to *account, now int64) (until int64) {
	if to.version != rs.version {
		to.update(rs)
	}
	for _, r := range rs.list {
		if r.way == level || !a.counts(r) {
			continue
		}
		t, st := a.terms(rs, r), a.state(rs, r)
		if r.idle(st, t, now) {
			continue
		}
		until = max(until, r.lasts(st, t))
		sum := to.state(rs, r)
		r.roll(sum, to.terms(rs, r), now)
		r.sum(sum, st, now)
	}
	return until
}

// sum adds one state to another. Both have been rolled to now.
func (r *rule) sum(to, st *state, now int64) {
	switch r.way {
	case steady:
		to.start = add(max(to.start, now), max(0, st.start-now))
	case inStretches:
		if to.ring == nil {
			to.ring, to.start = new(ring), now/r.bucket()
		}
		for i := st.start - buckets; i <= st.start; i++ {
			if n := st.ring.cells[place(i)]; n != 0 && i <= to.start && to.start-i <= buckets {
				to.put(i, n)
			}
		}
	default:
		to.used = min(add(to.used, st.used), never/2)
		to.others = min(add(to.others, st.others), never/2)
	}
}

// lasts is when nothing that the state has counted counts any more.
func (r *rule) lasts(st *state, t *terms) int64 {
	switch {
	case r.way == steady:
		return st.start
	case r.way == inStretches:
		return (st.start + buckets + 1) * r.bucket()
	case r.bytes:
		return r.settled(st, t)
	}
	return st.end
}

// pushed remembers which accounts of a shard were pushed out, and until when that matters. It is a Bloom filter whose cells are times:
// an account that was pushed out is always found, and another one is mistaken for it if all of its cells are taken. Its memory is fixed.
type pushed struct{ cells []uint32 } // seconds since the epoch

const (
	pushedLooks = 4
	// A shard has 16 cells for each account that it has room for, 64 bytes, between these bounds. With as many accounts pushed out as
	// the table has room for, one newcomer in 400 is mistaken for one of them.
	pushedEach  = 16
	pushedLeast = 1 << 8
	pushedMost  = 1 << 16
)

func pushedCells(accounts int) int {
	n := pushedLeast
	for n < pushedMost && n*shards < pushedEach*accounts {
		n *= 2
	}
	return n
}

// cell returns the i-th place of a hash, whose low bits have chosen the shard.
func (p *pushed) cell(hash uint64, i uint64) *uint32 {
	x := hash * 0x9e3779b97f4a7c15
	return &p.cells[(x>>32+i*(x&math.MaxUint32|1))&uint64(len(p.cells)-1)]
}

func (p *pushed) has(hash uint64, now int64) bool {
	if p.cells == nil {
		return false
	}
	for i := range uint64(pushedLooks) {
		if int64(*p.cell(hash, i)) <= now/1e9 {
			return false
		}
	}
	return true
}

// mark remembers an account until a time.
func (p *pushed) mark(hash uint64, until int64) {
	second := uint32(min(until/1e9+1, math.MaxUint32))
	for i := range uint64(pushedLooks) {
		c := p.cell(hash, i)
		*c = max(*c, second)
	}
}

// crowded reports whether so much is taken that one more account had better not be remembered: of 16 cells, two are taken. With one in
// eight taken, one newcomer in 4,000 is mistaken.
func (p *pushed) crowded(hash uint64, now int64) bool {
	taken := 0
	for i := range uint64(16) {
		if int64(*p.cell(hash, pushedLooks+i)) > now/1e9 {
			taken++
		}
	}
	return taken >= 2
}
