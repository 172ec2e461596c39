package admission

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"weir"
)

// The rules that answers name.
const (
	RuleWaiting   = "waiting"    // as many are held in the lane as may be
	RulePerClient = "per_client" // one client has as much waiting as one may have
)

// never is when nothing falls due.
const never = math.MaxInt64

// setBack is how far the clock must fall behind to have been set back. Less than that are calls that overtook each other.
const setBack = int64(5 * time.Second)

// Lanes let events through to an upstream, as many at once as it can work on, those who paid first. Make them with New; they are safe for
// concurrent use. A place is taken by Enter, after all waits, so Lanes belong at the end of a chain.
type Lanes struct {
	numbers  atomic.Uint64 // the last number given
	reload   atomic.Int64  // as in the options, for those who only issue tickets
	alarm    atomic.Pointer[func(time.Time)]
	measured struct {
		at    atomic.Int64 // by the clock of whoever asked
		share atomic.Uint64
		delay atomic.Int64
	}

	mu      sync.Mutex
	o       Options
	at      int64 // the time that everything is brought up to; it never runs backwards
	skew    int64 // by how much that is ahead of a clock that was set back
	due     int64 // what Advance or Alarm said last
	retired bool

	halls  [lanes]hall
	inUse  [lanes]int
	ledger ledger
	seq    uint64

	window  window
	service pulse
	learner learner
	paying  float64 // how many with a stamp were under way or held, in the last second
	looked  int64   // when that was worked out

	clients clients
	room    room
	counts  counts
}

var (
	_ weir.Throttle = (*Lanes)(nil)
	_ weir.Leveler  = (*Lanes)(nil)
	_ weir.Clocked  = (*Lanes)(nil)
)

// New returns lanes with nobody in them. Numbers begin with the time, so that those given before a restart are smaller than those
// given after it.
func New(o Options, now time.Time) (*Lanes, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	at := nanos(now)
	l := &Lanes{at: at, due: never, clients: clients{}, room: newRoom(at)}
	l.window.now = at / bucket
	l.numbers.Store(uint64(at))
	l.measured.at.Store(-bucket)
	l.configure(o.WithDefaults())
	return l, nil
}

// Configure changes the options and keeps everybody in place. Less capacity lets those finish who are under way, more of it lets those
// in who wait. On an error nothing has changed.
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

func (l *Lanes) configure(o Options) {
	if l.o = o; o.Learn {
		l.learner.bound(o.Least, o.Most, o.Concurrent)
	} else {
		l.learner = learner{}
	}
	l.ledger.size(float64(o.Pool), l.capacity())
	l.room.most = max(leastRemembered, o.Line)
	l.reload.Store(int64(o.Reload))
}

// capacity is how many are let through at once; means, how many the upstream can work on, which is more while the learner looks.
func (l *Lanes) capacity() int {
	switch {
	case l.retired:
		return math.MaxInt
	case l.o.Learn:
		return l.learner.capacity()
	}
	return l.o.Concurrent
}

func (l *Lanes) means() int {
	if l.o.Learn {
		return l.learner.means()
	}
	return l.o.Concurrent
}

func (l *Lanes) free() int    { return l.capacity() - l.inUse[pool] - l.inUse[stamped] }
func (l *Lanes) waiting() int { return l.halls[pool].len() + l.halls[stamped].len() }

// tick brings everything up to a time, and returns it as a number that never runs backwards: a clock that is set back makes nobody
// wait longer.
func (l *Lanes) tick(now time.Time) int64 {
	at := nanos(now) + l.skew
	if at < l.at-setBack {
		l.skew += l.at - at
	}
	if at <= l.at {
		return l.at
	}
	p := &l.halls[pool]
	l.window.pass(l.at, at, [lanes]int{
		pool: p.len() + l.inUse[pool], stamped: l.halls[stamped].len() + l.inUse[stamped]})
	l.ledger.pass(time.Duration(at-l.at), l.halls[stamped].len() > 0, l.inUse[pool], p.len())
	l.at = at
	return at
}

// instant turns a number that tick returned into the time of whoever asks; never, and 0, into none.
func (l *Lanes) instant(at int64) time.Time {
	if at == never || at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at-l.skew)
}

// nanos is the time as it is counted here. There is nothing before the epoch.
func nanos(t time.Time) int64 { return max(0, t.UnixNano()) }

