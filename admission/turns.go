package admission

import "weir/internal/queue"

// turns is a round: events that wait for a place, and who has how many places. The package comment has the rule.
type turns struct {
	lines map[client]*line     // of clients that wait or have a place
	next  queue.Ranked[line]   // of those that wait, whose turn is next
	most  queue.Ranked[line]   // and who has most waiting
	least queue.Ranked[waiter] // whose stamp cost least
	age   queue.Listed[waiter] // who came first
	crowd queue.Listed[line]   // where people with stamps of their own share an address
	total int                  // events that wait
	count uint64               // of turns and joins
	given uint64               // places given to those who waited
	spare []*line              // to be used again, so that an event that is let in at once allocates nothing
}

// A line is what one client has waiting, and how many places it has.
type line struct {
	client client
	places int
	lost   int                  // of its places, those that it is about to lose
	n      int                  // waiting
	people queue.Listed[person] // in the order of their turns
	ids    int                  // how many people
	turn   uint64               // the smallest goes first among those with as many places
	since  int64                // when it came, or had its last turn
	next   int                  // in the heaps
	most   int
	spot   queue.Node[line] // in the crowd
}

// A person is a client id that has something waiting. Those without a stamp are one person.
type person struct {
	id      uint32
	waiting queue.Listed[waiter]
	turn    queue.Node[person]
}

func newTurns() turns {
	return turns{
		lines: map[client]*line{},
		next: queue.NewRanked(func(a, b *line) bool {
			return a.places < b.places || a.places == b.places && a.turn < b.turn
		}, func(l *line) *int { return &l.next }),
		most: queue.NewRanked(func(a, b *line) bool { return a.n > b.n }, func(l *line) *int { return &l.most }),
		least: queue.NewRanked(func(a, b *waiter) bool { return a.work < b.work || a.work == b.work && a.seq > b.seq },
			func(w *waiter) *int { return &w.least }),
	}
}

// line returns that of a client.
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
	l := t.line(w.client)
	w.line, w.person = l, l.person(w.id)
	if w.person == nil {
		w.person = &person{id: w.id}
		l.people.Add(&w.person.turn, w.person)
		if l.ids++; l.ids == 2 {
			t.crowd.Add(&l.spot, l)
		}
	}
	w.person.waiting.Add(&w.spot, w)
	t.age.Add(&w.age, w)
	t.least.Add(w)
	t.total++
	if l.n++; l.n > 1 {
		t.most.Fix(l)
		return
	}
	t.turn(l, at)
	t.next.Add(l)
	t.most.Add(l)
}

// turn puts a client at the end of the round.
func (t *turns) turn(l *line, at int64) {
	t.count++
	l.turn, l.since = t.count, at
}

func (l *line) person(id uint32) *person {
	for p := l.people.First(); p != nil; p = p.turn.Next() {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (t *turns) leave(w *waiter) {
	l, p := w.line, w.person
	p.waiting.Remove(&w.spot)
	t.age.Remove(&w.age)
	t.least.Remove(w)
	t.total--
	w.line = nil
	if p.waiting.First() == nil {
		l.people.Remove(&p.turn)
		if l.ids--; l.ids == 1 {
			t.crowd.Remove(&l.spot)
		}
	}
	if l.n--; l.n > 0 {
		t.most.Fix(l)
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
	w = p.waiting.First()
	if l.places == 0 {
		waited = at - l.since
	}
	l.people.Remove(&p.turn) // the next turn of this line is for others
	l.people.Add(&p.turn, p)
	if !extra {
		t.turn(l, at)
		t.next.Fix(l)
	}
	t.leave(w)
	return w, waited
}

// crowded returns the line that has a turn because several people share it; nil where it is the turn of all.
func (t *turns) crowded(places int) *line {
	first := t.crowd.First()
	if first == nil || t.given%everyFourth != 0 {
		return nil
	}
	for {
		l := t.crowd.First()
		t.crowd.Remove(&l.spot)
		t.crowd.Add(&l.spot, l)
		switch {
		case l.places < max(1, places/everyFourth):
			return l
		case t.crowd.First() == first:
			return nil
		}
	}
}

// instead returns the waiter that leaves where no more may wait and another client comes: the newest of the client that
// has most waiting, if that is more than the other would have, else the one whose stamp cost least, if the other's cost
// more. It returns nil where the other has to go.
func (t *turns) instead(who client, work uint64) *waiter {
	if t.total == 0 {
		return nil
	}
	own := 0
	if l := t.lines[who]; l != nil {
		own = l.n
	}
	if top := t.most.First(); top.n > own+1 {
		return top.people.Last().waiting.Last()
	}
	if w := t.least.First(); w.work < work {
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
