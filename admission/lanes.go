package admission

import (
	"context"
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/internal/tables"
)

// The rules that answers name.
const (
	RuleWaiting   = "waiting"    // the lane is full
	RulePerClient = "per_client" // too many requests of one client wait
)

const (
	never    = math.MaxInt64 // the time of what is not due at all
	askedFor = time.Second   // how long after a request for a stamp the pool leaves places to those who pay
)

// Lanes let events through to an upstream, as many at once as it can work on, those who paid first. Make them with New.
// Goroutines may share them. Judge takes nothing: Enter takes the place, when all other throttles of the chain have
// admitted the event. So Lanes belong at the end of a chain.
type Lanes struct {
	numbers  atomic.Uint64 // the last number that a ticket got
	rank     atomic.Uint64 // of this node in its farm; part of the numbers that it gives
	reload   atomic.Int64  // Options.Reload, read without the lock
	price    atomic.Uint64 // what a stamp costs now; 0 before the first was asked for
	alarm    atomic.Pointer[func(time.Time)]
	shadow   func() bool // nil for never
	measured struct {    // what Load returned last, and returns for a moment
		at    atomic.Int64 // the time that the caller passed in
		share atomic.Uint64
		delay atomic.Int64
	}

	mu      sync.Mutex
	o       Options
	began   time.Time // all times are measured from here, so that a clock that is set changes nothing
	at      int64     // the time up to which everything is counted; it never runs backwards
	due     int64     // when Advance is to be called, as Advance or Alarm said last
	retired bool      // everybody is let in

	turns    [rounds]turns
	lastPool round // which round of the pool got its last place: held or called
	inUse    [lanes]int
	places   places
	share    poolShare
	seq      uint64
	asked    int64 // when a stamp was last asked for; 0 for never

	window   window
	service  movingMean // how long requests take
	learner  learner
	looked   int64   // when the following four were measured, see measure
	paying   float64 // requests with a stamp, under way or held, on average of the last second
	demand   float64 // places that the requests in the lanes needed in the last second
	outside  float64 // places that clients would need that were turned away and have not come in since
	ownDelay int64   // the longest wait of those who paid, at this node

	farm *farmView // nil where this node is alone

	clients    clients
	away       away
	accepted   accepted
	room       room
	counts     Stats // what has happened since the start
	laneCounts [lanes]LaneStats
}

var (
	_ weir.Throttle           = (*Lanes)(nil)
	_ weir.ConcurrencyLimiter = (*Lanes)(nil)
	_ weir.Clocked            = (*Lanes)(nil)
)

// New returns empty lanes. Numbers begin with the time, so that those from before a restart are smaller.
func New(o Options, now time.Time) (*Lanes, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	at := nanos(now)
	seed := maphash.MakeSeed()
	l := &Lanes{began: now, at: at, due: never, clients: clients{},
		away:     away{seed: seed, table: tables.NewSets[absence](awaySets, awayWays)},
		accepted: accepted{seed, tables.NewSets[acceptance](acceptedSets, acceptedWays)},
		room:     newRoom(at)}
	for i := range l.turns {
		l.turns[i] = newTurns()
	}
	l.window.now = at / bucket
	l.numbers.Store(uint64(at))
	l.measured.at.Store(-bucket)
	l.configure(o.WithDefaults())
	return l, nil
}

// Configure changes the options. Everybody keeps their place. If the capacity shrinks, requests under way go on to
// their end. If it grows, some of those who wait are let in. On an error nothing has changed.
func (l *Lanes) Configure(o Options, now time.Time) error {
	if err := o.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	l.extendPatience(at)
	l.configure(o.WithDefaults())
	l.let(at)
	l.schedule()
	return nil
}

// Local reports whether this node has the capacity for itself, also as one of a farm.
func (l *Lanes) Local() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.o.local()
}

func (l *Lanes) configure(o Options) {
	if l.o = o; o.Learn {
		l.learner.bound(o.Least, o.Most, o.Concurrent)
	} else {
		l.learner = learner{}
	}
	l.share.size(float64(o.Pool), l.capacity())
	l.room.most = max(leastRemembered, o.Line)
	l.reload.Store(int64(o.Reload))
	if l.farm != nil {
		l.redivide(l.at)
		l.farm.dirty = true
	}
}