// A request is what Judge remembers of an event. It goes into the hold, so that nothing is allocated for it.
type request struct {
	client client
	worth  uint64 // stamped: the work that was paid. pool: the number of a place that was called, or 0
	lane   lane
}

// What is in Hold.V, besides the family of the client.
const (
	holdStamped = 1 << 8
	holdTaken   = 1 << 9 // it has a place
)

func (r request) hold(l *Lanes, at int64) weir.Hold {
	h := weir.Hold{Ref: l, At: at, N: 1, A: r.client.network, B: r.worth, V: uint32(r.client.family), Enter: true}
	if r.lane == stamped {
		h.V |= holdStamped
	}
	return h
}

func requestOf(h *weir.Hold) request {
	r := request{client: client{h.A, uint8(h.V)}, worth: h.B}
	if h.V&holdStamped != 0 {
		r.lane = stamped
	}
	return r
}

func asks(ev *weir.Event) request {
	r := request{client: clientOf(ev.Source)}
	if paid := ev.Purse.Paid(); paid.First() {
		r.lane, r.worth = stamped, paid.Work
	} else if ev.Place.Called {
		r.worth = ev.Place.Number
	}
	return r
}

// Judge finds out which lane the event belongs to. It takes nothing: that is for Enter.
func (l *Lanes) Judge(_ context.Context, ev *weir.Event, a *weir.Answer) error {
	a.Hold = asks(ev).hold(l, nanos(ev.Time))
	return nil
}

// Peek says what would happen to the event now.
func (l *Lanes) Peek(ev *weir.Event, a *weir.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decide(asks(ev), l.tick(ev.Time), a)
}

// Enter takes a place at the upstream, or one in the lane.
func (l *Lanes) Enter(h *weir.Hold, now time.Time, a *weir.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, r := l.tick(now), requestOf(h)
	h.Enter = false
	l.decide(r, at, a)
	switch a.Verdict {
	case weir.Admit:
		l.letIn(r.lane)
		h.At = at
		h.V |= holdTaken
	case weir.Wait:
		w := l.join(r, at)
		h.Ref, a.Turn = w, w.turn
	default:
		if a.Reason == weir.TooMany {
			l.counts.tooMany++
		} else {
			l.counts.laneFull[r.lane]++
		}
	}
}

// decide says what is to happen to a request. Nobody waits while a place is free, so whoever finds one is next.
func (l *Lanes) decide(r request, at int64, a *weir.Answer) {
	if l.free() > 0 {
		return
	}
	waiting := l.halls[r.lane].len()
	switch {
	case waiting >= l.o.Waiting:
		a.Verdict, a.Reason = weir.Refuse, weir.LineFull
	case l.clients.of(r.client) >= l.o.PerClient:
		a.Verdict, a.Reason = weir.Refuse, weir.TooMany
		a.Figure = weir.Figure{Rule: RulePerClient, Unit: "waiting", Limit: int64(l.o.PerClient)}
		return
	default:
		a.Verdict, a.Reason = weir.Wait, weir.Overload
	}
	a.Figure = weir.Figure{Rule: RuleWaiting, Unit: "waiting", Limit: int64(l.o.Waiting), Remaining: int64(max(0, l.o.Waiting-waiting))}
	a.Until = l.instant(l.expect(r.lane, at))
}

// expect is about when somebody would be let in who joins a lane now, with all who wait there ahead of him; 0 when nobody can tell.
func (l *Lanes) expect(in lane, at int64) int64 {
	if l.service.n == 0 {
		return 0
	}
	places := float64(l.means())
	if other := 1 - in; l.halls[other].len() > 0 {
		if in == pool {
			places *= l.ledger.share
		} else {
			places *= 1 - l.ledger.share
		}
	}
	if places == 0 { // strict: when all who paid are through
		return 0
	}
	wait := float64(l.halls[in].len()+1) * l.service.mean / places
	return at + int64(min(wait, float64(l.o.MaxWait)))
}

// join puts a request into its lane.
func (l *Lanes) join(r request, at int64) *waiter {
	l.seq++
	w := &waiter{lane: r.lane, seq: l.seq, since: at, client: r.client, turn: weir.NewTurn()}
	switch {
	case r.lane == stamped:
		w.key = rank(at, r.worth)
	case r.worth != 0:
		w.key = r.worth
	default:
		w.key = l.Number()
	}
	l.halls[w.lane].join(w)
	l.clients.add(w.client)
	l.alert(at + int64(l.o.MaxWait))
	return w
}

