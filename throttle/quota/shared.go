package quota

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// How nodes tell each other.
const (
	// TellEvery is how long charges are gathered, at most, before the other nodes are told.
	TellEvery = 10 * time.Millisecond
	// tellApart is how far apart messages are at least. A limit that is nearly used up is told of at once.
	tellApart = time.Millisecond
	// toldSingly is up to which limit each charge is told at once.
	toldSingly = 20
	// foresight is how many messages of each of the others before a limit is used up they are told of every charge at
	// once. What was told at the end of one interval is known to all in the next one, and has to be by the end.
	foresight = 3
	// maxColleagues is how many other nodes are known, at most. Nobody has more; those that are gone make room.
	maxColleagues = 128
)

// ErrColleagues is returned when a node is heard and too many are known already.
var ErrColleagues = errors.New("too many nodes have been heard: restart this one")

// A Shared ties a quota to the same one of other nodes: each tells the others what it has charged, and counts what they
// tell. Quota.Share makes it. Goroutines may share it.
type Shared struct {
	quota *Quota
	self  *colleague
	boot  uint64
	send  func(msg []byte) error
	alarm atomic.Pointer[func(time.Time)]

	want            atomic.Int64               // since when this node wants to be told everything
	wants           atomic.Bool                // the others do not know that
	dirty           [shards / 64]atomic.Uint64 // shards with something to be told
	pending, urgent atomic.Bool
	last            atomic.Int64 // when the others were last told

	building sync.Mutex // one message at a time, so that what is told later is newer
	seq      uint64
	at       int64 // of the last message

	hearing    sync.Mutex
	colleagues map[string]*colleague
	anew       []*colleague // that have begun another run: they are to be told of earlier ones
	owes       atomic.Bool  // there are some

	stats struct{ told, sent, heard, unknown, malformed, long atomic.Uint64 }
}

// SharedStats say what has been told and heard.
type SharedStats struct {
	Told    uint64 `json:"told"`     // counters that were told as they changed
	Sent    uint64 `json:"sent"`     // messages
	Heard   uint64 `json:"heard"`    // counters of others
	Unknown uint64 `json:"unknown"`  // of those, counters of policies that this node has not, and without an entry
	TooLong uint64 `json:"too_long"` // accounts whose names are too long to be told
	Wrong   uint64 `json:"wrong"`    // figures of others that cannot be
}

// Share makes the quota one of several, each on a node of its own. Those policies are counted together that have farm:
// broadcast. The node is called name; boot tells its runs apart, and a later one has a greater one. send hands a
// message to all other nodes, and must not block.
//
// Somebody has to call Advance when Alarm says so, Hear with the messages of others, and Lose and Find for nodes that
// go and come.
func (q *Quota) Share(name string, boot uint64, send func(msg []byte) error) *Shared {
	s := &Shared{quota: q, self: &colleague{name: name}, boot: boot, send: send,
		colleagues: map[string]*colleague{}}
	q.mu.Lock()
	defer q.mu.Unlock()
	rs := q.rules.Load()
	_ = q.configure(rs.Options, rs.sharing(s), q.latest()) // the options are valid
	rs = q.rules.Load()
	for i := range q.table.shards {
		sh := &q.table.shards[i]
		sh.mu.Lock()
		for _, a := range sh.ring {
			a.inherit(rs)
		}
		sh.mu.Unlock()
	}
	return s
}

// inherit makes what an account has used what earlier runs of this node used: others may know of that.
func (a *account) inherit(rs *rules) {
	for _, r := range rs.list {
		if r.shared == nil || !a.counts(r) {
			continue
		}
		switch st := a.state(r); {
		case r.way == inStretches && st.ring != nil:
			st.meet().earlier = st.ring.copy()
		case r.way == inPeriods && !r.bytes && st.used > 0:
			st.meet().own = cell{slice: st.start, before: st.used}
		}
	}
}

// Close ends sharing. What others told stays counted until it is over.
func (s *Shared) Close() {
	q := s.quota
	q.mu.Lock()
	defer q.mu.Unlock()
	if rs := q.rules.Load(); rs.shared == s {
		_ = q.configure(rs.Options, rs.sharing(nil), q.latest())
	}
}

// Alarm registers the function that is called when Advance is due. It is called under locks.
func (s *Shared) Alarm(f func(due time.Time)) { s.alarm.Store(&f) }

// tell notes that the others have to be told of an account's use of a rule.
func (a *account) tell(r *rule, st *state, t *terms, now int64) {
	if r.shared == nil || a.index < 0 {
		return
	}
	s := a.shard
	s.untold.set(int(a.index))
	if !s.dirty {
		s.dirty = true
		r.shared.dirty[s.number/64].Or(1 << (s.number % 64))
	}
	r.shared.wake(s.latest-s.behind, now == never || a.has(contended) && st.racing() || r.near(st, t, now))
}

