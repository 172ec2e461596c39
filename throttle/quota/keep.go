package quota

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir"
	"weir/store"
)

// KeptAbove is how long a policy's period must be for its counters to survive a restart. Shorter ones are soon over.
const KeptAbove = time.Hour

// Why Restore ignores a counter. One that is not valid gets store.ErrInvalid or store.ErrTooLarge.
var (
	ErrNoPolicy  = errors.New("no policy counts that any more")
	ErrOver      = errors.New("its period is over, or has not begun")
	ErrTableFull = errors.New("there is no room for the account")
)

// Dirty appends to a batch what has changed since it was last called: of every account with a change, the counters of
// all policies whose period is longer than KeptAbove. It stops where the batch would exceed store.MaxBatch, and says
// that there is more for the next call. Accounts that share limits for want of an entry are not kept.
//
// Counters are totals, and the last one counts. So batches are saved in the order in which they were handed out, and a
// batch that could not be saved is saved again before the next is asked for. When the process is killed, the requests
// since the last save are lost.
//
// It holds each lock for a few accounts only. throttle is the name by which the counters are kept.
func (q *Quota) Dirty(batch []store.Counter, throttle string, now time.Time) (_ []store.Counter, more bool) {
	k := &q.table.keeping
	k.mu.Lock()
	defer k.mu.Unlock()
	k.on.Store(true)
	for range shards + 1 { // the shard in which it begins may come twice
		for s := &q.table.shards[k.shard]; k.word >= 0; {
			if batch, more = q.collect(s, batch, throttle, nanos(now)); more {
				return batch, true
			}
		}
		k.shard, k.word = (k.shard+1)%shards, 0
	}
	return batch, false
}

// Keeps reports whether there is a policy of which anything is to be kept at all.
func (q *Quota) Keeps() bool {
	rs := q.rules.Load()
	return rs.keeps > 0 || slices.ContainsFunc(rs.Policies, func(p Policy) bool { return p.Farm == FarmExact })
}

// keeping is what a table knows about being saved.
type keeping struct {
	mu          sync.Mutex // one Dirty at a time
	shard, word int        // where it goes on; no word is left at -1
	on          atomic.Bool
	unsavable   atomic.Uint64
}

// collect appends the counters of the next few accounts of a shard that have changed.
func (q *Quota) collect(s *shard, batch []store.Counter, throttle string, now int64) (_ []store.Counter, full bool) {
	k := &q.table.keeping
	s.mu.Lock()
	defer s.mu.Unlock()
	rs := q.rules.Load()
	now = s.clock(now)
	if k.word = s.changed.next(k.word); k.word < 0 {
		return batch, false
	}
	for ; s.changed[k.word] != 0; s.changed[k.word] &= s.changed[k.word] - 1 {
		a := s.ring[64*k.word+bits.TrailingZeros64(s.changed[k.word])]
		if left := store.MaxBatch - len(batch); rs.keeps > left || rs.keeps == left && a.earned(rs) {
			return batch, true
		}
		a.unset(owed)
		whole := len(batch)
		batch = a.counters(rs, batch, throttle, now)
		for i := whole; i < len(batch); i++ {
			if batch[i].Validate() == nil {
				batch[whole] = batch[i]
				whole++
			}
		}
		k.unsavable.Add(uint64(len(batch) - whole))
		batch = batch[:whole]
	}
	k.word++
	return batch, false
}

// counters appends what is to be kept of an account.
func (a *account) counters(rs *rules, batch []store.Counter, throttle string, now int64) []store.Counter {
	if a.invented() {
		return batch // it was never served
	}
	before := len(batch)
	for _, r := range rs.list {
		if r.kept && a.counts(r) {
			t, st := a.terms(rs, r), a.state(r)
			r.roll(st, t, now)
			c := store.Counter{Throttle: throttle, Rule: r.texts.of(a.name, a.source()), Account: a.name,
				Source: a.source()}
			if reset := st.resetAt(); reset > 0 {
				c.At = moment(reset)
			}
			batch = r.save(batch, c, st, t, now)
		}
	}
	if !a.earned(rs) {
		return batch
	}
	c := store.Counter{Throttle: throttle, Rule: acceptedText, Account: a.name, Period: moment(0), Used: 1}
	for i := range batch[before:] {
		if b := &batch[before+i]; b.Used > 0 && b.Until.After(c.Until) {
			c.Until = b.Until
		}
	}
	if c.Until.IsZero() || !a.note(c.Until.Unix()) {
		return batch
	}
	const day = int64(24 * time.Hour) // note counts in days
	c.Until = moment(min(c.Until.UnixNano(), farthest-day) + day)
	return append(batch, c)
}

