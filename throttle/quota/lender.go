package quota

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"weir/farm"
	"weir/internal/queue"
	"weir/store"
)

// How a node deals with an engine.
const (
	// idleAfter is how long what was taken ahead may lie idle before it goes back.
	idleAfter = int64(50 * time.Millisecond)
	// renewAfter is when the lease of places is renewed, long before farm.MaxLife is over.
	renewAfter = int64(600 * time.Millisecond)
	// tellLater is when an engine is told of what was granted without it, at the latest, and again where that failed.
	tellLater = int64(200 * time.Millisecond)
	// lendFor is how long what is on loan may be spent, at most. By then the clocks of node and engine have not drifted
	// apart. What is being spent is renewed renewBefore its end, so that nobody waits for it.
	lendFor     = time.Second
	renewBefore = int64(200 * time.Millisecond)
	// askAgain is when an engine that had nothing left is asked again, at first and at last. Others may return
	// something.
	askAgain, askAgainAtLast = int64(5 * time.Millisecond), int64(time.Second)
	// maxAsks is how many accounts ask at the same time. More are decided about as if the engine were lost.
	maxAsks = 1000
	// maxNewAsks is how many of those may be accounts that no upstream has accepted: whoever invents accounts cannot
	// make the engine slow for others.
	maxNewAsks = 128
	// maxCalled is how many accounts others are told of in a message, and wait to be.
	maxCalled = 1000
	// maxDiscards is how many invented accounts wait to be dropped from the engine.
	maxDiscards = 1000
	// probeEvery is how often an engine that is lost is asked.
	probeEvery = int64(100 * time.Millisecond)
	// setBack is by how much a clock may be set back without notice.
	setBack = 10 * time.Millisecond
)

// A Lending is where a quota borrows what it grants by policies with farm: exact, and who else does.
type Lending struct {
	Pot   farm.Pot               // what is shared; a call ends soon, also where the engine stands still
	Name  string                 // of the throttle: with the account, the key
	Run   string                 // of this node: its name, a plus, and what is another one after a restart
	Farm  func() []string        // the nodes that can be heard and lend, with this one
	Nodes func() int             // among how many nodes a limit is divided
	Call  func(msg []byte) error // hands a message to all other nodes; does not block
	Now   func() time.Time       // the time that events carry
	Since func() time.Duration   // the time since some start, which goes on when a clock is set
	Disk  store.Ceilings         // of this node; nil where a restart may forget
}

// A Lender ties a quota to an engine. Quota.Lend makes it. Goroutines may share it.
type Lender struct {
	Lending
	quota     *Quota
	identity  string // of what is counted by it, after that of a policy
	lost      atomic.Bool
	closed    atomic.Bool
	seq       atomic.Uint64
	entries   atomic.Uint64 // that were forgotten: a new one must not be taken for the same
	asking    atomic.Int64  // accounts whose call is under way
	newcomers atomic.Int64  // the same, of accounts on probation
	alarm     atomic.Pointer[func(time.Time)]
	ahead     atomic.Int64 // by how much the events' time is more than the time since the start
	who       atomic.Pointer[standing]
	probed    atomic.Int64             // when an engine that is lost was last asked
	asked     atomic.Pointer[borrower] // who was last not answered
	engine    atomic.Pointer[string]   // that answered last
	answered  atomic.Int64             // when
	polled    atomic.Int64             // when an engine that nobody asked was last asked
	waiting   atomic.Pointer[waiting]
	began     int64       // when the lending began
	earlier   atomic.Bool // an earlier run lent
	partial   atomic.Bool // not all of its ceilings are known

	mu     sync.Mutex // taken under a shard's lock
	due    queue.Ranked[borrower]
	called map[string]bool // accounts of which the others are to be told, and whether they are to tell the engine
	// invented accounts that are forgotten here, and that the engine is to forget as well
	discards   []string
	discarding bool
	uncovered  []store.Ceiling // of accounts that are forgotten here
	forgetting bool
	survey
	waitedFor

	stats struct {
		calls, failed, granted, denied, waited, returned, dropped, crowded, malformed, kept, unkept atomic.Uint64
	}
}