// near reports whether so little is left that others may use it up before they are told.
func (r *rule) near(st *state, t *terms, now int64) bool {
	if r.way == steady {
		return st.start-now >= t.near
	}
	return t.limit-st.used-st.others <= t.near
}

// wake has Advance called, at once or soon: also where the clock was set back since the last time.
func (s *Shared) wake(now int64, urgent bool) {
	flag, after := &s.pending, TellEvery
	if urgent {
		flag, after = &s.urgent, tellApart
	}
	if flag.Load() || flag.Swap(true) {
		return
	}
	if alarm := s.alarm.Load(); alarm != nil {
		(*alarm)(time.Unix(0, min(s.last.Load(), now)+int64(after)))
	}
}

// Advance tells the others what has changed.
func (s *Shared) Advance(now time.Time) time.Time {
	s.building.Lock()
	defer s.building.Unlock()
	s.pending.Store(false)
	s.urgent.Store(false)
	s.last.Store(nanos(now))
	m := s.write(now, told)
	m.wants = s.wants.Swap(false)
	rs := s.quota.rules.Load()
	for i := range s.dirty {
		for marked := s.dirty[i].Swap(0); marked != 0; marked &= marked - 1 {
			s.collect(rs, &s.quota.table.shards[64*i+bits.TrailingZeros64(marked)], m, nanos(now))
		}
	}
	if s.owes.Swap(false) {
		s.tellEarlier(m, now)
	}
	m.end(true)
	m.flush()
	return time.Time{}
}

// tellEarlier writes what is known of the earlier runs of nodes that have begun another one. They may have no store.
func (s *Shared) tellEarlier(m *writer, now time.Time) {
	s.hearing.Lock()
	anew := s.anew
	s.anew = nil
	s.hearing.Unlock()
	s.visit(now, func(rs *rules, a *account, at int64) {
		s.each(rs, a, at, func(r *rule, _ *terms, st *state) bool {
			for _, c := range anew {
				if e := st.peer(c); e != nil {
					m.relay(a, r, st, e)
				}
			}
			return false
		})
	})
}

// ask has the other nodes tell everything again: there are rules that this node did not count by until now.
func (s *Shared) ask(now int64) {
	s.want.Store(max(now, s.want.Load()+1))
	s.wants.Store(true)
	s.wake(now, true)
}

// retell tells the others everything that counts, as one of them has begun to count something else.
func (s *Shared) retell(now time.Time) {
	s.visit(now, func(rs *rules, a *account, at int64) {
		if a.idle(rs, at) {
			return
		}
		for _, r := range rs.list {
			if st := a.state(r); r.way == inStretches && st.ring != nil {
				st.ring.untold = 1<<(buckets+1) - 1
			}
			a.tell(r, a.state(r), a.terms(rs, r), never)
		}
	})
}

// collect writes what is to be told of a shard's accounts. It holds the lock for a few accounts at a time.
func (s *Shared) collect(rs *rules, sh *shard, m *writer, now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.dirty = false
	at := sh.clock(now)
	for word := sh.untold.next(0); word >= 0; word = sh.untold.next(word + 1) {
		for ; word < len(sh.untold) && sh.untold[word] != 0; sh.untold[word] &= sh.untold[word] - 1 {
			m.account(rs, sh.ring[64*word+bits.TrailingZeros64(sh.untold[word])], at)
		}
		sh.mu.Unlock()
		m.flush()
		sh.mu.Lock()
	}
}

// Snapshot gives messages that together say all that is counted, until give returns false.
func (s *Shared) Snapshot(now time.Time, give func(msg []byte) bool) {
	s.building.Lock()
	defer s.building.Unlock()
	m := s.write(now, snapshot)
	m.send = func(msg []byte) error {
		if !give(msg) {
			return errFull
		}
		return nil
	}
	rs := s.quota.rules.Load()
	for i := range s.quota.table.shards {
		if m.full {
			return
		}
		sh := &s.quota.table.shards[i]
		sh.mu.Lock()
		at := sh.clock(nanos(now))
		for i := 0; i < len(sh.ring); i++ {
			if i%64 == 63 {
				sh.mu.Unlock()
				m.flush()
				sh.mu.Lock()
			}
			if i < len(sh.ring) {
				m.account(rs, sh.ring[i], at)
			}
		}
		sh.mu.Unlock()
	}
	m.end(true)
	m.flush()
}

var errFull = errors.New("the snapshot is full")

