package admission

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"weir"
	"weir/farm"
	"weir/internal/queue"
	"weir/internal/tables"
)

const (
	// grace is how much later than two reloads somebody may come.
	grace = 2 * time.Second
	// Stay is for how long a ticket may be used after it was let in.
	Stay = 2 * time.Minute
	// leastRemembered is how many who were let in are remembered at least, in each of two generations.
	leastRemembered = 100_000
	// A rate of people is measured over about so long.
	rateMemory = 30 * time.Second
	// loaded is when a client has most of its page. enoughRecent is how many such clients are looked at.
	loaded       = 4 * time.Second
	enoughRecent = 1000
)

// A State says what becomes of a ticket that is shown.
type State uint8

const (
	InLine  State = iota // it has its place, and is to come again
	Called               // its turn has come
	Full                 // the line is full; it keeps its number and is to come again
	TooMany              // there are too many of that client; it keeps its number and is to come again
	Spent                // it was let in and is used up; it must not be renewed
)

var stateNames = [...]string{"in-line", "called", "full", "too-many", "spent"}

func (s State) String() string               { return weir.Name(stateNames[:], s, "state") }
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Standing is how it stands with a ticket in the waiting room.
type Standing struct {
	State    State
	Ahead    int           // in line before it
	Known    bool          // whether Estimate is known
	Estimate time.Duration // until it is called, by how many were let in recently
	Reload   time.Duration // when to come again
	Until    time.Time     // Called: the ticket is worth something until then
}

// An entry is a number in the line. Whoever has it shows up every now and then.
type entry struct {
	number uint64
	client client
	called bool              // and so not in the order any more
	here   bool              // it was last shown to this node
	seen   int64             // when it was last shown
	age    queue.Node[entry] // in the order in which they were last seen

	left, right *entry // in the order of numbers
	size        int
	weight      uint64 // by chance
}

// A visit is what is left of a ticket that was let in.
type visit struct {
	until int64
	uses  int
	turn  uint64 // in a farm: counts the changes
}

// An arrival is when somebody was let in.
type arrival struct {
	number uint64
	at     int64
}

// A room is the waiting room.
type room struct {
	entries map[uint64]*entry   // in line or called
	order   order               // in line
	seen    queue.Listed[entry] // all of them; the one seen longest ago comes first
	called  int

	// Those who were let in are remembered until nobody can have a ticket of theirs that is still good: in two
	// generations, of which the older one is dropped whole.
	visits  visits
	others  []*visits // at the other nodes of a farm
	since   int64     // when the younger one began
	most    int       // of each generation
	arrived rate      // people let in
	used    rate      // and how often they used their tickets

	covers int       // what a ticket is worth, as was said last
	recent []arrival // let in a moment ago; at most so many as are enough to know
	people int       // let in a moment before that
	needed float64   // how many requests each of them needed

	patient      int64 // longer patience, for those who were told of a longer reload
	patientUntil int64
}

func newRoom(at int64) room {
	return room{entries: map[uint64]*entry{}, visits: newVisits(), since: at, most: leastRemembered,
		arrived: rate{since: at}, used: rate{since: at}}
}

// extendPatience lets people who were told a longer reload come back after it. The options are about to change.
func (l *Lanes) extendPatience(at int64) {
	l.room.patient = l.patience(at)
	l.room.patientUntil = max(l.room.patientUntil, at+int64(patienceFor(l.o.Reload.Std())))
}

func patienceFor(reload time.Duration) time.Duration { return 2*reload + grace }

// patience is how long somebody may stay away.
func (l *Lanes) patience(at int64) int64 {
	p := int64(patienceFor(l.o.Reload.Std()))
	if at < l.room.patientUntil {
		p = max(p, l.room.patient)
	}
	return p
}

// numberStep is how far apart the numbers of one node are. Between them are those of other nodes.
const numberStep = farm.MaxNodes

// Number returns the next number: the time, so that nodes of a farm whose clocks agree give comparable ones, or the one
// after the last. Nothing is stored for it.
func (l *Lanes) Number(now time.Time) uint64 {
	for {
		last := l.numbers.Load()
		next := max(uint64(nanos(now)), last+numberStep)/numberStep*numberStep + l.rank.Load()
		if l.numbers.CompareAndSwap(last, next) {
			return next
		}
	}
}