// LenderStats say how a node deals with the engine.
type LenderStats struct {
	Calls    uint64 `json:"calls"`    // to the engine
	Failed   uint64 `json:"failed"`   // of those, without an answer
	Granted  uint64 `json:"granted"`  // of those, with all that was needed
	Denied   uint64 `json:"denied"`   // of those, with nothing
	Waited   uint64 `json:"waited"`   // events that waited for an answer
	Returned uint64 `json:"returned"` // how often something was given back
	Held     int    `json:"held"`     // accounts of which this node has something on loan
	Crowded  uint64 `json:"crowded"`  // calls that were not made, as too many were under way
	Dropped  uint64 `json:"dropped"`  // accounts that others were not told of, as there were too many
	Wrong    uint64 `json:"wrong"`    // messages of others that cannot be read
	// Kept are invented accounts that the engine keeps until their periods end: there were too many.
	Kept   uint64 `json:"kept"`
	Unkept uint64 `json:"unkept"` // how often the disk did not keep what may be granted
	// Waiting are nodes that have to tell the engine what they know. Until then it grants nothing of what they may have
	// been granted.
	Waiting []string `json:"waiting,omitempty"`
}

var lenders atomic.Uint64

// Lend has the quota borrow what it grants by policies with farm: exact from an engine. The quota has granted nothing
// by them yet, or forgets it.
//
// Somebody has to call Advance when Alarm says so, Hear with the messages of others, and Lost when the engine cannot be
// asked.
func (q *Quota) Lend(o Lending) *Lender {
	l := &Lender{Lending: o, quota: q, called: map[string]bool{}, began: nanos(o.Now())}
	l.shard, l.told = shards+1, map[string]map[string]time.Time{}
	l.heard, l.kept = map[string]time.Duration{}, map[string]bool{}
	l.identity = " exact " + strconv.FormatUint(lenders.Add(1), 10)
	l.due = queue.NewRanked(func(a, b *borrower) bool { return a.due < b.due },
		func(p *borrower) *int { return &p.position })
	l.drift()
	q.mu.Lock()
	defer q.mu.Unlock()
	rs := q.rules.Load()
	_ = q.configure(rs.Options, rs.lending(l, q.table.count.Load() == 0), q.latest()) // they are valid
	return l
}

// Close returns what is on loan, and ends the lending: policies with farm: exact are counted on this node alone.
func (l *Lender) Close() {
	if l.closed.Swap(true) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	var all []*borrower
	l.visit(func(rs *rules, a *account) {
		p := a.borrower(rs)
		if p == nil || p.lender != l {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if p.calling || p.position > 0 {
			all = append(all, p)
		}
	})
	var returning sync.WaitGroup
	turns := make(chan struct{}, 64)
	for _, p := range all {
		turns <- struct{}{}
		returning.Go(func() {
			l.giveBack(ctx, p)
			<-turns
		})
	}
	returning.Wait()
	ctx, cancel = context.WithTimeout(context.Background(), lowerTime)
	defer cancel()
	l.lower(ctx)
	q := l.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if rs := q.rules.Load(); rs.lender == l {
		_ = q.configure(rs.Options, rs.lending(nil, false), q.latest())
	}
}

const (
	// closeTime and lowerTime are how long it takes, at most, to return what is on loan, and to have on the disk what
	// was spent.
	closeTime = time.Second
	lowerTime = 5 * time.Second
	// returnAgain is when a call by which something goes back, and which found no answer, is made again.
	returnAgain = 10 * time.Millisecond
)

// discard has the engine forget an account that all upstreams turned away. Otherwise whoever invents accounts could
// fill the engine's memory: a key stays there until its periods end. The shard is locked.
func (l *Lender) discard(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.discards) >= maxDiscards || l.closed.Load() {
		l.stats.kept.Add(1)
		return
	}
	l.discards = append(l.discards, l.key(a))
	if len(l.discards) == 1 && !l.discarding {
		l.wake(a.shard.latest)
	}
}

// dropAll tells the engine which accounts to forget, unless somebody does already.
func (l *Lender) dropAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.discarding || len(l.discards) == 0 {
		return
	}
	l.discarding = true
	go func() {
		for key := l.nextDiscard(); key != ""; key = l.nextDiscard() {
			l.stats.calls.Add(1)
			drop := farm.Ask{Key: key, Run: l.Run, Seq: l.seq.Add(1), Drop: true}
			if _, err := l.Pot.Take(context.Background(), drop); err != nil {
				l.stats.failed.Add(1)
				l.stats.kept.Add(1)
			}
		}
	}()
}

