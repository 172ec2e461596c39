package admission

import (
	"cmp"
	"math"
	"slices"
	"time"

	"weir/farm"
)

const (
	// A node tells the others how it stands so often while something happens, and sooner where somebody waits for it.
	tellCalmly, tellBriskly = int64(100 * time.Millisecond), int64(5 * time.Millisecond)
	// What happens in the waiting room is told at once, but not more often than this.
	tellAtOnce = int64(time.Millisecond)
	// A node that starts and hears nobody calls nobody until all who had a place have looked again, and so long more.
	meetFor = int64(time.Second)
	// maxAhead is how far another node's numbers may be ahead of this one's time to be followed.
	maxAhead = uint64(time.Hour)
	// maxNodes bounds the runs of nodes whose visitors are remembered. maxSteps bounds what waits to be told.
	maxNodes = 2 * farm.MaxNodes
	maxSteps = 8192
	// maxAway bounds how many clients are told of at once that were turned away or came in. Those above it count once
	// at each node.
	maxAway = 1024
)

// A Joining is what lanes need to be those of a farm. Both functions are called without locks held.
type Joining struct {
	Self farm.Node
	Send func(msg []byte) error // to all other nodes; what is lost is made up for by a snapshot
	Skip func()                 // something was not sent: the others are to ask for a snapshot
}

// A farmView is what lanes know about the other nodes of a farm.
type farmView struct {
	Joining
	of     int // nodes among which the capacity is divided, those included that are not heard
	joined int64
	ready  bool // the line is known, and people may be called
	alone  bool // this node has left

	nodes map[farm.Node]*otherNode
	up    []*otherNode // who are up and have reported, by node
	known []farm.Node

	told    report // what the others know of this node
	toldAt  int64  // when that was last looked at
	sentAt  int64
	dirty   bool // it may have changed
	steps   []step
	visited []uint64 // tickets that were used here
	turns   uint64   // counts changes of visits
	away    []awayNote
	skipped bool // more happened than could be told

	// What follows from all reports.
	teacher *otherNode // whose learnt capacity counts; nil: this node's
	claims  []claim
	part    int // places that this node may have
	used    int // by the others, and so on
	held    int
	ahead   int
	asked   float64
	outside float64
	delayed float64 // delay of those who paid, times what was asked
}

// An otherNode is a run of another node.
type otherNode struct {
	farm.Node
	report
	isUp   bool
	heard  bool // it has reported
	whole  bool // it has told all it knows
	visits visits
}

// Shared are lanes as the other nodes of a farm see them. It is a farm.Shared. Goroutines may share it.
type Shared struct{ lanes *Lanes }

var _ farm.Shared = (*Shared)(nil)

// Join makes the lanes those of a farm: the capacity is that of all nodes together, and so are the waiting room and the
// load. Call Nodes next, and whenever nodes come or go.
func (l *Lanes) Join(j Joining, now time.Time) *Shared {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	l.farm = &farmView{Joining: j, of: 1, joined: at, nodes: map[farm.Node]*otherNode{}, toldAt: at - tellCalmly,
		dirty: true, away: make([]awayNote, 0, maxAway)}
	l.room.others = nil
	l.farm.told = l.report(at)
	l.redivide(at)
	l.schedule()
	return &Shared{l}
}

// Nodes says which other nodes are up, among how many nodes limits are divided, and which of them this one is.
func (s *Shared) Nodes(up []farm.Node, of, rank int, now time.Time) {
	l := s.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.farm
	if f == nil || f.alone {
		return
	}
	at := l.tick(now)
	l.rank.Store(uint64(rank) % numberStep)
	f.of = max(of, 1)
	f.known = slices.Clone(up[:min(len(up), farm.MaxNodes)])
	for n, p := range f.nodes {
		if p.isUp = slices.Contains(f.known, n); !p.isUp {
			p.heard, p.whole = false, false // it reports again when it is back
		}
		if !p.isUp && len(p.visits[0])+len(p.visits[1]) == 0 {
			delete(f.nodes, n)
		}
	}
	f.dirty = true
	l.rearrange(at)
}

// Leave ends that the lanes are shared. This node goes on with its part of the capacity, as one that hears nobody; or
// with all of it, where the options say that the upstream is its own.
func (s *Shared) Leave(now time.Time) {
	l := s.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.farm
	if f == nil {
		return
	}
	if l.o.local() {
		at := l.tick(now)
		l.farm, l.room.others = nil, nil
		l.share.size(float64(l.o.Pool), l.capacity())
		l.let(at)
		l.call(at)
		return
	}
	f.alone, f.known, f.steps, f.visited, f.away = true, nil, nil, nil, nil
	for _, p := range f.nodes {
		p.isUp = false
	}
	l.rearrange(l.tick(now))
}