// Hear takes what another node tells. It may come late, twice and in any order.
func (s *Shared) Hear(name string, boot uint64, msg []byte, now time.Time) error {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	from, err := s.colleague(name)
	if err != nil {
		return err
	}
	d := reader{msg: msg}
	head, err := d.head()
	if err != nil {
		return err
	}
	anew := from.hear(boot, head)
	if anew {
		s.anew = append(s.anew, from)
		s.owes.Store(true)
		s.wake(nanos(now), true)
	}
	if head.want > from.want {
		from.want = head.want
		s.retell(now)
	}
	rs := s.quota.rules.Load()
	for len(d.msg) > 0 {
		rec, err := d.record()
		if err != nil {
			return err
		}
		w := telling{from: from, boot: boot, at: head.at, waiting: rec.waiting, reset: rec.reset, cells: rec.cells}
		if rec.node != "" {
			known := s.colleagues[rec.node] != nil
			if w.from, err = s.colleague(rec.node); err != nil {
				return err
			}
			if !known && w.from != s.self { // who is up is found before it is spoken of
				w.from.gone.Store(true)
			}
			w.boot, w.at, w.waiting = rec.boot, rec.at, 0
		}
		s.stats.heard.Add(1)
		s.take(rs, &rec, &w, nanos(now))
	}
	if anew { // what earlier runs had under way is over
		s.lose(from, boot, now)
	}
	if from.boot == boot && from.whole(&head) {
		s.visit(now, func(rs *rules, a *account, at int64) { s.lower(rs, a, from, head.at, at) })
	}
	return nil
}

// colleague returns a node by its name, which is this one's too.
func (s *Shared) colleague(name string) (*colleague, error) {
	if name == s.self.name {
		return s.self, nil
	}
	c := s.colleagues[name]
	if c == nil {
		if len(s.colleagues) >= maxColleagues && !s.forget() {
			return nil, fmt.Errorf("%q: %w", name, ErrColleagues)
		}
		c = &colleague{name: name}
		s.colleagues[name] = c
	}
	return c, nil
}

// forget makes room for a node: of those that are gone, the one that started first. It reports whether there is one.
func (s *Shared) forget() bool {
	var oldest *colleague
	for _, c := range s.colleagues {
		if c.gone.Load() && (oldest == nil || c.boot < oldest.boot || c.boot == oldest.boot && c.name < oldest.name) {
			oldest = c
		}
	}
	if oldest != nil {
		delete(s.colleagues, oldest.name)
	}
	return oldest != nil
}

// hear notes which message has come. It reports whether a node that was known has begun another run.
func (c *colleague) hear(boot uint64, h head) (anew bool) {
	c.silent.Store(false)
	switch {
	case boot > c.boot:
		anew = c.boot != 0
		c.boot, c.seq, c.gap = boot, h.seq, h.at
		c.run.Store(boot)
	case boot == c.boot && h.seq > c.seq:
		if h.seq != c.seq+1 {
			c.gap = h.at
		}
		c.seq = h.seq
	}
	return anew
}

// whole notes which part of a snapshot has come, and reports whether that was the last one.
func (c *colleague) whole(h *head) bool {
	if h.why == told || h.at < c.snap.at {
		return false
	}
	if h.at > c.snap.at {
		c.snap = arriving{at: h.at, left: -1}
	}
	if h.why == end {
		c.snap.left = h.part + 1
	}
	c.snap.have[h.part/64] |= 1 << (h.part % 64)
	n := int64(0)
	for _, word := range c.snap.have {
		n += int64(bits.OnesCount64(word))
	}
	return n == c.snap.left
}

// lower takes in that a node has nothing to say about an account: a whole snapshot, made at a time, does not speak of
// it. What it said before about what it has under way, and who waits, may be out of date.
func (s *Shared) lower(rs *rules, a *account, c *colleague, made, at int64) {
	s.each(rs, a, at, func(r *rule, t *terms, st *state) bool { return r.lower(st, t, c, made) })
}

// take counts what was told about one account.
func (s *Shared) take(rs *rules, rec *record, w *telling, now int64) {
	r := rs.byID[rec.rule]
	if r == nil || rec.source.IsValid() && (rs.OnMissing == MissingRefuse || sourceOf(rs, rec.source) != rec.source) {
		s.stats.unknown.Add(1)
		return
	}
	if r.way != steady && slices.ContainsFunc(w.cells, func(c cell) bool {
		return c.before > maxFigure || c.total < 0
	}) {
		s.stats.malformed.Add(1)
		return
	}
	a, _ := s.quota.table.get(rs, rec.account, rec.source, netip.Addr{}, now, restore)
	defer a.shard.mu.Unlock()
	if a.index < 0 {
		s.stats.unknown.Add(1)
		return
	}
	at := a.shard.clock(now)
	if rec.reset > 0 {
		a.forgive(rs, rec.reset, at)
		at = a.shard.clock(now)
	}
	t, st := a.terms(rs, r), a.state(r)
	r.roll(st, t, at)
	before := st.others + st.used
	if !r.merge(st, t, w, at) {
		return
	}
	if more := st.others + st.used - before; more > 0 && r.way != steady {
		r.enter(st, t, more)
	}
	if st.contested() || a.has(contended) {
		a.noteContended(rs)
	}
	if w.from == s.self {
		a.mark(r, st, t, at)
	}
	if l := a.line(); l != nil && l.waiting > 0 {
		l.call(rs, at)
	}
}