// nextDiscard returns the next account to be dropped. Where there is none, nobody drops any more.
func (l *Lender) nextDiscard() (key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.discards) == 0 {
		l.discarding, l.discards = false, nil
		return ""
	}
	key, l.discards = l.discards[0], l.discards[1:]
	return key
}

// giveBack returns what an account has on loan, after what it is being asked for. A call that finds no answer is made
// again, unless the engine is lost.
func (l *Lender) giveBack(ctx context.Context, p *borrower) {
	sh := p.account.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for p.back = true; p.back && ctx.Err() == nil; {
		if p.calling {
			if p.over == nil {
				p.over = make(chan struct{})
			}
			over := p.over
			sh.mu.Unlock()
			select {
			case <-over:
			case <-ctx.Done():
			}
			sh.mu.Lock()
			p.back = true // what that call brought
			continue
		}
		p.calling = true
		p.account.pins++
		sh.mu.Unlock()
		l.talk(ctx, p, nil)
		sh.mu.Lock()
		if !p.back || l.lost.Load() {
			return
		}
		sh.mu.Unlock()
		pause, cancel := context.WithTimeout(ctx, returnAgain)
		<-pause.Done()
		cancel()
		sh.mu.Lock()
	}
}

// Alarm registers the function that is called when Advance is due: at once, as the engine is to be asked who it is.
// Later it is called under locks.
func (l *Lender) Alarm(f func(due time.Time)) {
	l.alarm.Store(&f)
	f(l.Now())
}

// Lost takes in that the engine cannot be asked, or can be again.
func (l *Lender) Lost(lost bool, now time.Time) {
	if l.lost.Store(lost); lost {
		l.wake(nanos(now) + probeEvery)
	} else {
		l.wake(nanos(now))
	}
}

// standing is who is in the farm, and among how many nodes limits are divided.
type standing struct {
	farm  []string
	nodes int64
	at    time.Duration
}

// standing asks the farm no more often than need be. No shard is locked: the farm has locks of its own.
func (l *Lender) standing() *standing {
	now := l.Since()
	if s := l.who.Load(); s != nil && now-s.at < 20*time.Millisecond {
		return s
	}
	s := &standing{l.excuse(l.everybody(now)), int64(max(1, l.Nodes())), now}
	l.who.Store(s)
	return s
}

// waitsFor are the nodes that the engine waits for, as it said lately.
func (l *Lender) waitsFor() []string {
	if w := l.waiting.Load(); w != nil && nanos(l.Now())-w.at < waitingNews {
		return w.nodes
	}
	return nil
}

// waitingNews is how long what an engine waits for is news.
const waitingNews = int64(5 * time.Second)

// run is what an entry is called in the engine. One that was forgotten knows no more what it has spent: a new one for
// the same account says nothing about that.
func (l *Lender) run() string {
	if n := l.entries.Load(); n > 0 {
		return l.Run + "+" + strconv.FormatUint(n, 36)
	}
	return l.Run
}

// key is what an account is called in the engine, and among nodes.
func (a *account) key() string {
	if a.name != "" {
		return "a" + a.name
	}
	return "s" + a.source().String()
}

func (l *Lender) key(a *account) string {
	if n := len(l.Name) + len(a.name) + 2; a.name != "" && n <= farm.MaxKey {
		return l.Name + "/a" + a.name // as below, in one step
	}
	return l.named(a.key())
}

func (l *Lender) named(key string) string {
	key = l.Name + "/" + key
	if len(key) > farm.MaxKey {
		return fmt.Sprintf("h%x", sha256.Sum256([]byte(key)))
	}
	return key
}

// probe asks an engine that is lost, now and then, whether it is back. Nobody waits for the answer. The shard is
// locked.
func (p *borrower) probe(now int64) {
	l := p.lender
	if last := l.probed.Load(); l.lost.Load() && now-last >= probeEvery && l.probed.CompareAndSwap(last, now) {
		p.call(now)
	}
}

// see has a borrower looked after.
func (p *borrower) see(now, after int64) {
	l := p.lender
	due := now + after
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed.Load():
		return
	case p.position == 0:
		p.due = due
		l.due.Add(p)
	case due < p.due:
		p.due = due
		l.due.Fix(p)
	default:
		return
	}
	if l.due.First() == p {
		l.wake(due)
	}
}