// rearrange does what follows from news of other nodes.
func (l *Lanes) rearrange(at int64) {
	l.meet()
	l.redivide(at)
	l.let(at)
	l.call(at)
	l.schedule()
}

// meet works out who takes part, and whether all of them have told what they know.
func (l *Lanes) meet() {
	f := l.farm
	f.up = f.up[:0]
	l.room.others = l.room.others[:0]
	whole := 0
	for _, p := range f.nodes {
		l.room.others = append(l.room.others, &p.visits)
		if p.isUp && p.heard {
			f.up = append(f.up, p)
		}
		if p.isUp && p.whole {
			whole++
		}
	}
	slices.SortFunc(f.up, func(a, b *otherNode) int { return compare(a.Node, b.Node) })
	f.ready = f.ready || len(f.known) > 0 && whole >= len(f.known)
}

// otherNode returns what is known of a run of a node. A run that has ended makes room for it if need be: there are more
// places than nodes that can be up.
func (l *Lanes) otherNode(n farm.Node) *otherNode {
	f := l.farm
	if p := f.nodes[n]; p != nil {
		return p
	}
	if len(f.nodes) >= maxNodes {
		var oldest *otherNode
		for _, p := range f.nodes {
			if !p.isUp && (oldest == nil || p.Boot < oldest.Boot) {
				oldest = p
			}
		}
		delete(f.nodes, oldest.Node)
	}
	p := &otherNode{Node: n, isUp: slices.Contains(f.known, n), visits: newVisits()}
	f.nodes[n] = p
	l.meet()
	return p
}

// redivide works out the part of this node, from what all nodes have told: also from what this one has, so that all of
// them come to the same result.
func (l *Lanes) redivide(at int64) {
	f := l.farm
	f.used, f.held, f.ahead, f.asked, f.outside, f.delayed = 0, 0, 0, 0, 0, 0
	wants := f.told.wants
	for _, p := range f.up {
		wants += p.wants
		f.used += p.used
		f.held += p.held
		f.ahead += p.ahead
		f.asked += p.asked
		f.outside += p.outside
		f.delayed += p.asked * float64(p.delay)
	}
	f.teacher = l.findTeacher(wants / float64(len(f.up)+1))
	if t := f.teacher; t != nil && l.o.Learn {
		l.learner.adopt(t.limit, t.base, at)
	}
	own, _ := slices.BinarySearchFunc(f.up, f.Self, func(p *otherNode, n farm.Node) int { return compare(p.Node, n) })
	f.claims = f.claims[:0]
	for _, p := range f.up {
		f.claims = append(f.claims, claim{wants: p.wants, used: p.report.used})
	}
	f.claims = slices.Insert(f.claims, own, claim{wants: f.told.wants, used: f.told.used})
	divide(l.heardShare(l.whole()), f.claims)
	if part := grant(own, f.claims); part != f.part {
		f.part = part
		l.share.size(float64(l.o.Pool), l.capacity())
	}
}

// heardShare is what nodes that hear each other may use of a capacity: those that are not heard may use the rest.
func (l *Lanes) heardShare(of int) int {
	f := l.farm
	n := len(f.up) + 1
	return max(1, of*n/max(f.of, n))
}

func compare(a, b farm.Node) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Boot, b.Boot))
}

// findTeacher returns the node whose learnt capacity counts for all, or nil for this one. It is the first by name of
// those that know something and have at least half as much to do as the mean: a node with nothing to do learns nothing.
func (l *Lanes) findTeacher(mean float64) *otherNode {
	f := l.farm
	for _, p := range f.up {
		if !p.learnt || p.wants < mean/2 {
			continue
		}
		if f.told.learnt && f.told.wants >= mean/2 && compare(f.Self, p.Node) < 0 {
			return nil
		}
		return p
	}
	return nil
}

// teaches reports whether this node finds out what the upstream can do.
func (l *Lanes) teaches() bool { return l.farm == nil || l.farm.teacher == nil }

// whole is how many all nodes together let through at once.
func (l *Lanes) whole() int {
	switch {
	case !l.o.Learn:
		return l.o.Concurrent
	case !l.teaches():
		return max(1, l.farm.teacher.capacity)
	}
	return l.learner.capacity()
}

