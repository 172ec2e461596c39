package admission

import "weir/internal/queue"

// commons has those who wait and did not pay. There are two rounds, which take turns: requests that are held, and
// people who were called from the waiting room. In each round clients take turns: a client that sends more waits
// longer.
type commons struct {
	rounds [rounds]round
	last   int // which round had the last turn
}

const (
	heldRound   = 0
	calledRound = 1
	rounds      = 2
)

func newCommons() (c commons) {
	for i := range c.rounds {
		c.rounds[i].lines = map[client]*line{}
		c.rounds[i].most = queue.NewRanked(func(a, b *line) bool { return a.n > b.n },
			func(l *line) *int { return &l.index })
	}
	return c
}

func (c *commons) len() int { return c.rounds[heldRound].total + c.rounds[calledRound].total }

func (c *commons) join(w *waiter) { c.rounds[w.round].join(w) }

func (c *commons) leave(w *waiter) { c.rounds[w.round].leave(w) }

func (c *commons) take() *waiter {
	next := 1 - c.last
	if c.rounds[next].total == 0 {
		next = c.last
	}
	c.last = next
	r := &c.rounds[next]
	l := r.ring.First()
	w := l.waiting.First()
	r.leave(w)
	if l.n > 0 { // its next turn comes after all others had theirs
		r.ring.Remove(&l.turn)
		r.ring.Add(&l.turn, l)
	}
	return w
}

func (c *commons) oldest() *waiter {
	a, b := c.rounds[heldRound].age.First(), c.rounds[calledRound].age.First()
	if a == nil || b != nil && b.since < a.since {
		return b
	}
	return a
}

// before is about how many are let in before a request that is held from now on.
func (c *commons) before(who client) int {
	h := &c.rounds[heldRound]
	own := 0
	if l := h.lines[who]; l != nil {
		own = l.n
	}
	n := min(h.total, (own+1)*len(h.lines))
	return n + min(n+1, c.rounds[calledRound].total)
}

// A round is one in which clients take turns.
type round struct {
	lines map[client]*line
	ring  queue.Listed[line]   // whose turn is next
	age   queue.Listed[waiter] // who came first
	most  queue.Ranked[line]   // who has most waiting
	total int
}

// A line is what one client has waiting.
type line struct {
	client  client
	waiting queue.Listed[waiter]
	n       int
	index   int // in the heap
	turn    queue.Node[line]
}

func (r *round) join(w *waiter) {
	l := r.lines[w.client]
	if l == nil {
		l = &line{client: w.client}
		r.lines[w.client] = l
		r.ring.Add(&l.turn, l)
		r.most.Add(l)
	}
	l.waiting.Add(&w.spot, w)
	l.n++
	r.total++
	r.most.Fix(l)
	w.line = l
	r.age.Add(&w.age, w)
}

func (r *round) leave(w *waiter) {
	l := w.line
	l.waiting.Remove(&w.spot)
	r.age.Remove(&w.age)
	l.n--
	r.total--
	if l.n > 0 {
		r.most.Fix(l)
		return
	}
	r.most.Remove(l)
	r.ring.Remove(&l.turn)
	delete(r.lines, l.client)
}

// greediest is the newest request of the client that has most waiting, if that is more than another would have.
func (r *round) greediest(other client) *waiter {
	if r.most.Len() == 0 {
		return nil
	}
	own := 0
	if l := r.lines[other]; l != nil {
		own = l.n
	}
	if top := r.most.First(); top.n > own+1 {
		return top.waiting.Last()
	}
	return nil
}
