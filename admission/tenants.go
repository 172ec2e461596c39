package admission

import (
	"time"

	"weir"
	"weir/internal/queue"
)

const (
	// moves is how many bytes are progress. Whoever takes a byte now and then makes none.
	moves = 4 << 10
	// An unpaid exchange without progress loses its place after eight times the mean, within these bounds.
	leastStall, mostStall = int64(5 * time.Second), int64(30 * time.Second)
	lookAgain             = int64(time.Second)
)

// A tenancy is a place at the upstream that somebody has.
type tenancy struct {
	lane   lane
	since  int64
	holder weir.Holder // nil where nobody can be asked; those are not in the list
	moved  int64       // when it was last seen to make progress
	seen   int64       // and when that was
	lost   bool
	own    bool // it is part of no waiter, and may be used again
	listed queue.Node[tenancy]
}

// tenants are those without a stamp who have a place and can be asked how they get on.
type tenants struct {
	all    queue.Listed[tenancy]
	n      int
	looked int64      // when they were last looked at
	spare  []*tenancy // to be used again; as many as there were at once
}

// get returns a tenancy for a request that is let in at once, so that nothing is allocated for it.
func (t *tenants) get() *tenancy {
	if n := len(t.spare); n > 0 {
		p := t.spare[n-1]
		t.spare = t.spare[:n-1]
		return p
	}
	return &tenancy{own: true}
}

func (t *tenants) begin(p *tenancy, in lane, holder weir.Holder, at int64) {
	own := p.own
	*p = tenancy{lane: in, since: at, seen: at, own: own}
	if in == pool && holder != nil {
		p.holder = holder
		t.all.Add(&p.listed, p)
		t.n++
	}
}

// end notes that the place is given back.
func (t *tenants) end(p *tenancy) {
	if p.holder != nil {
		t.all.Remove(&p.listed)
		t.n--
		p.holder = nil
	}
	if p.own {
		t.spare = append(t.spare, p)
	}
}

// stall is how long an exchange may make no progress: long for this upstream.
func (l *Lanes) stall() int64 {
	return min(max(leastStall, int64(8*l.service.orGuess())), mostStall)
}

// evict takes their places from those who did not pay and make no progress, while somebody who paid waits.
func (l *Lanes) evict(at int64) {
	t := &l.tenants
	if l.payers.len() == 0 || t.n == 0 || at-t.looked < lookAgain {
		return
	}
	t.looked = at
	stall := l.stall()
	for p := t.all.First(); p != nil; p = p.listed.Next() {
		if p.lost {
			continue
		}
		if moved, late := p.holder.Moved(); moved-p.moved >= moves || !late {
			p.moved, p.seen = moved, at
		} else if at-p.seen >= stall {
			p.lost = true
			l.counts.Lost++
			p.holder.Lose()
		}
	}
}

func (l *Lanes) evictDue() int64 {
	if l.payers.len() == 0 || l.tenants.n == 0 {
		return never
	}
	return max(l.tenants.looked+lookAgain, l.at)
}