// earned reports whether the account was accepted, and not because the options name it.
func (a *account) earned(rs *rules) bool { return !a.onProbation() && !rs.known(a.name) }

// acceptedText is the rule of a counter that says that an account was accepted. The text of a rule has several words.
const acceptedText = "accepted"

// Accepted reports whether a counter only says that an account was accepted. Restore those first: they need entries.
func Accepted(c *store.Counter) bool { return c.Rule == acceptedText && c.Account != "" }

// save appends the counters of a state, as store.Counter describes them. The state has been rolled to now.
func (r *rule) save(batch []store.Counter, c store.Counter, st *state, t *terms, now int64) []store.Counter {
	switch {
	case r.way == inStretches:
		if st.ring == nil {
			return batch
		}
		for i := max(0, st.start-buckets); i <= st.start; i++ {
			if at := ringSlot(i); st.ring.changed&(1<<at) != 0 {
				c.Used = st.ring.own(at)
				c.Period, c.Until = moment(i*r.bucket), moment((i+buckets+1)*r.bucket)
				batch = append(batch, c)
			}
		}
		st.ring.changed = 0
		return batch
	case r.way == steady:
		c.Period, c.Until = moment(0), moment(now)
		if st.start > now {
			c.Used = min(st.start, farthest)
			c.Until = moment(c.Used)
		}
	case r.bytes:
		c.Period, c.At, c.Used, c.Until = moment(0), moment(st.start), st.used, moment(r.settled(st, t))
	default:
		c.Period, c.Used, c.Until = moment(st.start), st.used, moment(st.end)
	}
	return append(batch, c)
}

// settled is when a debt of bytes is paid off. With a limit of 0 it never is, and that does not matter.
func (r *rule) settled(st *state, t *terms) int64 {
	if t.nothing() || st.used <= t.limit {
		return st.end
	}
	return r.later(st.end, r.periods(t, st.used-1))
}

// farthest is the last moment that a store can keep: the beginning of 2262.
const farthest = 9_214_646_400_000_000_000

// moment is a time as a store has it.
func moment(ns int64) time.Time { return time.Unix(0, min(ns, farthest)).UTC() }

// Restore takes in what Dirty handed out before a restart. It is meant for the start, before anything is judged, once
// for each counter: it adds to what has been counted meanwhile. A counter that is of no use is ignored, with an error:
// a policy whose name, kind, window, period or time zone has changed is another one; its limit may have changed.
func (q *Quota) Restore(c store.Counter, now time.Time) error {
	if err := c.Validate(); err != nil {
		return err
	}
	rs, at := q.rules.Load(), nanos(now)
	r, err := rs.restores(&c, at)
	if err != nil {
		return fmt.Errorf("%q: %w", c.Rule, err)
	}
	a, _ := q.table.get(rs, c.Account, c.Source, netip.Addr{}, at, restore)
	defer a.shard.mu.Unlock()
	switch {
	case a.index < 0:
		return fmt.Errorf("%q: %w", c.Rule, ErrTableFull)
	case r == nil:
		a.accept()
	default:
		r.restore(&c, a.state(r), a.terms(rs, r), a.shard.clock(at))
	}
	return nil
}

// restores returns the rule that a counter is of, nil for one that says that an account was accepted, or why it is of
// no use at now.
func (rs *rules) restores(c *store.Counter, now int64) (*rule, error) {
	switch {
	case Accepted(c) && rs.keeps > 0:
		if !c.Counts(time.Unix(0, now)) {
			return nil, ErrOver
		}
		return nil, nil
	case c.Account == "" && (rs.OnMissing == MissingRefuse || sourceOf(rs, c.Source) != c.Source):
		return nil, ErrNoPolicy
	}
	for _, r := range rs.list {
		if r.kept && r.texts.of(c.Account, c.Source) == c.Rule {
			return r, r.useful(c, now)
		}
	}
	return nil, ErrNoPolicy
}

