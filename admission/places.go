package admission

import (
	"time"

	"weir"
	"weir/internal/queue"
)

const (
	// leastStall and mostStall bound for how long a client may be too slow: eight times as long as requests take.
	leastStall, mostStall = int64(5 * time.Second), int64(30 * time.Second)
	// ahead is for how long what a client has moved quickly may last: players take more than they need, and pause.
	ahead     = int64(2 * time.Minute)
	lookAgain = int64(time.Second)
)

// A place is one at the upstream that somebody has.
type place struct {
	round  round
	line   *line // of its client
	since  int64
	holder weir.Holder // nil where nobody can be asked; those are not in the list
	moved  int64       // bytes, when it was last looked at
	lasts  int64       // until when they last at the slowest speed; while it does not wait for its client, that is free
	busy   int64       // and without that
	lost   bool
	own    bool // it is part of no waiter, and may be used again
	listed queue.Node[place]
}

// places are those who have a place and can be asked how they get on.
type places struct {
	all    queue.Listed[place]
	looked int64    // when they were last looked at
	spare  []*place // to be used again; as many as there were at once
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

// begin takes a place for a client.
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

// stall is how long a client may be too slow: long for this upstream.
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

// evict takes their places from clients that are too slow, while somebody waits. A client that has more than its fair
// part of the places also loses those that wait for it, however fast it is, and those at which nothing happens. For
// nothing else the service may take its time.
func (l *Lanes) evict(at int64) {
	if l.waiting() == 0 || l.places.all.First() == nil || at-l.places.looked < lookAgain {
		return
	}
	again := at-l.places.looked <= 2*lookAgain // else nobody has waited, and all of them begin now
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

func (l *Lanes) evictDue() int64 {
	if l.waiting() == 0 || l.places.all.First() == nil {
		return never
	}
	return max(l.places.looked+lookAgain, l.at)
}