// forgive takes in that an operator has reset the account at another node. All rules forget at once, before anybody who
// waits is called: else one rule would forget what it has just charged to them.
func (a *account) forgive(rs *rules, reset, now int64) {
	for _, r := range rs.list {
		if r.shared == nil || r.way == level {
			continue
		}
		st, t := a.state(r), a.terms(rs, r)
		r.roll(st, t, now)
		if reset > st.resetAt() && r.began(st) <= reset {
			a.wipe(r, st, t, reset, now)
		}
	}
}

// resetAt is when an operator last reset the account, as far as that matters.
func (st *state) resetAt() int64 {
	if p := st.peers(); p != nil {
		return p.reset
	}
	return 0
}

// wipedAt is when this node last forgot what the account had used, as it was reset.
func (st *state) wipedAt() int64 {
	if p := st.peers(); p != nil {
		return p.wiped
	}
	return 0
}

// Lasting reports whether losing a node and finding it again changes nothing: no places come free, and nobody
// can wait.
func (s *Shared) Lasting() bool {
	return !slices.ContainsFunc(s.quota.rules.Load().list, func(r *rule) bool {
		return r.shared != nil && (r.way == level || r.delay || r.bytes)
	})
}

// Lose takes in that a node cannot be heard: places that it holds are free, and nobody waits for those who wait there.
// What it has used stays used.
func (s *Shared) Lose(name string, now time.Time) { s.notice(name, true, now) }

// Find takes in that a node can be heard again.
func (s *Shared) Find(name string, now time.Time) { s.notice(name, false, now) }

func (s *Shared) notice(name string, gone bool, now time.Time) {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	c := s.colleagues[name]
	if c == nil {
		if !gone {
			_, _ = s.colleague(name) // so that others may speak of it; where there is no room, its messages say so
		}
		return
	}
	c.silent.Store(true) // it may be another run by now
	if c.gone.Swap(gone) == gone {
		return
	}
	if gone {
		s.lose(c, math.MaxUint64, now)
		return
	}
	s.visit(now, func(rs *rules, a *account, at int64) {
		s.each(rs, a, at, func(r *rule, t *terms, st *state) bool {
			r.recount(st, t)
			return false
		})
	})
}

// lose frees the places that runs of a node before one hold, and forgets those who wait there.
func (s *Shared) lose(c *colleague, before uint64, now time.Time) {
	s.visit(now, func(rs *rules, a *account, at int64) {
		s.each(rs, a, at, func(r *rule, t *terms, st *state) bool { return r.lose(st, t, c, before) })
	})
}

// visit calls f with every account, and its shard locked.
func (s *Shared) visit(now time.Time, f func(rs *rules, a *account, at int64)) {
	for i := range s.quota.table.shards {
		sh := &s.quota.table.shards[i]
		sh.mu.Lock()
		rs, at := s.quota.rules.Load(), sh.clock(nanos(now))
		for _, a := range sh.ring {
			f(rs, a, at)
		}
		sh.mu.Unlock()
	}
}

// each calls f with the rules of an account about which others told something, and then those who wait if f reports
// that something has changed.
func (s *Shared) each(rs *rules, a *account, at int64, f func(*rule, *terms, *state) bool) {
	changed := false
	for _, r := range rs.list {
		if r.shared == nil || !a.counts(r) {
			continue
		}
		if st, t := a.state(r), a.terms(rs, r); st.ring != nil {
			r.roll(st, t, at)
			changed = f(r, t, st) || changed
		}
	}
	a.noteContended(rs)
	if l := a.line(); changed && l != nil && l.waiting > 0 {
		l.call(rs, at)
	}
}

// Stats says what has been told and heard.
func (s *Shared) Stats() SharedStats {
	return SharedStats{Told: s.stats.told.Load(), Sent: s.stats.sent.Load(), Heard: s.stats.heard.Load(),
		Unknown: s.stats.unknown.Load(), TooLong: s.stats.long.Load(),
		Wrong: s.stats.malformed.Load()}
}
