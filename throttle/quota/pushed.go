package quota

import "math"

// pushOut drops the one of a few accounts on probation that is worth least, and reports whether there was one.
//
// What it has used goes to its set of strangers, which counts it from then on. So nobody gets more than a limit by
// being pushed out. A key that was only turned away is remembered only while that costs newcomers nothing, see crowded.
func (t *table) pushOut(rs *rules, now int64) bool {
	var from *shard
	least, looked := uint32(math.MaxUint32), 0
	t.hand.Add(1) // so that each round begins somewhere else
	for i := 0; i < shards && looked < 2*looks && least > 1; i++ {
		s := &t.shards[t.hand.Add(1)%shards]
		if s.newcomer.Load() == 0 {
			continue
		}
		s.mu.Lock()
		a, n := s.least()
		if looked += n; a == nil {
			s.pushHand += uint32(n)
		} else if a.worth() < least {
			from, least = s, a.worth()
		}
		s.mu.Unlock()
	}
	if from == nil {
		return false
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	a, n := from.least()
	if from.pushHand += uint32(n); a != nil {
		from.push(t, rs, a, now)
	}
	return true
}

// least returns the account on probation that is worth the least, of the next few, and how many those are. Nobody is
// pushed out while an event of it is under way: the answer may accept it.
func (s *shard) least() (least *account, looked int) {
	n := int(s.newcomer.Load())
	for ; looked < min(looks, n); looked++ {
		a := s.ring[(int(s.pushHand)+looked)%n]
		if a.has(owed) || !a.idling() || a.pins > 0 || a.waits() {
			continue
		}
		if least == nil || a.worth() < least.worth() {
			least = a
		}
	}
	return least, looked
}

func (s *shard) push(t *table, rs *rules, a *account, now int64) {
	now = s.clock(now)
	hash := a.hash
	if s.pushed.cells == nil {
		s.pushed.cells = make([]uint32, pushedCells(rs.MaxAccounts))
	}
	if !a.invented() || !s.pushed.crowded(hash, now) {
		if a.version != rs.version {
			a.update(rs)
		}
		if a.onProbation() { // the options may name it by now
			s.pushed.mark(hash, a.fold(rs, t.stranger(hash), now))
		}
	}
	if a.onProbation() {
		s.drop(t, rs, a)
		t.pushedOut.Add(1)
	}
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
		t, st := a.terms(rs, r), a.state(r)
		if r.idle(st, t, now) {
			continue
		}
		until = max(until, r.lasts(st, t))
		sum := to.state(r)
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
			r.begin(to, now)
		}
		for i := st.start - buckets; i <= st.start; i++ {
			if n := st.ring.at(ringSlot(i)); n != 0 && i <= to.start && to.start-i <= buckets {
				r.put(to, i, n)
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
		return (st.start + buckets + 1) * r.bucket
	case r.bytes:
		return r.settled(st, t)
	}
	return st.end
}

// pushed remembers which accounts of a shard were pushed out, and until when that matters. It is a Bloom filter of
// times: a pushed account is always found, another one by mistake if its cells are taken. Its memory is fixed.
type pushed struct{ cells []uint32 } // seconds since the epoch

const (
	pushedLooks = 4
	// A shard has 16 cells for each account that it can hold, 64 bytes, between these bounds. With as many accounts
	// pushed out as the table can hold, one newcomer in 400 is mistaken for one of them.
	pushedEach  = 16
	pushedLeast = 1 << 10
	pushedMost  = 1 << 16
)

func pushedCells(accounts int) int {
	n := pushedLeast
	for n < pushedMost && n*shards < pushedEach*accounts {
		n *= 2
	}
	return n
}

// cell returns the i-th cell of a hash, by 16 bits each. It is mixed again, as its low bits have chosen the shard.
func (p *pushed) cell(hash uint64, i uint64) *uint32 {
	x := hash + (i/4+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return &p.cells[x>>(i%4*16)&uint64(len(p.cells)-1)]
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

func (p *pushed) mark(hash uint64, until int64) {
	second := uint32(min(until/1e9+1, math.MaxUint32))
	for i := range uint64(pushedLooks) {
		c := p.cell(hash, i)
		*c = max(*c, second)
	}
}

// crowded reports whether the filter is too full to remember a key that was turned away: one cell of 16 is taken. So
// such keys take about one cell in ten, and one newcomer in 10,000 is mistaken for one of them.
func (p *pushed) crowded(hash uint64, now int64) bool {
	for i := range uint64(16) {
		if int64(*p.cell(hash, pushedLooks+i)) > now/1e9 {
			return true
		}
	}
	return false
}