// capacity is how many requests this node lets through at once.
func (l *Lanes) capacity() int {
	switch {
	case l.retired:
		return math.MaxInt
	case l.farm != nil:
		return l.farm.part
	case l.o.Learn:
		return l.learner.capacity()
	}
	return l.o.Concurrent
}

// usualCapacity is capacity, but not what the learner tries for a moment while it probes.
func (l *Lanes) usualCapacity() int {
	if l.farm == nil && l.o.Learn {
		return l.learner.usual()
	}
	return l.capacity()
}

// used is how many requests of this node are at the upstream.
func (l *Lanes) used() int { return l.inUse[pool] + l.inUse[stamped] }

func (l *Lanes) free() int { return l.capacity() - l.used() }

// inLane is how many requests wait in a lane.
func (l *Lanes) inLane(in lane) int {
	if in == stamped {
		return l.turns[paid].total
	}
	return l.turns[held].total + l.turns[called].total
}

// waiting is how many requests wait in both lanes.
func (l *Lanes) waiting() int { return l.inLane(pool) + l.inLane(stamped) }

// tick counts everything up to the time of a call, and returns that time as a number that never runs backwards.
func (l *Lanes) tick(now time.Time) int64 {
	at := nanos(l.began) + int64(now.Sub(l.began))
	if at <= l.at {
		return l.at
	}
	waiting, paying := l.inLane(pool), l.inLane(stamped)
	l.window.pass(l.at, at, [lanes]int{pool: waiting + l.inUse[pool], stamped: paying + l.inUse[stamped]})
	l.share.pass(time.Duration(at-l.at), paying > 0, l.inUse[pool], waiting)
	l.at = at
	return at
}

// instant turns a number that tick returned back into a time. never and 0 become the zero time.
func (l *Lanes) instant(at int64) time.Time {
	if at == never || at == 0 {
		return time.Time{}
	}
	return l.began.Add(time.Duration(at - nanos(l.began)))
}

// nanos is a time in nanoseconds since the epoch. Times before the epoch are taken for the epoch.
func nanos(t time.Time) int64 { return max(0, t.UnixNano()) }

// A request is what Enter has to know of an event. Judge packs it into the hold, so that nothing is allocated for it.
type request struct {
	client client
	round  round  // where it waits if it has to
	id     uint32 // a hash of the client's id, if it paid and has an id
	work   uint64 // what its stamp has cost
}

// who is the person that a request is from: the id if it paid, whatever its address is, otherwise the client.
func (r request) who() client {
	if r.id != 0 {
		return client{uint64(r.id), byID}
	}
	return r.client
}

func (r request) hold(l *Lanes, at int64, holder weir.Holder) weir.Hold {
	h := weir.Hold{Ref: l, At: at, N: 1, A: r.client.id, B: r.work, C: uint64(r.id),
		V: uint32(r.client.family)<<8 | uint32(r.round), Enter: true}
	if holder != nil {
		h.Ref = holder
	}
	return h
}

func requestOf(h *weir.Hold) request {
	return request{client{h.A, uint8(h.V >> 8)}, round(h.V & 0xff), uint32(h.C), h.B}
}

func (l *Lanes) newRequest(ev *weir.Event) request {
	r := request{client: l.client(ev), round: held}
	switch stamp := ev.Purse.Paid(); {
	case stamp.Free: // exempt clients count as if nobody could pay more
		r.round, r.work = paid, math.MaxUint64
	case stamp.Work > 0:
		r.round, r.work = paid, stamp.Work
	case ev.Place.Called:
		r.round = called
	}
	if r.round == paid && ev.Client != "" {
		r.id = uint32(maphash.String(l.accepted.seed, ev.Client))
	}
	return r
}

// Judge finds out which lane the event belongs to. It takes nothing: that is for Enter.
func (l *Lanes) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	a.Hold = l.newRequest(ev).hold(l, nanos(ev.Time), ev.Holder)
	return nil
}

// Peek says what would happen to the event now.
func (l *Lanes) Peek(ev *weir.Event, a *weir.Answer) {
	r := l.newRequest(ev)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decide(r, l.at, a)
}