// wholeUsual is the usual capacity of all nodes that this one hears, itself included.
func (l *Lanes) wholeUsual() int {
	n := l.o.Concurrent
	if l.o.Learn {
		n = l.learner.usual()
	}
	if l.farm != nil {
		n = l.heardShare(n)
	}
	return n
}

// usedByAll is how many are at the upstream, from all nodes.
func (l *Lanes) usedByAll() int {
	if l.farm == nil {
		return l.used()
	}
	return l.used() + l.farm.used
}

// report is how this node stands.
func (l *Lanes) report(at int64) report {
	if at-l.looked >= bucket || l.looked == 0 {
		l.measure(at)
	}
	f := l.farm
	r := report{turn: f.told.turn + 1, asked: sixteenths(l.demand), outside: sixteenths(l.outside), used: l.used(),
		held: l.turns[called].total, ahead: l.ahead(at), waiting: l.waiting(),
		capacity: min(l.whole(), MaxConcurrent), delay: l.ownDelay, number: l.numbers.Load(),
		learnt: l.o.Learn && l.learner.base > 0, limit: l.learner.limit, base: l.learner.base}
	r.wants = max(r.asked+max(0, r.outside), float64(r.used+r.waiting))
	return r
}

// sixteenths rounds a figure, so that what hardly changes is not told.
func sixteenths(x float64) float64 { return math.Round(max(-maxPlaces, min(x, maxPlaces))*16) / 16 }

// noteChange notes that something happened that the other nodes may have to know.
func (l *Lanes) noteChange() {
	if f := l.farm; f != nil && !f.alone {
		f.dirty = true
		l.alert(f.toldAt + l.tellAfter())
	}
}

// tellAfter is how long after the last report the next one is due: soon where this node has more to do than the others
// know, uses more while somebody waits, or gives back places that are not its own any more.
func (l *Lanes) tellAfter() int64 {
	f := l.farm
	used, waiting := l.used(), l.inLane(pool)+l.inLane(stamped)
	if float64(used+waiting) > f.told.wants*1.125+1 || used > f.told.used && waiting > 0 ||
		used < f.told.used && f.told.used > f.part {
		return tellBriskly
	}
	return tellCalmly
}

// messagesDue is when the next message to the other nodes is due.
func (l *Lanes) messagesDue() int64 {
	f := l.farm
	if f == nil || f.alone {
		return never
	}
	due := int64(never)
	if f.dirty {
		due = f.toldAt + l.tellAfter()
	}
	if len(f.steps) > 0 || len(f.visited) > 0 || f.skipped {
		due = min(due, f.sentAt+tellAtOnce)
	}
	if !f.ready {
		due = min(due, l.readyBy())
	}
	return due
}

// readyBy is when people are called although not all nodes have told what they know. Places that are free go to whoever
// is there all the while.
func (l *Lanes) readyBy() int64 { return l.farm.joined + int64(l.o.Reload) + meetFor }

// messages returns the messages to the other nodes that are due, and whether something had to be left out.
func (l *Lanes) messages(at int64) (msgs [][]byte, skipped bool) {
	f := l.farm
	if f == nil || f.alone {
		return nil, false
	}
	if !f.ready && at >= l.readyBy() {
		f.ready = true
		l.call(at)
	}
	if f.dirty && at >= f.toldAt+l.tellAfter() {
		next := l.report(at)
		f.toldAt = at
		if was := f.told; next.differs(&was) || was.turn <= 1 {
			f.told = next
			l.redivide(at)
			l.let(at)
			l.call(at)
			msgs = append(msgs, f.told.append(nil))
		} else {
			f.dirty = false
		}
	}
	if at < f.sentAt+tellAtOnce {
		return msgs, false
	}
	msgs, skipped = l.roomNews(l.awayNews(msgs)), f.skipped
	f.skipped, f.sentAt = false, at
	return msgs, skipped
}

// differs reports whether a report says something that the last one did not.
func (r report) differs(last *report) bool {
	r.turn, r.whole, r.number = last.turn, last.whole, last.number
	if r.delay/int64(time.Millisecond) == last.delay/int64(time.Millisecond) {
		r.delay = last.delay
	}
	return r != *last
}

// send sends messages to the other nodes. It is called without the lock.
func (f *farmView) send(msgs [][]byte, skipped bool) {
	for _, msg := range msgs {
		_ = f.Send(msg) // what the bus does not take is made up for by a snapshot
	}
	if skipped {
		f.Skip()
	}
}