// Issue returns a ticket with the next number. Nothing is stored for it.
func (l *Lanes) Issue(client string, now time.Time) Ticket {
	return l.Renew(Ticket{Number: l.Number(now), Issued: now, Client: client}, now)
}

// Renew returns a ticket that is good until two reloads from now: whoever holds it has to keep coming.
func (l *Lanes) Renew(t Ticket, now time.Time) Ticket {
	t.By = now.Add(patienceFor(time.Duration(l.reload.Load())))
	return t
}

// present takes a genuine ticket. The first time, it puts the number in line. When the number's turn comes, the client
// is let in: for two minutes the ticket is worth as many requests as it covers, this one included. Each call counts as
// one of them; Refund gives one back. Unless it is Spent, the ticket must be renewed each time (Renew).
func (l *Lanes) present(number uint64, source netip.Addr, covers int, at int64) Standing {
	l.expire(at, 8)
	r := &l.room
	r.covers = max(1, covers)
	r.forget(at, int64(Stay)+l.patience(at))
	s := Standing{State: InLine, Reload: l.o.Reload.Std()}
	if until, uses, known := r.total(number); known {
		if s.State = Spent; at < until && uses < r.covers {
			v, in, here := r.visits.find(number)
			if !here && r.remembered() >= r.most {
				s.State = Full
				l.counts.LineFull++
				return s
			}
			s.State, s.Until = Called, l.instant(until)
			r.visits[in][number] = l.noteVisit(number, visit{until: until, uses: v.uses + 1})
			r.used.add(at, 1)
		}
		return s
	}
	p := r.entries[number]
	if p == nil {
		who := clientOf(source)
		switch {
		case !tables.MayTake(l.clients[who], r.order.len()+r.called, l.o.Line):
			s.State = Full
			l.counts.LineFull++
			return s
		case l.clients[who] >= l.o.PerClient:
			s.State = TooMany
			l.counts.TooMany++
			return s
		}
		p = &entry{number: number, client: who, weight: rand.Uint64()}
		if len(r.entries) == 0 && at-r.arrived.at > int64(rateMemory) {
			// How fast the line moved when there was none says nothing.
			r.arrived, r.used = rate{since: at, at: at}, rate{since: at, at: at}
		}
		l.standInLine(p, at)
	} else {
		r.seen.Remove(&p.age)
		p.seen = at
		r.seen.Add(&p.age, p)
	}
	p.here = true
	l.note(lineSeen, p, at)
	l.call(at)
	if !p.called {
		s.Ahead = r.order.ahead(number)
	}
	// A free place does not wait for a smaller number that is away.
	switch next := p.called || l.poolOpen(at); {
	case next && r.remembered() < r.most:
		l.takeOut(p)
		r.visits[0][number] = l.noteVisit(number, visit{until: at + int64(Stay), uses: 1})
		r.arrived.add(at, 1)
		r.used.add(at, 1)
		if len(r.recent) < enoughRecent {
			r.recent = append(r.recent, arrival{number, at})
		}
		l.counts.Admitted++
		s.State, s.Ahead, s.Until = Called, 0, l.instant(at+int64(Stay))
		l.call(at)
		return s
	case next: // it could not be remembered, and would come in again and again
		s.State = Full
		l.counts.LineFull++
	}
	l.alert(r.seen.First().seen + l.patience(at))
	if speed := r.arrived.per(at); speed > 0 && at-r.arrived.since >= int64(l.o.Reload) {
		s.Known = true
		s.Estimate = time.Duration(min(float64(s.Ahead+1)/speed, float64(math.MaxInt64/2)))
	}
	return s
}

// Refund gives back one use of a ticket, for a request that did not go on.
func (l *Lanes) Refund(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, in, known := l.room.visits.find(number); known && v.uses > 0 {
		v.uses--
		l.room.visits[in][number] = l.noteVisit(number, v)
	}
}

// call calls as many as can be let in until they next show up, in the order of their numbers. They are away between two
// reloads, and a place at the upstream must not wait for them.
func (l *Lanes) call(at int64) {
	r := &l.room
	if r.order.root == nil {
		return
	}
	n, there := l.ahead(at), r.called+l.turns[called].total
	if f := l.farm; f != nil {
		if !f.ready {
			return
		}
		n, there = n+f.ahead, there+f.held
	}
	for ; there < n; there++ {
		p := r.order.first()
		if p == nil {
			return
		}
		r.order.remove(p)
		p.called = true
		r.called++
		l.note(lineCalled, p, at)
	}
}