// Follow sets the function that says whether the lanes are in shadow. Call it before the lanes are used.
func (l *Lanes) Follow(shadow func() bool) { l.shadow = shadow }

// Enter takes a place at the upstream, puts the event in its lane, or refuses it. In shadow the answer is the same, but
// every event gets a place: it goes on in any case, and the upstream has to work on it.
func (l *Lanes) Enter(h *weir.Hold, now time.Time, a *weir.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, r := l.tick(now), requestOf(h)
	holder, _ := h.Ref.(weir.Holder)
	h.Enter, h.Ref = false, l
	l.decide(r, at, a)
	switch {
	case a.Verdict == weir.Admit || l.shadow != nil && l.shadow():
		p := l.places.get()
		l.letIn(p, r.client, r.round, holder, at)
		h.Ref = p
	case a.Verdict == weir.Wait:
		if l.full(r.round.lane()) {
			l.drop(l.instead(r))
		}
		w := l.join(r, holder, at)
		h.Ref, a.Turn = w, w.turn
	default:
		if a.Reason == weir.TooMany {
			l.counts.TooMany++
		} else {
			l.laneCounts[r.round.lane()].Full++
		}
	}
	l.noteChange()
}

// full reports whether nobody else may wait in a lane.
func (l *Lanes) full(in lane) bool { return l.inLane(in) >= l.o.Waiting }

// instead returns the waiter that must leave a full lane so that a request may wait there; nil if the request is the
// one to be refused. Those who were called from the waiting room stay.
func (l *Lanes) instead(r request) *waiter {
	if r.round == called {
		r.round = held
	}
	return l.turns[r.round].instead(r)
}

// drop refuses a waiter because its lane is full and another request goes before it.
func (l *Lanes) drop(w *waiter) {
	l.leave(w)
	l.laneCounts[w.round.lane()].Full++
	w.turn.Refuse(weir.LineFull)
}

// reserve is how many places the pool leaves free for those who pay, while stamps are asked for. A capacity of one has
// no reserve: there the lanes take turns.
func (l *Lanes) reserve(at int64) int {
	if c := l.capacity(); c > 1 && l.asking(at) {
		return max(1, c/10)
	}
	return 0
}

// asking reports whether somebody was asked for a stamp within askedFor.
func (l *Lanes) asking(at int64) bool { return l.asked != 0 && at-l.asked < int64(askedFor) }

// poolMay reports whether a place is free for the pool.
func (l *Lanes) poolMay(at int64) bool {
	return l.free() > 0 && l.inUse[pool] < l.capacity()-l.reserve(at)
}

// poolOpen reports whether a request of the pool that comes now gets a place at once.
func (l *Lanes) poolOpen(at int64) bool { return l.inLane(pool) == 0 && l.poolMay(at) }

// decide says what happens to a request. Nobody waits while a place is free, so whoever finds one takes it.
func (l *Lanes) decide(r request, at int64, a *weir.Answer) {
	if r.round.lane() == stamped && l.free() > 0 || r.round.lane() == pool && l.poolOpen(at) {
		return
	}
	switch {
	case l.full(r.round.lane()) && l.instead(r) == nil:
		a.Verdict, a.Reason = weir.Refuse, weir.LineFull
	case l.clients[r.who()] >= l.o.PerClient:
		a.Verdict, a.Reason = weir.Refuse, weir.TooMany
		a.Figure = weir.Figure{Rule: RulePerClient, Unit: "waiting", Limit: int64(l.o.PerClient)}
		return
	default:
		a.Verdict, a.Reason = weir.Wait, weir.Overload
	}
	a.Figure = weir.Figure{Rule: RuleWaiting, Unit: "waiting", Limit: int64(l.o.Waiting),
		Remaining: int64(max(0, l.o.Waiting-l.inLane(r.round.lane())))}
	if l.service.n > 0 {
		if wait := min(l.expect(r, at), float64(l.o.MaxWait)); wait > 0 {
			a.Until = l.instant(at + int64(wait))
		}
	}
}