// unsee has a borrower looked after no more.
func (p *borrower) unsee() {
	p.lender.mu.Lock()
	defer p.lender.mu.Unlock()
	if p.position > 0 {
		p.lender.due.Remove(p)
	}
}

func (l *Lender) wake(due int64) {
	if alarm := l.alarm.Load(); alarm != nil {
		(*alarm)(time.Unix(0, due))
	}
}

// Advance returns what lies idle, renews leases, and tells the others which accounts have nothing left.
func (l *Lender) Advance(now time.Time) time.Time {
	at := nanos(now)
	if l.drift() {
		l.void()
	}
	var due []*borrower
	l.mu.Lock()
	for p := l.due.First(); p != nil && p.due <= at; p = l.due.First() {
		l.due.Remove(p)
		due = append(due, p)
	}
	called := l.called
	if len(called) > 0 {
		l.called = map[string]bool{}
	}
	l.mu.Unlock()
	for _, p := range due {
		l.look(p, at)
	}
	l.dropAll()
	l.forgetUncovered()
	next := min(l.goOn(at), l.poll(at))
	if p := l.asked.Load(); p != nil && l.lost.Load() {
		p.account.shard.mu.Lock()
		p.probe(at)
		p.account.shard.mu.Unlock()
		next = min(next, at+probeEvery)
	}
	if len(called) > 0 {
		_ = l.Call(writeCalled(called)) // where it is lost, what others have comes back when it lies idle
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.due.First(); p != nil {
		next = min(next, p.due)
	}
	return instant(next)
}

// drift reports whether the events' clock was set back since it was last called.
func (l *Lender) drift() bool {
	ahead := l.Now().UnixNano() - int64(l.Since())
	before := l.ahead.Swap(ahead)
	return ahead < before-int64(setBack)
}

// void makes all that is on loan unspendable: a clock that was set back does not say when it is over.
func (l *Lender) void() {
	l.visit(func(rs *rules, a *account) {
		for _, r := range rs.list {
			if r.lender == l && a.counts(r) {
				a.state(r).end = 0
			}
		}
	})
}

func (l *Lender) visit(f func(rs *rules, a *account)) {
	for i := range l.quota.table.shards {
		sh := &l.quota.table.shards[i]
		sh.mu.Lock()
		rs := l.quota.rules.Load()
		for _, a := range sh.ring {
			f(rs, a)
		}
		sh.mu.Unlock()
	}
}

// look looks after a borrower.
func (l *Lender) look(p *borrower, now int64) {
	a := p.account
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	rs := l.quota.rules.Load()
	if rs.lender != l || a.index < 0 || a.borrower(rs) != p {
		return
	}
	if p.calling {
		p.see(now, idleAfter)
		return
	}
	var again int64 = never
	call := p.forget || p.telling || len(p.riders) > 0 || p.back && !l.lost.Load()
	if p.back && !call {
		again = now + tellLater
	}
	for _, r := range rs.list {
		if r.lender != l || !a.counts(r) {
			continue
		}
		st := a.state(r)
		ln := st.loan()
		if ln == nil {
			continue
		}
		switch {
		case r.way == level && st.used > 0:
			call = call || now >= ln.took+renewAfter
			again = min(again, max(now, ln.took+renewAfter))
		case r.way != level && st.used > st.others && !p.closed: // granted without it
			call = call || !l.lost.Load()
			again = min(again, now+tellLater)
		}
		switch {
		case st.room(now) == 0:
		case ln.seen == st.used: // it lies idle
			call, p.back, ln.block = true, true, 0
			l.stats.returned.Add(1)
		case ln.block > 0 && st.end-now <= renewBefore && ln.took < st.end-2*renewBefore:
			call, st.start = true, never
		default:
			again = min(again, now+idleAfter)
		}
		ln.seen = st.used
	}
	switch {
	case call:
		p.call(now)
	case again != never:
		p.see(now, max(again-now, int64(time.Millisecond)))
	}
}

// Hear takes in that other nodes have nothing left for some accounts, or that the engine has to be told: what this node
// has of them goes back, and the engine hears what it knows.
func (l *Lender) Hear(msg []byte, now time.Time) error {
	if len(msg) > 0 && msg[0] == toldVersion {
		return l.hearTold(msg[1:])
	}
	err := readCalled(msg, func(key string, tell bool) {
		rs := l.quota.rules.Load()
		var a *account
		if name, ok := cutKind(key, 'a'); ok {
			a = l.quota.table.lookup(rs, name, netip.Addr{})
		} else if text, ok := cutKind(key, 's'); ok {
			if source, err := netip.ParseAddr(text); err == nil {
				a = l.quota.table.lookup(rs, "", source)
			}
		}
		if a != nil {
			defer a.shard.mu.Unlock()
		}
		switch p := a.borrower(rs); {
		case rs.lender != l:
		case p != nil && !p.calling:
			p.back = true
			p.call(nanos(now))
		case p == nil && tell:
			l.tellNothing(key, now)
		}
	})
	if err != nil {
		l.stats.malformed.Add(1)
	}
	return err
}

// tellNothing tells an engine that is to be told that this node knows nothing of an account. Until all nodes have told,
// it grants nothing.
func (l *Lender) tellNothing(key string, now time.Time) {
	if l.asking.Add(1) > maxAsks {
		l.asking.Add(-1)
		return
	}
	rs := l.quota.rules.Load()
	c := &question{ask: farm.Ask{Key: l.named(key), Run: l.Run + "+0", Nodes: l.standing().farm}}
	for _, r := range rs.list {
		if r.lender == l && r.way != level {
			w := r.want(&r.base, nanos(now))
			w.Unknown = r.unknown(&r.base, nanos(now))
			c.ask.Wants, c.rules = append(c.ask.Wants, w), append(c.rules, r)
		}
	}
	go func() {
		defer l.asking.Add(-1)
		_, _ = l.ask(context.Background(), c) // who waits for it asks again
	}()
}

func cutKind(key string, kind byte) (string, bool) {
	if key == "" || key[0] != kind {
		return "", false
	}
	return key[1:], true
}

// tellOthers has the others told that this account needs what they have of it. A shard is locked.
func (l *Lender) tellOthers(a *account, tell bool, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.called) >= maxCalled {
		l.stats.dropped.Add(1)
		return
	}
	l.called[a.key()] = tell || l.called[a.key()]
	l.wake(now)
}

