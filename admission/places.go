package admission

import (
	"time"

	"weir"
	"weir/internal/queue"
)

const (
	// A client may be too slow for eight times as long as requests take. These are the bounds of that time.
	leastStall, mostStall = int64(5 * time.Second), int64(30 * time.Second)
	// ahead is how much time a client that moves bytes quickly may save up, since players fetch more than they need and
	// then pause.
	ahead     = int64(2 * time.Minute)
	lookAgain = int64(time.Second) // how often evict looks at the places
)

// A place is a place at the upstream that a request has.
type place struct {
	round  round
	line   *line             // of its client
	since  int64             // when it was taken
	holder weir.Holder       // says how the request gets on; nil if nobody can say that
	moved  int64             // bytes that the request had moved when evict last looked
	lasts  int64             // the client is fast enough until then. Time that the service takes is free
	busy   int64             // the same, but no time is free: until then the moved bytes last at the slowest speed
	lost   bool              // it was taken from the client
	own    bool              // it is not part of a waiter, so it goes to spare when it is given back
	listed queue.Node[place] // in places.all, if it has a holder
}

// places are all places that have a holder, and memory for new ones.
type places struct {
	all    queue.Listed[place]
	looked int64    // when evict last looked at them
	spare  []*place // to be used again; at most as many as there were at once
}

// get returns a place for a request that is let in at once, so that nothing is allocated for it.
func (s *places) get() *place {
	if n := len(s.spare); n > 0 {
		p := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return p
	}
	return &place{own: true}
}

// begin makes p a place of a client.
func (l *Lanes) begin(p *place, who client, in round, holder weir.Holder, at int64) {
	*p = place{round: in, line: l.turns[in].line(who), since: at, lasts: at, busy: at, own: p.own}
	l.turns[in].place(p.line, 1)
	l.inUse[p.round.lane()]++
	if holder != nil {
		p.holder = holder
		l.places.all.Add(&p.listed, p)
	}
}

// end gives a place back.
func (l *Lanes) end(p *place) {
	if p.lost {
		p.line.lost--
	}
	l.turns[p.round].place(p.line, -1)
	l.inUse[p.round.lane()]--
	p.line = nil
	if p.holder != nil {
		l.places.all.Remove(&p.listed)
		p.holder = nil
	}
	if p.own {
		l.places.spare = append(l.places.spare, p)
	}
}

// stall is for how long a client may be too slow before it loses its place.
func (l *Lanes) stall() int64 {
	return min(max(leastStall, int64(8*l.service.orGuess())), mostStall)
}

// fair is how many places each client may have where others wait.
func (l *Lanes) fair() int {
	n := 0
	for i := range l.turns {
		n += len(l.turns[i].lines)
	}
	return max(1, l.capacity()/max(1, n))
}

// evict takes places from clients that are too slow, while somebody waits. A client that has more than its fair part of
// the places also loses those that have waited for it for stall, however fast it is, and those at which too little was
// moved for mostStall. A client with its fair part may have requests for which the service takes any time.
func (l *Lanes) evict(at int64) {
	if l.waiting() == 0 || l.places.all.First() == nil || at-l.places.looked < lookAgain {
		return
	}
	again := at-l.places.looked <= 2*lookAgain // otherwise nobody waited until now, and the time of all begins now
	l.places.looked = at
	stall, fair := l.stall(), l.fair()
	for p := l.places.all.First(); p != nil; p = p.listed.Next() {
		if p.lost {
			continue
		}
		moved, late := p.holder.Moved()
		more := int64(min(float64(moved-p.moved)/float64(l.o.Slowest)*1e9, float64(ahead)))
		if p.moved = moved; !again {
			p.lasts, p.busy = max(p.lasts, at), max(p.busy, at)
		}
		p.lasts, p.busy = min(p.lasts+more, at+ahead), min(p.busy+more, at+ahead)
		if !late {
			p.lasts = max(p.lasts, at)
		}
		greedy := p.line.places-p.line.lost > fair
		if at-p.lasts >= stall || greedy && (late && at-p.since >= stall || at-p.busy >= mostStall) {
			p.lost = true
			p.line.lost++
			l.counts.Lost++
			p.holder.Lose()
		}
	}
}

// evictDue is when evict has to look next.
func (l *Lanes) evictDue() int64 {
	if l.waiting() == 0 || l.places.all.First() == nil {
		return never
	}
	return max(l.places.looked+lookAgain, l.at)
}
