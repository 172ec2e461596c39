package admission

import "weir/internal/queue"

// turns is a round: the events that wait in it, and how many places each client has. The package comment has the rule
// by which clients take turns.
type turns struct {
	lines  map[client]*line     // of all clients that wait or have a place
	next   queue.Ranked[line]   // of clients that wait; first the one whose turn is next
	most   queue.Ranked[line]   // of clients that wait; first the one with the most waiting events
	least  queue.Ranked[waiter] // first the one whose stamp cost least
	age    queue.Listed[waiter] // first the one that came first
	crowd  queue.Listed[line]   // addresses at which several people wait who paid
	people map[client]*person   // that wait
	total  int                  // events that wait
	count  uint64               // the last number given to line.turn
	given  uint64               // places given to those who waited
	spare  []*line              // to be used again, so that an event that is let in at once allocates nothing
}

// A line is what one client has: events that wait, and places.
type line struct {
	client client
	places int                  // at the upstream
	lost   int                  // how many of these places were taken from it, and are not given back yet
	n      int                  // events that wait
	people queue.Listed[person] // in the order of their turns
	ids    int                  // how many people
	turn   uint64               // among clients with equally many places, the smallest number is next
	since  int64                // when it came, or had its last turn
	cheap  bool                 // the event that goes next is worth at most half of the price now
	next   int                  // index in turns.next
	most   int                  // index in turns.most
	spot   queue.Node[line]     // in turns.crowd
}

// A person is a client id, or a client without one, that has events waiting.
type person struct {
	who     client
	line    *line
	waiting queue.Listed[waiter]
	n       int // how many wait
	turn    queue.Node[person]
}

func newTurns() turns {
	return turns{
		lines: map[client]*line{}, people: map[client]*person{},
		next: queue.NewRanked(func(a, b *line) bool {
			if a.cheap != b.cheap {
				return b.cheap
			}
			return a.places < b.places || a.places == b.places && a.turn < b.turn
		}, func(l *line) *int { return &l.next }),
		most: queue.NewRanked(func(a, b *line) bool { return a.n > b.n }, func(l *line) *int { return &l.most }),
		least: queue.NewRanked(func(a, b *waiter) bool { return a.work < b.work || a.work == b.work && a.seq > b.seq },
			func(w *waiter) *int { return &w.least }),
	}
}

// line returns the line of a client, a new one if there is none.
func (t *turns) line(who client) *line {
	l := t.lines[who]
	if l == nil {
		if n := len(t.spare); n > 0 {
			l, t.spare = t.spare[n-1], t.spare[:n-1]
		} else {
			l = new(line)
		}
		l.client = who
		t.lines[who] = l
	}
	return l
}

// drop forgets a client that neither waits nor has a place.
func (t *turns) drop(l *line) {
	if l.n == 0 && l.places == 0 {
		delete(t.lines, l.client)
		t.spare = append(t.spare, l)
	}
}

// place notes that a client has so many places more.
func (t *turns) place(l *line, more int) {
	if l.places += more; l.n > 0 {
		t.next.Fix(l)
	}
	t.drop(l)
}

func (t *turns) join(w *waiter, at int64) {
	p := t.people[w.who()]
	if p == nil {
		p = &person{who: w.who(), line: t.line(w.client)}
		t.people[p.who] = p
		p.line.people.Add(&p.turn, p)
		if p.line.ids++; p.line.ids == 2 {
			t.crowd.Add(&p.line.spot, p.line)
		}
	}
	l := p.line
	w.line, w.person, w.client = l, p, l.client
	p.n++
	p.waiting.Add(&w.spot, w)
	t.age.Add(&w.age, w)
	t.least.Add(w)
	t.total++
	if l.n++; l.n > 1 {
		t.most.Fix(l)
		return
	}
	l.cheap = w.cheap
	t.count++
	l.turn, l.since = t.count, at
	t.next.Add(l)
	t.most.Add(l)
}

// head is what goes next of a line.
func (l *line) head() *waiter { return l.people.First().waiting.First() }

func (t *turns) leave(w *waiter) {
	l, p := w.line, w.person
	p.waiting.Remove(&w.spot)
	t.age.Remove(&w.age)
	t.least.Remove(w)
	t.total--
	w.line = nil
	if p.n--; p.n == 0 {
		delete(t.people, p.who)
		l.people.Remove(&p.turn)
		if l.ids--; l.ids == 1 {
			t.crowd.Remove(&l.spot)
		}
	}
	if l.n--; l.n > 0 {
		l.cheap = l.head().cheap
		t.most.Fix(l)
		t.next.Fix(l)
		return
	}
	t.next.Remove(l)
	t.most.Remove(l)
	t.drop(l)
}

// everyFourth place goes to an address where several people wait, if it has less than a fourth of the places.
const everyFourth = 4

// take takes the waiter out whose turn it is, and returns how long its client has waited for that; 0 where it has other
// places, as then it waits for itself.
func (t *turns) take(places int, at int64) (w *waiter, waited int64) {
	t.given++
	l, extra := t.crowded(places), true
	if l == nil {
		l, extra = t.next.First(), false
	}
	p := l.people.First()
	w = l.head()
	if l.places == 0 {
		waited = at - l.since
	}
	l.people.Remove(&p.turn) // the next turn of this line is for others
	l.people.Add(&p.turn, p)
	if !extra {
		t.count++
		l.turn, l.since = t.count, at
	}
	t.leave(w)
	return w, waited
}

// crowded returns the line that has a turn because several people share it; nil where it is the turn of all.
func (t *turns) crowded(places int) *line {
	l := t.crowd.First()
	if l == nil || t.given%everyFourth != 0 {
		return nil
	}
	t.crowd.Remove(&l.spot)
	t.crowd.Add(&l.spot, l)
	if l.places >= max(1, places/everyFourth) {
		return nil
	}
	return l
}

// instead returns the waiter that leaves where no more may wait and another request comes: the newest of the client
// that has most waiting, if that is more than the other would have, else the one whose stamp cost least, if the other's
// cost more. At one address the same holds for its people. It returns nil where the other has to go.
func (t *turns) instead(r request) *waiter {
	own, ownOf := 0, 0
	if l := t.lines[r.client]; l != nil {
		own = l.n
	}
	if p := t.people[r.who()]; p != nil {
		ownOf = p.n
	}
	if top := t.most.First(); top != nil && (top.n > own+1 || top.client == r.client) {
		greedy := top.people.First()
		for p, looked := greedy, 0; p != nil && looked < 1000; p, looked = p.turn.Next(), looked+1 {
			if p.n > greedy.n {
				greedy = p
			}
		}
		if top.n > own+1 || greedy.n > ownOf+1 {
			return greedy.waiting.Last()
		}
	}
	if w := t.least.First(); w != nil && w.work < r.work {
		return w
	}
	return nil
}

// before is about how many go before an event of a client that joins now.
func (t *turns) before(who client) int {
	own := 0
	if l := t.lines[who]; l != nil {
		own = l.n
	}
	return min(t.total, (own+1)*t.next.Len())
}