// expect estimates how long a request would wait that joins a lane now; 0 if that is not known.
func (l *Lanes) expect(r request, at int64) float64 {
	before, places := l.turns[r.round].before(r.client), l.paidPlaces()
	if r.round.lane() == pool {
		places = l.poolPlaces(at)
		before += min(before+1, l.turns[r.round.other()].total) // the two rounds alternate
	}
	if places == 0 { // the pool has no share, so its requests wait until nobody waits who paid
		return 0
	}
	return float64(before+1) * l.service.orGuess() / places
}

// poolPlaces estimates how many places the pool has: its share while somebody who paid waits, otherwise the rest.
func (l *Lanes) poolPlaces(at int64) float64 {
	all := float64(l.usualCapacity())
	if l.inLane(stamped) > 0 {
		return all * l.share.part
	}
	if at-l.looked >= bucket {
		l.measure(at)
	}
	return max(all*l.share.part, all-float64(l.reserve(at))-l.paying, 0.01)
}

// paidPlaces is how many places those who paid have: all, or what the share of the pool leaves while somebody waits in
// the pool.
func (l *Lanes) paidPlaces() float64 {
	all := float64(l.usualCapacity())
	if l.inLane(pool) > 0 {
		all *= 1 - l.share.part
	}
	return all
}

// Asked notes what a stamp costs now. The delay that Load returns is that of clients who paid at least so much.
func (l *Lanes) Asked(work uint64) { l.price.Store(work) }

// join makes a request wait in its lane.
func (l *Lanes) join(r request, holder weir.Holder, at int64) *waiter {
	l.seq++
	w := &waiter{request: r, seq: l.seq, since: at, turn: weir.NewTurn(),
		cheap: r.round == paid && r.work <= l.price.Load()/2}
	w.place.holder = holder
	l.turns[r.round].join(w, at)
	l.clients.add(w.who(), 1)
	l.alert(at + int64(l.o.MaxWait))
	l.alert(l.evictDue())
	if l.reserve(at) > 0 {
		l.alert(l.asked + int64(askedFor))
	}
	return w
}

// leave takes a waiter out of its lane without giving it a place.
func (l *Lanes) leave(w *waiter) {
	l.turns[w.round].leave(w)
	l.clients.add(w.who(), -1)
}

// letIn gives a place to a client. If the client was turned away before, it no longer counts as demand from outside.
func (l *Lanes) letIn(p *place, who client, in round, holder weir.Holder, at int64) {
	if l.away.back(who, at) {
		l.window.current().back++
		l.noteAway(who, true)
	}
	l.begin(p, who, in, holder, at)
	l.laneCounts[p.round.lane()].LetIn++
	l.learner.used(l.usedByAll())
}

// let gives all free places to those who wait.
func (l *Lanes) let(at int64) {
	for l.free() > 0 {
		w := l.next(at)
		if w == nil {
			return
		}
		l.clients.add(w.who(), -1)
		l.letIn(&w.place, w.client, w.round, w.place.holder, at)
		w.turn.Grant()
	}
}

// next takes the waiter that gets the next free place out of its lane. It returns nil if nobody may have the place.
func (l *Lanes) next(at int64) *waiter {
	from, stampedWait := paid, l.inLane(stamped) > 0
	if l.inLane(pool) > 0 && l.poolMay(at) && (!stampedWait || l.share.poolNext(l.inUse[pool])) {
		if from = l.lastPool.other(); l.turns[from].total == 0 {
			from = l.lastPool
		}
		l.lastPool = from
	} else if !stampedWait {
		return nil
	}
	w, waited := l.turns[from].take(l.capacity(), at)
	if from == paid && w.work >= l.price.Load() { // Load reports this wait
		l.window.current().waited = max(l.window.current().waited, waited)
	}
	return w
}