// ahead is how many of the general pool can be let in until they next show up, those in the lane included.
func (l *Lanes) ahead(at int64) int {
	if l.inLane(stamped) > 0 && l.o.Strict {
		return 0 // they would be held, and refused in the end
	}
	places := l.poolPlaces(at)
	if l.turns[held].total > 0 {
		places /= 2 // they take turns with those who are held
	}
	// Nobody is called who would be held for longer than one may be.
	reload := min(float64(l.o.Reload), float64(l.o.MaxWait)/2)
	if w := l.turns[called].age.First(); w != nil && float64(at-w.since) > reload {
		return 0
	}
	return max(1, int(math.Ceil(min(places*reload/(l.service.orGuess()*l.room.needs(at)), MaxLine))))
}

// needs is how many requests a page and what it loads need: the mean of those who had time to load it, or a guess.
func (r *room) needs(at int64) float64 {
	const guessed, guesses, memory = 10, 2, 50
	if r.covers == 0 { // nobody has shown a ticket here, and another node asks
		return guessed
	}
	if r.people == 0 {
		r.needed, r.people = float64(min(r.covers, guessed)), guesses
	}
	for len(r.recent) > 0 && at-r.recent[0].at >= int64(loaded) {
		_, uses, _ := r.total(r.recent[0].number)
		r.people = min(r.people+1, memory)
		r.needed += (float64(uses) - r.needed) / float64(r.people)
		r.recent = r.recent[1:]
	}
	needs := r.needed
	if n := r.arrived.faded(at); n > 1 {
		needs = max(needs, r.used.faded(at)/n) // already
	}
	return max(1, needs)
}

// standInLine adds a number that was shown at a time.
func (l *Lanes) standInLine(p *entry, seen int64) {
	r := &l.room
	r.entries[p.number] = p
	r.order.add(p)
	l.clients.add(p.client, 1)
	p.seen = seen
	r.seen.Add(&p.age, p)
}

func (l *Lanes) takeOut(p *entry) {
	r := &l.room
	if p.called {
		r.called--
	} else {
		r.order.remove(p)
	}
	r.seen.Remove(&p.age)
	delete(r.entries, p.number)
	l.clients.add(p.client, -1)
}

// expire takes some out of line who did not show up for two reloads, and reports whether there are more.
func (l *Lanes) expire(at int64, most int) (more bool) {
	patience := l.patience(at)
	for range most {
		p := l.room.seen.First()
		if p == nil || p.seen+patience > at {
			return false
		}
		l.takeOut(p)
		if p.here {
			l.counts.NoShows++
		}
	}
	return true
}

// forget drops the older generation of those who were let in, when the younger is old enough.
func (r *room) forget(at, after int64) {
	age := at - r.since
	if age < after {
		return
	}
	r.since = at
	r.visits.forget(age < 2*after)
	for _, vs := range r.others {
		vs.forget(age < 2*after)
	}
}

// total is what has become of a ticket at all nodes together.
func (r *room) total(number uint64) (until int64, uses int, known bool) {
	v, _, known := r.visits.find(number)
	until, uses = v.until, v.uses
	for _, vs := range r.others {
		if v, _, there := vs.find(number); there {
			until, uses, known = max(until, v.until), uses+v.uses, true
		}
	}
	return until, uses, known
}

// remembered is how many of the younger generation there are.
func (r *room) remembered() int {
	n := len(r.visits[0])
	for _, vs := range r.others {
		n += len(vs[0])
	}
	return n
}

// A rate is how often something happens, measured over about the last half minute.
type rate struct {
	count float64 // what is older counts less
	at    int64   // when it last happened
	since int64   // when measuring began
}

func (r *rate) add(at int64, n int) {
	r.count = r.faded(at) + float64(n)
	r.at = at
}

func (r *rate) faded(at int64) float64 {
	return r.count * math.Exp(-float64(at-r.at)/float64(rateMemory))
}

// per is how often in a nanosecond.
func (r *rate) per(at int64) float64 {
	// At first there is less to look back at.
	span := float64(rateMemory) * -math.Expm1(-float64(at-r.since)/float64(rateMemory))
	if span <= 0 {
		return 0
	}
	return r.faded(at) / span
}
