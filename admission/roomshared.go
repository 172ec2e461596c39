package admission

import (
	"errors"
	"math/rand/v2"
	"time"

	"weir/farm"
)

// Bounds of what other nodes tell.
var (
	errLineBound  = errors.New("more people wait in line at other nodes than this one can remember: raise capacity.line")
	errVisitBound = errors.New("more people were let in by other nodes than this one can note: raise capacity.line")
)

// jitter is how much longer one message may be under way than another.
const jitter = int64(100 * time.Millisecond)

// visits are the tickets that were used, in two generations.
type visits [2]map[uint64]visit

func newVisits() visits { return visits{{}, {}} }

// find returns what is left of a ticket, and which generation knows it.
func (vs *visits) find(number uint64) (v visit, in int, known bool) {
	for in = range vs {
		if v, known = vs[in][number]; known {
			return v, in, true
		}
	}
	return visit{}, 0, false
}

// forget drops the older generation, and the younger one too unless that is kept.
func (vs *visits) forget(keep bool) {
	vs[0], vs[1] = map[uint64]visit{}, vs[0]
	if !keep {
		vs[1] = map[uint64]visit{}
	}
}

// note adds something that happened in line to what the others are told. Nothing that is shown is urgent, the rest is.
func (l *Lanes) note(what byte, p *entry, at int64) {
	f := l.farm
	if f == nil || f.alone {
		return
	}
	if len(f.steps) >= maxSteps {
		f.skipped = true
		return
	}
	f.steps = append(f.steps, step{what, p.number, at, p.client})
	l.alert(max(at, f.sentAt+tellAtOnce))
}

// noteVisit adds that a ticket was used here, and returns the visit as one that has changed.
func (l *Lanes) noteVisit(number uint64, v visit) visit {
	f := l.farm
	if f == nil || f.alone {
		return v
	}
	f.turns++
	v.turn = f.turns
	if len(f.visited) >= maxSteps {
		f.skipped = true
		return v
	}
	f.visited = append(f.visited, number)
	l.alert(max(l.at, f.sentAt+tellAtOnce))
	return v
}

// roomNews adds what happened in the waiting room to messages.
func (l *Lanes) roomNews(msgs [][]byte) [][]byte {
	f := l.farm
	out := outbox{msgs: msgs}
	for i := range f.steps {
		out.room(lineBytes, func(b []byte) []byte { return appendLine(b, l.at) })
		out.msg = f.steps[i].append(out.msg)
	}
	out.end()
	for _, number := range f.visited {
		if v, _, known := l.room.visits.find(number); known {
			out.room(visitBytes, func(b []byte) []byte { return appendVisits(b, l.at, f.Self) })
			out.msg = v.append(out.msg, number)
		}
	}
	out.end()
	f.steps, f.visited = f.steps[:0], f.visited[:0]
	return out.msgs
}

// An outbox fills messages one after the other.
type outbox struct {
	msgs [][]byte
	msg  []byte
}

// room makes room for some bytes, in another message if need be.
func (o *outbox) room(size int, begin func(b []byte) []byte) {
	if len(o.msg)+size > farm.MaxPlain {
		o.end()
	}
	if o.msg == nil {
		o.msg = begin(nil)
	}
}

func (o *outbox) end() {
	if o.msg != nil {
		o.msgs, o.msg = append(o.msgs, o.msg), nil
	}
}

// Snapshot gives all that this node knows: also of the line at other nodes and of their visitors, as it may be the only
// one left that does.
func (s *Shared) Snapshot(now time.Time, give func(msg []byte) bool) {
	for _, msg := range s.lanes.snapshot(now) {
		if !give(msg) {
			return
		}
	}
}

func (l *Lanes) snapshot(now time.Time) [][]byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tick(now)
	f, r := l.farm, &l.room
	if f == nil || f.alone {
		return nil
	}
	var out outbox
	for p := r.seen.First(); p != nil; p = p.age.Next() {
		out.room(2*lineBytes, func(b []byte) []byte { return appendLine(b, l.at) })
		s := step{lineSeen, p.number, p.seen, p.client}
		out.msg = s.append(out.msg)
		if s.what = lineCalled; p.called {
			out.msg = s.append(out.msg)
		}
	}
	out.end()
	visitors := func(at farm.Node, vs *visits) {
		for _, generation := range vs {
			for number, v := range generation {
				out.room(visitBytes, func(b []byte) []byte { return appendVisits(b, l.at, at) })
				out.msg = v.append(out.msg, number)
			}
		}
		out.end()
	}
	visitors(f.Self, &r.visits)
	for _, p := range f.nodes {
		visitors(p.Node, &p.visits)
	}
	last := f.told
	last.whole = true
	return append(out.msgs, last.append(nil))
}