// The message of a lender: a version, and for each account whether the engine is to be told, the length of its key, and
// the key.
const calledVersion = 1

// ErrCalled is returned for a message of another node that cannot be read.
var ErrCalled = errors.New("the message names no accounts")

func writeCalled(keys map[string]bool) []byte {
	msg := []byte{calledVersion}
	for key, tell := range keys {
		msg = append(msg, 0)
		if tell {
			msg[len(msg)-1] = 1
		}
		msg = binary.AppendUvarint(msg, uint64(len(key)))
		msg = append(msg, key...)
	}
	return msg
}

func readCalled(msg []byte, each func(key string, tell bool)) error {
	if len(msg) == 0 || msg[0] != calledVersion {
		return fmt.Errorf("%w: it is of another version", ErrCalled)
	}
	msg = msg[1:]
	for count := 0; len(msg) > 0; count++ {
		tell := msg[0] != 0
		msg = msg[1:]
		n, size := binary.Uvarint(msg)
		if size <= 0 || n > uint64(len(msg)-size) || n > math.MaxUint16 {
			return fmt.Errorf("%w: it ends too soon", ErrCalled)
		}
		if count >= maxCalled {
			return fmt.Errorf("%w: more than %d", ErrCalled, maxCalled)
		}
		each(string(msg[size:size+int(n)]), tell)
		msg = msg[size+int(n):]
	}
	return nil
}

// Stats says how this node deals with the engine.
func (l *Lender) Stats() LenderStats {
	l.mu.Lock()
	held := l.due.Len()
	l.mu.Unlock()
	return LenderStats{Calls: l.stats.calls.Load(), Failed: l.stats.failed.Load(), Granted: l.stats.granted.Load(),
		Denied: l.stats.denied.Load(), Waited: l.stats.waited.Load(), Returned: l.stats.returned.Load(), Held: held,
		Crowded: l.stats.crowded.Load(), Dropped: l.stats.dropped.Load(), Wrong: l.stats.malformed.Load(),
		Kept: l.stats.kept.Load(), Unkept: l.stats.unkept.Load(), Waiting: l.waitsFor()}
}