// Settle gives a place back, which the next in line gets, or takes an event that still waits out of its lane.
func (l *Lanes) Settle(h weir.Hold, o weir.Outcome) {
	w, waited := h.Ref.(*waiter)
	p, taken := h.Ref.(*place)
	if !waited && !taken {
		return // it neither had a place nor waited
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(o.Time)
	switch {
	case taken:
		l.giveBack(p, at, o.Done)
	case w.place.line != nil: // it waited, and then got its place
		l.giveBack(&w.place, at, o.Done)
	case w.line != nil: // it still waits
		l.leave(w)
	}
	l.let(at)
	l.call(at)
	l.noteChange()
}

// giveBack takes a place back. done says that the request reached the upstream.
func (l *Lanes) giveBack(p *place, at int64, done bool) {
	since, lost := p.since, p.lost
	l.end(p)
	if !done || lost { // such a request says nothing about how long the upstream takes
		return
	}
	l.service.add(at-since, at)
	if l.o.Learn && l.teaches() {
		before := l.learner.capacity()
		l.learner.learn(since, at, l.usedByAll())
		l.learnt(before, at)
	}
}

// learnt takes in that the learner has moved, from the capacity before.
func (l *Lanes) learnt(before int, at int64) {
	if now := l.learner.capacity(); now != before && l.farm != nil {
		l.redivide(at)
	} else if now != before {
		l.share.size(float64(l.o.Pool), now)
	}
	if l.learner.probe > 0 {
		l.alert(l.learner.until)
	}
}

// Advance does what is due: it refuses those who have waited too long, and takes places from clients that are too slow.
// It takes those out of the line of the waiting room who did not show up, and calls others instead. It reports to the
// other nodes. It returns when something is due next, or the zero time.
func (l *Lanes) Advance(now time.Time) time.Time {
	due, f, msgs, skipped := l.advance(now)
	if f != nil {
		f.send(msgs, skipped)
	}
	return due
}

// advance is Advance without the sending: it returns the messages for the other nodes.
func (l *Lanes) advance(now time.Time) (due time.Time, f *farmView, msgs [][]byte, skipped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	for i := range l.turns {
		oldest := l.turns[i].age.First
		for w := oldest(); w != nil && w.since+int64(l.o.MaxWait) <= at; w = oldest() {
			l.leave(w)
			l.laneCounts[w.round.lane()].Expired++
			w.turn.Refuse(weir.WaitTooLong)
		}
	}
	l.evict(at)
	if !l.asking(at) { // the reserve of those who pay is over
		l.let(at)
	}
	if l.learner.probe > 0 && at >= l.learner.until {
		// Too few requests have ended in time, perhaps because they last for minutes. The probe is given up.
		before := l.learner.probe
		l.learner.end(at, l.usedByAll())
		l.learnt(before, at)
		l.let(at)
	}
	for l.expire(at, 256) {
		// A long line is done in pieces, so that requests need not wait for the lock until its end.
		l.mu.Unlock()
		l.mu.Lock()
		at = l.at
	}
	l.call(at)
	msgs, skipped = l.messages(at)
	l.due = l.nextDue()
	return l.instant(l.due), l.farm, msgs, skipped
}

// nextDue is when Advance has something to do next.
func (l *Lanes) nextDue() int64 {
	due := int64(never)
	for i := range l.turns {
		if w := l.turns[i].age.First(); w != nil {
			due = min(due, w.since+int64(l.o.MaxWait))
		}
	}
	due = min(due, l.evictDue())
	if l.inLane(pool) > 0 && l.reserve(l.at) > 0 {
		due = min(due, l.asked+int64(askedFor))
	}
	if p := l.room.seen.First(); p != nil {
		due = min(due, p.seen+l.patience(l.at))
	}
	if l.learner.probe > 0 {
		due = min(due, l.learner.until)
	}
	return min(due, l.messagesDue())
}

// schedule calls the alarm if something is due earlier than was said.
func (l *Lanes) schedule() { l.alert(l.nextDue()) }

// alert calls the alarm if due is earlier than was said.
func (l *Lanes) alert(due int64) {
	if due >= l.due {
		return
	}
	l.due = due
	if alarm := l.alarm.Load(); alarm != nil {
		(*alarm)(l.instant(due))
	}
}

// Alarm registers the function that is called when something falls due earlier than Advance said.
func (l *Lanes) Alarm(f func(due time.Time)) { l.alarm.Store(&f) }

// Retire lets in everybody who waits and everybody who comes later. It is for lanes that a reload has replaced.
func (l *Lanes) Retire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	l.retired = true
	l.let(at)
	l.call(at)
}