// Hear takes what another node tells. now is the farm's time.
func (s *Shared) Hear(from farm.Node, msg []byte, now time.Time) error {
	if len(msg) < 2 || msg[0] != wireVersion {
		return errMessage
	}
	l := s.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.farm == nil || l.farm.alone || from == l.farm.Self {
		return nil
	}
	at, body := l.tick(now), msg[2:]
	switch msg[1] {
	case kindReport:
		return l.hearReport(from, body, at, now)
	case kindLine:
		err := l.hearLine(body, at)
		l.call(at)
		l.schedule()
		return err
	case kindAway:
		return l.hearAway(body, at)
	case kindVisits:
		err := l.hearVisits(body, at)
		l.call(at)
		l.schedule()
		return err
	}
	return nil
}

func (l *Lanes) hearReport(from farm.Node, body []byte, at int64, now time.Time) error {
	r, err := parseReport(body)
	if err != nil {
		return err
	}
	p := l.otherNode(from)
	p.whole = p.whole || r.whole
	if !p.heard || r.turn >= p.turn {
		p.heard, p.report = true, r
	}
	// Numbers are comparable: whoever comes later gets a higher one, whichever node they come to and whatever its clock
	// says. Somebody whose clock is hours ahead is not followed.
	if last := l.numbers.Load(); r.number > last && r.number-min(r.number, uint64(nanos(now))) <= maxAhead {
		l.numbers.CompareAndSwap(last, r.number) // else another number was given: the next report has it again
	}
	l.rearrange(at)
	return nil
}

func (l *Lanes) hearLine(body []byte, at int64) error {
	shift, body, err := parseSent(body, at)
	if err != nil || len(body)%lineBytes != 0 {
		return errMessage
	}
	r := &l.room
	for ; len(body) > 0; body = body[lineBytes:] {
		s, err := parseStep(body[:lineBytes])
		if err != nil {
			return err
		}
		seen := min(s.at+shift, at)
		switch p := r.entries[s.number]; {
		case s.what == lineCalled && p != nil && !p.called:
			r.order.remove(p)
			p.called = true
			r.called++
		case s.what == lineLeft && p != nil && p.seen <= seen+jitter:
			l.takeOut(p)
		case s.what != lineSeen || seen+l.patience(at) <= at:
		case p != nil && p.seen < seen:
			r.seen.Remove(&p.age)
			p.seen, p.here = seen, false
			r.seen.Add(&p.age, p)
		case p == nil:
			if _, _, known := r.total(s.number); known {
				continue
			}
			if len(r.entries) >= 2*l.o.Line {
				return errLineBound
			}
			l.standInLine(&entry{number: s.number, client: s.client, weight: rand.Uint64()}, seen)
		}
	}
	return nil
}

func (l *Lanes) hearVisits(body []byte, at int64) error {
	shift, body, err := parseSent(body, at)
	if err != nil {
		return err
	}
	where, body, err := parseVisits(body)
	if err != nil || where == l.farm.Self {
		return err
	}
	node, r := l.otherNode(where), &l.room
	r.forget(at, int64(Stay)+l.patience(at)) // also where nobody shows a ticket
	for ; len(body) > 0; body = body[visitBytes:] {
		number, v := parseVisit(body)
		v.until = min(v.until+shift, at+int64(Stay))
		if number == 0 || v.until+l.patience(at) <= at {
			continue
		}
		old, in, known := node.visits.find(number)
		if known && v.turn <= old.turn {
			continue
		}
		if !known && len(node.visits[0]) >= r.most {
			return errVisitBound
		}
		if _, _, let := r.total(number); !let {
			r.arrived.add(at, 1)
		}
		r.used.add(at, max(0, v.uses-old.uses))
		node.visits[in][number] = v
		if p := r.entries[number]; p != nil {
			l.takeOut(p)
		}
	}
	return nil
}
