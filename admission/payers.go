package admission

import "weir/internal/queue"

// payers is where those wait who paid. They take turns after the manner of start-time fair queueing (Goyal, Vin and
// Cheng 1996): a request begins a turn after the one before it of the same client, or now; the first few of a client, a
// page, share a turn. It is due the later, the less its use of the stamp cost in proportion to what is asked now: the
// tenth use cost a tenth of the work. So clients take turns, whoever pays what is asked goes before whoever uses old or
// cheap stamps up, and nobody gets more turns for more work. Waiting does not improve a rank: a lane that is full
// serves those who pay what is asked, and the others are told to pay again.
type payers struct {
	next   queue.Ranked[waiter] // the one who is due first
	worst  queue.Ranked[waiter] // the one who is due last
	age    queue.Listed[waiter]
	behind map[client]*tab
	now    float64 // where the last one began that was let in
}

// A tab is what one client has waiting.
type tab struct {
	end    float64 // of the turn of the last one; while others may share it, its beginning
	n      int
	shared int // how many share that turn
}

// pageful is how many requests share a turn, and how many uses of a stamp are worth one: a page and what it loads.
const pageful = 5

// rank is how many turns later a use of a stamp is due, at a price.
func rank(price, work uint64, uses int) float64 {
	return float64(price) / float64(max(work, 1)) * float64(max(uses, 1)) / pageful
}

func newPayers() payers {
	return payers{
		next: queue.NewRanked(sooner, func(w *waiter) *int { return &w.index }),
		worst: queue.NewRanked(func(a, b *waiter) bool { return sooner(b, a) },
			func(w *waiter) *int { return &w.worst }),
		behind: map[client]*tab{},
	}
}

func (p *payers) len() int { return p.next.Len() }

func (p *payers) join(w *waiter, rank float64) {
	w.begins = p.begins(w.client)
	w.due = w.begins + rank
	if w.client.family != 0 {
		t := p.behind[w.client]
		if t == nil {
			t = new(tab)
			p.behind[w.client] = t
		}
		t.joined(w)
	}
	p.next.Add(w)
	p.worst.Add(w)
	p.age.Add(&w.age, w)
}

// joined notes where a request begins. Those of a page begin together: if each began later than the one before, the
// last would go after others that used their stamps once, because it also uses the same stamp for the fifth time.
// Time goes on with each of them all the same. Otherwise page after page of new stamps would begin now, and whoever
// waits with an older stamp would do so for ever.
func (t *tab) joined(w *waiter) {
	if w.begins >= t.end+1 { // that turn is over
		t.shared = 0
	}
	if t.shared == 0 {
		t.end = w.begins
	}
	w.reaches = max(w.begins, t.end+float64(t.shared)/pageful)
	t.n++
	if t.shared++; t.n > pageful || t.shared >= pageful {
		t.end, t.shared = w.begins+1, 0
	}
}

// begins is where a request of a client begins that joins now.
func (p *payers) begins(who client) float64 {
	if t := p.behind[who]; t != nil {
		return max(p.now, t.end)
	}
	return p.now
}

func (p *payers) leave(w *waiter) {
	p.next.Remove(w)
	p.worst.Remove(w)
	p.age.Remove(&w.age)
	if t := p.behind[w.client]; t != nil {
		if t.n--; t.n == 0 {
			delete(p.behind, w.client)
		}
	}
	if p.len() == 0 {
		p.now = 0
	}
}

func (p *payers) take() *waiter {
	w := p.next.First()
	p.now = max(p.now, w.begins, w.reaches)
	p.leave(w)
	return w
}

// least returns the one that is due last, if that is later than a time; nil otherwise.
func (p *payers) least(due float64) *waiter {
	if p.len() > 0 && p.worst.First().due > due {
		return p.worst.First()
	}
	return nil
}

// before is how many are due before a time.
func (p *payers) before(due float64) int { return p.until(0, due) }

// until counts those below a position in the heap who are due by a time. It looks at those and their children.
func (p *payers) until(i int, due float64) int {
	if i >= p.len() || p.next.Items()[i].due > due {
		return 0
	}
	return 1 + p.until(2*i+1, due) + p.until(2*i+2, due)
}

// newcomer is how many are let in before a client that pays now what is asked.
func (p *payers) newcomer() int { return p.before(p.now + rank(1, 1, 1)) }