// leave takes somebody out of his lane.
func (l *Lanes) leave(w *waiter, to waiterState) {
	l.halls[w.lane].leave(w)
	l.clients.remove(w.client)
	w.state = to
}

// letIn takes a place.
func (l *Lanes) letIn(in lane) {
	l.inUse[in]++
	l.counts.letIn[in]++
	l.learner.used(l.inUse[pool] + l.inUse[stamped])
}

// let gives the places that are free to those who wait.
func (l *Lanes) let(at int64) {
	for l.free() > 0 {
		w := l.next()
		if w == nil {
			return
		}
		l.leave(w, letIn)
		w.at = at
		l.letIn(w.lane)
		if w.lane == stamped {
			l.window.current().let++
		}
		w.turn.Grant()
	}
}

// next is who gets the next place; nil when nobody waits.
func (l *Lanes) next() *waiter {
	from := stamped
	switch {
	case l.waiting() == 0:
		return nil
	case l.halls[stamped].len() == 0:
		from = pool
	case l.halls[pool].len() > 0 && l.ledger.poolNext(l.inUse[pool]):
		from = pool
	}
	return l.halls[from].next[0]
}

// Settle gives a place back, to the next in line, or takes a waiting event out of its lane.
func (l *Lanes) Settle(h weir.Hold, o weir.Outcome) {
	w, waited := h.Ref.(*waiter)
	if !waited && h.V&holdTaken == 0 {
		return // it never had a place
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(o.Time)
	switch {
	case !waited:
		l.giveBack(requestOf(&h).lane, h.At, at, o.Done)
	case w.state == letIn:
		w.state = gone
		l.giveBack(w.lane, w.at, at, o.Done)
	case w.state == held:
		l.leave(w, gone)
	}
	l.let(at)
	l.call(at)
}

// giveBack returns a place that was taken at a time.
func (l *Lanes) giveBack(of lane, since, at int64, done bool) {
	l.inUse[of]--
	if !done {
		return
	}
	l.service.add(at-since, at)
	if l.o.Learn {
		before := l.learner.capacity()
		l.learner.learn(since, at, l.inUse[pool]+l.inUse[stamped])
		l.learnt(before)
	}
}

// learnt takes in that the capacity may be another than before.
func (l *Lanes) learnt(before int) {
	if now := l.learner.capacity(); now != before {
		l.ledger.size(float64(l.o.Pool), now)
	}
	if l.learner.probe > 0 {
		l.alert(l.learner.until)
	}
}

// Advance refuses those who have waited too long, takes those out of line who did not show up, calls others in their place, and returns
// when something of the kind is due next; zero when nothing is.
func (l *Lanes) Advance(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	for i := range l.halls {
		for w := l.halls[i].oldest(); w != nil && w.since+int64(l.o.MaxWait) <= at; w = l.halls[i].oldest() {
			l.leave(w, gone)
			l.counts.expired[i]++
			w.turn.Refuse(weir.WaitTooLong)
		}
	}
	if r := &l.learner; r.probe > 0 && at >= r.until {
		// Too few are done in time, such as where many requests last for minutes. Nobody waits for that any longer.
		before := r.probe
		r.end(at, l.inUse[pool]+l.inUse[stamped])
		l.learnt(before)
		l.let(at)
	}
	for l.expire(at, 256) {
		// Others need not wait until the whole line has been gone through.
		l.mu.Unlock()
		l.mu.Lock()
		at = l.at
	}
	l.call(at)
	l.due = l.nextDue()
	return l.instant(l.due)
}

// nextDue is when something falls due by itself.
func (l *Lanes) nextDue() int64 {
	due := int64(never)
	for i := range l.halls {
		if w := l.halls[i].oldest(); w != nil {
			due = min(due, w.since+int64(l.o.MaxWait))
		}
	}
	if p := l.room.seen.first(); p != nil {
		due = min(due, p.seen+l.patience(l.at))
	}
	if l.learner.probe > 0 {
		due = min(due, l.learner.until)
	}
	return due
}

// schedule tells when something is due, if that is earlier than was said.
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

// Alarm registers the function that is told when something falls due earlier than Advance said.
func (l *Lanes) Alarm(f func(due time.Time)) { l.alarm.Store(&f) }

// Retire lets everybody go who waits, and everybody who comes: for lanes that are no longer in use.
func (l *Lanes) Retire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.tick(now)
	l.retired = true
	l.let(at)
	l.call(at)
}