// useful returns why a counter is of no use at now.
func (r *rule) useful(c *store.Counter, now int64) error {
	if !c.Counts(time.Unix(0, now)) {
		return ErrOver
	}
	from := c.Period.UnixNano()
	switch {
	case r.way == steady:
		if c.Used != 0 && c.Used != c.Until.UnixNano() {
			return fmt.Errorf("paid off at two different times: %w", store.ErrInvalid)
		}
	case r.way == inStretches:
		if part, current := from/r.bucket, now/r.bucket; part > current || current-part > buckets {
			return ErrOver
		}
	case r.bytes:
		if c.At.IsZero() {
			return fmt.Errorf("nobody knows as of when: %w", store.ErrInvalid)
		}
		if c.At.UnixNano() > now {
			return ErrOver
		}
	default:
		// When time zones are changed by law, a month may begin at another hour than it did.
		if start, end := r.bounds(now); from < start || from >= end {
			return ErrOver
		}
	}
	return nil
}

func (r *rule) restore(c *store.Counter, st *state, t *terms, now int64) {
	n := min(c.Used, max(0, MaxLimit-st.used)) // more makes no difference
	if reset := c.At; !reset.IsZero() && !(r.bytes && r.way == inPeriods) && reset.UnixNano() <= now+maxLate {
		// Other nodes tell of the reset again. What was saved since then stays counted.
		p := st.meet()
		p.reset = max(p.reset, reset.UnixNano())
	}
	switch {
	case n == 0:
	case r.way == steady:
		st.start = add(max(st.start, now), max(0, c.Used-now))
	case r.way == inStretches:
		r.roll(st, t, now)
		if st.ring == nil {
			r.begin(st, now)
		}
		if part := c.Period.UnixNano() / r.bucket; part <= st.start && st.start-part <= buckets {
			st.ring.set(ringSlot(part), st.ring.at(ringSlot(part))+n) // a store knows of it
			st.used += n
			if r.shared != nil {
				st.meet().remember(part, n)
			}
		}
	case r.bytes:
		start, end := r.bounds(c.At.UnixNano())
		if st.used == 0 { // how much is paid off since then depends on the plan, which the first event may bring
			st.start, st.end, st.used = start, end, n
			return
		}
		old := state{start: start, end: end, used: n}
		r.roll(&old, t, now)
		r.roll(st, t, now)
		st.used += old.used
	default:
		if r.roll(st, t, now); c.Period.UnixNano() >= st.start { // or the next period has begun already
			st.used += n
			if r.shared != nil {
				st.restored(n)
			}
		}
	}
}

// long reports whether the counters of the rule are kept over a restart.
func (r *rule) long() bool {
	switch r.way {
	case level:
		return false
	case steady:
		return r.base.period > int64(KeptAbove) || r.base.whole > int64(KeptAbove)
	}
	return r.Period.Calendar != weir.NoCalendar || r.base.period > int64(KeptAbove)
}

// texts identify a rule in a store. Rules that count different things have different texts. Where sources are counted,
// the length of the prefix is part of the text.
type texts struct{ account, v4, v6 string }

func (r *rule) written(v4, v6 int) texts {
	id := r.ident
	return texts{id, fmt.Sprintf("%s by /%d", id, v4), fmt.Sprintf("%s by /%d", id, v6)}
}

func (t *texts) of(account string, source netip.Addr) string {
	switch {
	case account != "":
		return t.account
	case source.Is4():
		return t.v4
	}
	return t.v6
}

// mark notes that a rule has another count than a store knows of, and than the other nodes of a farm do.
func (a *account) mark(r *rule, st *state, t *terms, now int64) {
	if r.kept && a.index >= 0 {
		a.shard.changed.set(int(a.index))
	}
	a.tell(r, st, t, now)
}

// marks are positions in a shard's ring, one bit each: to find one in a hundred thousand takes a microsecond.
type marks []uint64

func (m marks) set(i int)      { m[i/64] |= 1 << (i % 64) }
func (m marks) clear(i int)    { m[i/64] &^= 1 << (i % 64) }
func (m marks) flip(i int)     { m[i/64] ^= 1 << (i % 64) }
func (m marks) has(i int) bool { return m[i/64]&(1<<(i%64)) != 0 }

// swap exchanges two positions.
func (m marks) swap(i, j int) {
	if m.has(i) != m.has(j) {
		m.flip(i)
		m.flip(j)
	}
}

func (m *marks) grow(i int) {
	if i/64 >= len(*m) {
		*m = append(*m, 0)
	}
}

// next returns the first word from word on in which something is marked, or -1.
func (m marks) next(word int) int {
	for ; word < len(m); word++ {
		if m[word] != 0 {
			return word
		}
	}
	return -1
}
