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
	RuleWaiting   = "waiting"    // as many are held in the lane as may be
	RulePerClient = "per_client" // one client has as much waiting as one may have
)

const (
	never    = math.MaxInt64 // when nothing falls due
	askedFor = time.Second   // for so long places are left to those who pay
)

// Lanes let events through to an upstream, as many at once as it can work on, those who paid first. Make them with New;
// goroutines may share them. Enter takes a place, after all waits, so Lanes belong at the end of a chain.
type Lanes struct {
	numbers  atomic.Uint64 // the last number given
	rank     atomic.Uint64 // of this node in its farm: it is in all numbers
	reload   atomic.Int64  // as in the options, for those who only issue tickets
	price    atomic.Uint64 // what a stamp costs now; 0 while none was asked for
	alarm    atomic.Pointer[func(time.Time)]
	shadow   func() bool // nil for never
	measured struct {
		at    atomic.Int64 // by the clock of whoever asked
		share atomic.Uint64
		delay atomic.Int64
	}

	mu      sync.Mutex
	o       Options
	began   time.Time // nothing but the time since then counts: a clock that is set changes nothing
	at      int64     // the time that everything is brought up to; it never runs backwards
	due     int64     // what Advance or Alarm said last
	retired bool

	turns    [rounds]turns
	lastPool round // which round of the pool had the last place
	inUse    [lanes]int
	places   places
	share    poolShare
	seq      uint64
	asked    int64 // when a stamp was last asked for; 0 for never

	window   window
	service  pulse
	learner  learner
	paying   float64 // how many with a stamp were under way or held, in the last second
	looked   int64   // when that was worked out
	demand   float64 // places that those in the lanes needed in the last second
	outside  float64 // and those would need who were turned away, less those who came in since
	ownDelay int64   // of those who pay here

	farm *company // nil where this node is alone

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

// Configure changes the options and keeps everybody in place. Less capacity lets those finish who are under way, more
// of it lets those in who wait. On an error nothing has changed.
func (l *Lanes) Configure(o Options, now time.Time) error {
	if err := o.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	l.bePatient(at)
	l.configure(o.WithDefaults())
	l.let(at)
	l.schedule()
	return nil
}

// Local reports whether the capacity is this node's own, in a farm too.
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

// capacity is how many are let through here at once; means, how many of those that come here the upstream can work on,
// more during a probe.
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

func (l *Lanes) means() int {
	if l.farm != nil {
		return l.farm.part
	}
	if l.o.Learn {
		return l.learner.means()
	}
	return l.o.Concurrent
}

// used is how many are at the upstream.
func (l *Lanes) used() int { return l.inUse[pool] + l.inUse[stamped] }

func (l *Lanes) free() int { return l.capacity() - l.used() }

// inLane is how many are held in a lane.
func (l *Lanes) inLane(in lane) int {
	if in == stamped {
		return l.turns[paid].total
	}
	return l.turns[held].total + l.turns[called].total
}

// waiting is how many are held.
func (l *Lanes) waiting() int { return l.inLane(pool) + l.inLane(stamped) }

// tick brings everything up to a time, and returns it as a number that never runs backwards. The time is that of the
// call, never one that an event carries.
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

// instant turns a number that tick returned into the time of whoever asks; never, and 0, into none.
func (l *Lanes) instant(at int64) time.Time {
	if at == never || at == 0 {
		return time.Time{}
	}
	return l.began.Add(time.Duration(at - nanos(l.began)))
}

// nanos is the time as it is counted here. There is nothing before the epoch.
func nanos(t time.Time) int64 { return max(0, t.UnixNano()) }

// A request is what Judge remembers of an event. It goes into the hold, so that nothing is allocated for it.
type request struct {
	client client
	round  round
	id     uint32 // of the client, where it paid
	work   uint64 // that was paid
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

func (l *Lanes) asks(ev *weir.Event) request {
	r := request{client: l.client(ev), round: held}
	switch stamp := ev.Purse.Paid(); {
	case stamp.Free: // nobody paid more
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
	a.Hold = l.asks(ev).hold(l, nanos(ev.Time), ev.Holder)
	return nil
}

// Peek says what would happen to the event now.
func (l *Lanes) Peek(ev *weir.Event, a *weir.Answer) {
	r := l.asks(ev)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decide(r, l.at, a)
}

// Follow names who says whether the lanes are in shadow. Call it before the lanes are used.
func (l *Lanes) Follow(shadow func() bool) { l.shadow = shadow }

// Enter takes a place at the upstream, or one in the lane. In shadow it says the same, and takes a place all the same:
// what goes on anyway counts as load, and nothing waits or is refused.
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
	l.stir()
}

// full reports whether as many are held in a lane as may be.
func (l *Lanes) full(in lane) bool { return l.inLane(in) >= l.o.Waiting }

// instead returns the waiter that leaves a full lane to make room for a request, or nil. Those who were called from the
// waiting room stay.
func (l *Lanes) instead(r request) *waiter {
	if r.round == called {
		r.round = held
	}
	return l.turns[r.round].instead(r.client, r.work)
}

// drop refuses a request that waits, to make room for another client.
func (l *Lanes) drop(w *waiter) {
	l.leave(w)
	l.laneCounts[w.round.lane()].Full++
	w.turn.Refuse(weir.LineFull)
}

// reserve is how many places the pool leaves to those who pay, while stamps are asked for. A single place is divided by
// time alone.
func (l *Lanes) reserve(at int64) int {
	if c := l.capacity(); c > 1 && l.asking(at) {
		return max(1, c/10)
	}
	return 0
}

// asking reports whether somebody was asked for a stamp within askedFor.
func (l *Lanes) asking(at int64) bool { return l.asked != 0 && at-l.asked < int64(askedFor) }

func (l *Lanes) poolMay(at int64) bool {
	return l.free() > 0 && l.inUse[pool] < l.capacity()-l.reserve(at)
}

// poolOpen reports whether a request of the pool that comes now finds a place.
func (l *Lanes) poolOpen(at int64) bool { return l.inLane(pool) == 0 && l.poolMay(at) }

// decide says what happens to a request. Nobody waits while there is a place, so a request that finds one is next.
func (l *Lanes) decide(r request, at int64, a *weir.Answer) {
	if r.round.lane() == stamped && l.free() > 0 || r.round.lane() == pool && l.poolOpen(at) {
		return
	}
	switch {
	case l.full(r.round.lane()) && l.instead(r) == nil:
		a.Verdict, a.Reason = weir.Refuse, weir.LineFull
	case l.clients.of(r.client) >= l.o.PerClient:
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

// expect is about how long a request waits that joins a lane now; 0 when that is not known.
func (l *Lanes) expect(r request, at int64) float64 {
	before, places := l.turns[r.round].before(r.client), l.paidPlaces()
	if r.round.lane() == pool {
		places = l.poolPlaces(at)
		before += min(before+1, l.turns[held+called-r.round].total) // the rounds take turns
	}
	if places == 0 { // strict: when all who paid are through
		return 0
	}
	return float64(before+1) * l.service.orGuess() / places
}

// poolPlaces is about how many places the pool has: its share while somebody who paid waits, else what they leave.
func (l *Lanes) poolPlaces(at int64) float64 {
	all := float64(l.means())
	if l.inLane(stamped) > 0 {
		return all * l.share.part
	}
	if at-l.looked >= bucket {
		l.measure(at)
	}
	return max(all*l.share.part, all-float64(l.reserve(at))-l.paying, 0.01)
}

func (l *Lanes) paidPlaces() float64 {
	all := float64(l.means())
	if l.inLane(pool) > 0 {
		all *= 1 - l.share.part
	}
	return all
}

// Asked notes what a stamp costs now. The delay in Load is that of clients whose stamps are worth that.
func (l *Lanes) Asked(work uint64) { l.price.Store(work) }

func (l *Lanes) join(r request, holder weir.Holder, at int64) *waiter {
	l.seq++
	w := &waiter{request: r, seq: l.seq, since: at, turn: weir.NewTurn(),
		cheap: r.round == paid && r.work <= l.price.Load()/2}
	w.place.holder = holder
	l.turns[r.round].join(w, at)
	l.clients.add(w.client)
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
	l.clients.remove(w.client)
}

// letIn takes a place. A client that was turned away before is no longer counted as demand from outside.
func (l *Lanes) letIn(p *place, who client, in round, holder weir.Holder, at int64) {
	if l.away.back(who, at) {
		l.window.current().back++
		l.noteAway(who, true)
	}
	l.begin(p, who, in, holder, at)
	l.laneCounts[p.round.lane()].LetIn++
	l.learner.used(l.usedByAll())
}

// let gives the places that are free to those who wait.
func (l *Lanes) let(at int64) {
	for l.free() > 0 {
		w := l.next(at)
		if w == nil {
			return
		}
		l.clients.remove(w.client)
		l.letIn(&w.place, w.client, w.round, w.place.holder, at)
		w.turn.Grant()
	}
}

// next takes the waiter that gets the next place out of its lane; nil when nobody may have it.
func (l *Lanes) next(at int64) *waiter {
	from, fromPool := paid, l.inLane(pool) > 0 && l.poolMay(at)
	switch {
	case l.inLane(stamped) > 0 && !(fromPool && l.share.poolNext(l.inUse[pool])):
	case fromPool:
		if from = held + called - l.lastPool; l.turns[from].total == 0 {
			from = l.lastPool
		}
		l.lastPool = from
	default:
		return nil
	}
	w, waited := l.turns[from].take(l.capacity(), at)
	if from == paid && w.work >= l.price.Load() {
		l.window.current().waited = max(l.window.current().waited, waited)
	}
	return w
}

// Settle gives a place back, to the next in line, or takes a waiting event out of its lane.
func (l *Lanes) Settle(h weir.Hold, o weir.Outcome) {
	w, waited := h.Ref.(*waiter)
	p, taken := h.Ref.(*place)
	if !waited && !taken {
		return // it never had a place
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(o.Time)
	switch {
	case taken:
		l.giveBack(p, at, o.Done)
	case w.place.line != nil:
		l.giveBack(&w.place, at, o.Done)
	case w.line != nil:
		l.leave(w)
	}
	l.let(at)
	l.call(at)
	l.stir()
}

func (l *Lanes) giveBack(p *place, at int64, done bool) {
	since, lost := p.since, p.lost
	l.end(p)
	if !done || lost { // how long somebody took who did nothing says nothing about the upstream
		return
	}
	l.service.add(at-since, at)
	if l.o.Learn && l.teaches() {
		before := l.learner.capacity()
		l.learner.learn(since, at, l.usedByAll())
		l.learnt(before, at)
	}
}

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

// Advance refuses those who have waited too long, takes those out of line who did not show up, calls others in their
// place, and returns when something of the kind is due next; zero when nothing is.
func (l *Lanes) Advance(now time.Time) time.Time {
	due, f, msgs, skipped := l.advance(now)
	if f != nil {
		f.tell(msgs, skipped)
	}
	return due
}

// advance is Advance, and returns what the other nodes are to be told.
func (l *Lanes) advance(now time.Time) (due time.Time, f *company, msgs [][]byte, skipped bool) {
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
	if !l.asking(at) { // what was left to those who pay
		l.let(at)
	}
	if r := &l.learner; r.probe > 0 && at >= r.until {
		// Too few requests end in time, such as where many last for minutes. The probe is given up.
		before := r.probe
		r.end(at, l.usedByAll())
		l.learnt(before, at)
		l.let(at)
	}
	for l.expire(at, 256) {
		// Others need not wait until the whole line has been gone through.
		l.mu.Unlock()
		l.mu.Lock()
		at = l.at
	}
	l.call(at)
	msgs, skipped = l.news(at)
	l.due = l.nextDue()
	return l.instant(l.due), l.farm, msgs, skipped
}

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
	return min(due, l.tellDue())
}

// schedule sets the alarm, if something is due earlier than was said.
func (l *Lanes) schedule() { l.alert(l.nextDue()) }

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

// Retire lets in all who wait and all who come. It is for lanes that are no longer in use.
func (l *Lanes) Retire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	l.retired = true
	l.let(at)
	l.call(at)
}
