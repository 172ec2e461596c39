package quota

import (
	"context"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir"
)

// A Quota is a throttle that keeps the limits of each account. Most programs want Allow; gates want Judge. The zero
// value cannot be used: make one with New. Goroutines may share it.
type Quota struct {
	rules   atomic.Pointer[rules]
	table   *table
	seen    atomic.Int64  // when Advance was last called
	mu      sync.Mutex    // one Configure, Divide, Share or Lend at a time
	answers sync.Pool     // of *weir.Answer, for Allow
	capped  atomic.Uint64 // answers that said a higher price than the options allow
}

var (
	_ weir.Throttle           = (*Quota)(nil)
	_ weir.ConcurrencyLimiter = (*Quota)(nil)
	_ weir.Sequencer          = (*Quota)(nil)
	_ weir.Rationer           = (*Quota)(nil)
	_ weir.Clocked            = (*Quota)(nil)
)

// New returns a quota with nothing used.
func New(o Options) (*Quota, error) {
	rs, err := compile(o, nil, ties{})
	if err != nil {
		return nil, err
	}
	q := &Quota{table: newTable()}
	q.rules.Store(rs)
	return q, nil
}

// Configure changes the options and keeps the counters of every policy that still counts the same thing (name, kind,
// window, period). Those who wait are called by the new limits. On an error nothing has changed.
func (q *Quota) Configure(o Options, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	rs := q.rules.Load()
	return q.configure(o, rs.ties, now)
}

// configure is Configure, Divide, Share and Lend. q.mu is held.
func (q *Quota) configure(o Options, with ties, now time.Time) error {
	rs, err := compile(o, q.rules.Load(), with)
	if err != nil {
		return err
	}
	for _, r := range rs.list {
		r.from = nanos(now)
	}
	q.rules.Store(rs)
	if shared := with.shared; shared != nil && slices.ContainsFunc(rs.list, func(r *rule) bool {
		return r.shared != nil && r.since == rs.version
	}) {
		shared.ask(nanos(now))
	}
	for i := range q.table.shards {
		s := &q.table.shards[i]
		s.mu.Lock()
		for _, l := range slices.Clone(s.due.Items()) {
			l.account.update(rs)
			l.call(rs, s.clock(now.UnixNano()))
		}
		s.mu.Unlock()
	}
	return nil
}

// Judge decides about an event. What it grants is taken at once, except places at once, which Enter takes. Where a
// stamp would let the event go on, its purse is opened, under no lock.
func (q *Quota) Judge(ctx context.Context, ev *weir.Event, a *weir.Answer) error {
	rs, now := q.rules.Load(), nanos(ev.Time)
	acc, g := q.table.find(rs, ev, now, enter)
	if acc == nil {
		a.Verdict, a.Reason = weir.Refuse, rs.homeless(ev)
		return nil
	}
	paid := pays(ev.Purse.Paid())
	if next := q.judge(rs, acc, g, ev, now, paid, a); next.step != settled {
		q.goOn(ctx, acc, g, ev, now, paid, next, a)
	}
	return nil
}

// Prompt reports whether no engine of a farm is asked.
func (q *Quota) Prompt() bool { return q.rules.Load().lender == nil }

// A step is what has to be done before an event can be decided about.
type step uint8

const (
	settled step = iota
	toPay        // its purse should be opened
	toAsk        // the engine of a farm should be asked
)

// next is a step, and the rules because of which the engine should be asked.
type next struct {
	step
	asks uint64
}

// goOn does what has to be done before an event can be decided about. The account is pinned, so that it is not
// forgotten meanwhile.
func (q *Quota) goOn(ctx context.Context, acc *account, g *stranger, of *weir.Event, now int64, paid bool, n next,
	a *weir.Answer,
) {
	ev := *of // a copy, for the heap
	defer acc.unpin()
	for n.step != settled {
		switch n.step {
		case toPay:
			if paid = q.pay(ctx, &ev, a); !paid {
				return
			}
			acc.shard.mu.Lock()
			n = q.judge(q.current(acc), acc, g, &ev, now, true, a)
		case toAsk:
			n = q.borrow(acc, g, &ev, paid, n.asks, a)
		}
		if n.step != settled {
			acc.unpin() // each step pins it
		}
	}
}

// current returns the rules, by which an account was brought up to date. Its shard is locked.
func (q *Quota) current(a *account) *rules {
	rs := q.rules.Load()
	if a.version != rs.version {
		a.update(rs)
	}
	return rs
}

// borrow has the engine of a farm asked for what an event needs, and decides about it then.
func (q *Quota) borrow(acc *account, g *stranger, ev *weir.Event, paid bool, asks uint64, a *weir.Answer) (n next) {
	acc.shard.mu.Lock()
	rs := q.current(acc)
	rd := &rider{cost: rs.charge(ev, acc), asks: asks}
	rd.decide = func(rs *rules, now int64, failed bool) uint64 {
		a.Clear()
		acc.update(rs)
		n = q.decide(rs, acc, g, ev, now, paid, failed, a)
		return n.asks
	}
	l := rs.lender
	if l == nil { // the farm is gone: it is decided about here
		defer acc.shard.mu.Unlock()
		rd.decide(rs, acc.shard.latest, true)
		return n
	}
	var p *borrower
	acc.each(rs, asks, func(r *rule, _ *terms, _ *state) {
		if r.lender != nil {
			p = acc.borrows(rs, r).borrower
		}
	})
	if p == nil {
		defer acc.shard.mu.Unlock()
		rd.decide(rs, acc.shard.latest, true)
		return n
	}
	p.ride(rd, acc.shard.clock(nanos(l.Now())))
	return n
}

// judge decides about an event with the account's shard locked, and unlocks it. Where something has to be done first,
// the account is then pinned, so that it is not forgotten meanwhile.
func (q *Quota) judge(rs *rules, a *account, g *stranger, ev *weir.Event, now int64, paid bool,
	answer *weir.Answer,
) next {
	defer a.shard.mu.Unlock()
	n := q.decide(rs, a, g, ev, now, paid, false, answer)
	if n.step == toAsk {
		a.pins++
	}
	return n
}

// decide decides about an event with the account's shard locked. failed is whether the engine of a farm did not answer.
func (q *Quota) decide(rs *rules, a *account, g *stranger, ev *weir.Event, now int64, paid, failed bool,
	answer *weir.Answer,
) next {
	now = a.shard.clock(now)
	if rs.only != nil && a.rest == nil && g == nil && ev.Plan == "" && rs.only.grant(rs, a, ev.Charge(), now, answer) {
		q.begin(rs, a, ev, answer)
		return next{}
	}
	a.callDue(rs, now)
	a.says(rs, ev.Plan)
	b := newBill(rs, a, ev, now)
	b.paid, b.failed, b.stranger = paid, failed, g
	if g != nil {
		g.plan = ev.Plan
	}
	b.check(&ev.Route, answer)
	switch {
	case answer.Verdict == weir.Admit && b.asks != 0:
		return next{toAsk, b.asks}
	case answer.Verdict < weir.Challenge:
		b.take(answer)
		q.begin(rs, a, ev, answer)
	case answer.Verdict == weir.Challenge && ev.Purse != nil:
		a.pins++
		return next{step: toPay}
	}
	return next{}
}

func (q *Quota) begin(rs *rules, a *account, ev *weir.Event, answer *weir.Answer) {
	if a.onProbation() {
		a.begin()
		answer.Hold.C = uint64(q.table.origin(rs, a, ev.Source))
	}
}

// Peek answers as Judge would and takes nothing. It opens no purse: only what has been paid already counts.
func (q *Quota) Peek(ev *weir.Event, a *weir.Answer) {
	rs, now := q.rules.Load(), nanos(ev.Time)
	acc, _ := q.table.find(rs, ev, now, peek)
	if acc == nil {
		a.Verdict, a.Reason = weir.Refuse, rs.homeless(ev)
		return
	}
	defer acc.shard.mu.Unlock()
	said := acc.says(rs, ev.Plan)
	b := newBill(rs, acc, ev, acc.shard.clock(now))
	b.paid = pays(ev.Purse.Paid())
	b.check(&ev.Route, a)
	acc.says(rs, said)
}

// Enter takes a place under every policy of kind concurrent that the event met. Where the engine of a farm has to be
// asked for one, it waits for the answer.
func (q *Quota) Enter(h *weir.Hold, now time.Time, a *weir.Answer) {
	acc, _ := ownerOf(h)
	acc.shard.mu.Lock()
	rs := q.current(acc)
	asks := q.enter(rs, h, acc.shard.clock(nanos(now)), false, a)
	p := acc.borrower(rs)
	if asks == 0 || p == nil {
		acc.shard.mu.Unlock()
		return
	}
	*h = q.enterLater(acc, p, *h, asks, acc.shard.clock(nanos(rs.lender.Now())), a)
}

// enterLater is enter when the engine of a farm has answered. The hold is a copy, for the heap.
func (q *Quota) enterLater(acc *account, p *borrower, h weir.Hold, asks uint64, now int64, a *weir.Answer) weir.Hold {
	p.ride(&rider{cost: h.N, asks: asks, decide: func(rs *rules, now int64, failed bool) uint64 {
		figures := a.Figures
		a.Clear()
		a.Figures = figures
		acc.update(rs)
		return q.enter(rs, &h, now, failed, a)
	}}, now)
	return h
}

// enter takes places, or returns the rules for which the engine of a farm has to be asked first.
func (q *Quota) enter(rs *rules, h *weir.Hold, now int64, failed bool, a *weir.Answer) (asks uint64) {
	acc, g := ownerOf(h)
	b := bill{rules: rs, account: acc, stranger: g, now: now, cost: h.N, failed: failed}
	b.charged, b.at = takenBy(h, rs)
	acc.callDue(rs, b.now)
	figures := a.Figures // Judge has shown them already
	acc.each(rs, rs.still(h.B, h.V), func(r *rule, t *terms, _ *state) {
		if r.way == level {
			b.hold(r, t, a)
		}
	})
	a.Figures = figures
	if b.asks != 0 && a.Verdict == weir.Admit {
		acc.borrows(rs, rs.slots[bits.TrailingZeros64(b.asks)].rule)
		return b.asks
	}
	h.Enter, h.V = false, rs.version
	w, waited := h.Ref.(*waiter)
	switch {
	case a.Verdict == weir.Wait:
		b.wait(a)
		h.Ref = a.Hold.Ref
		if waited { // it is in another line now
			w.away(rs, b.now)
		}
		return 0
	case a.Verdict == weir.Admit:
		acc.each(rs, b.mask, func(r *rule, t *terms, st *state) {
			r.charge(st, t, b.now, 1)
			acc.tell(r, st, t, b.now)
		})
		b.charged |= b.mask
	}
	if waited {
		w.charged, w.version = b.charged, rs.version
	} else {
		h.A = b.charged
	}
	return 0
}

// Away calls the next in line, once an event that waited is on its way.
func (q *Quota) Away(h weir.Hold, now time.Time) {
	w, ok := h.Ref.(*waiter)
	if !ok {
		return
	}
	w.account.shard.mu.Lock()
	defer w.account.shard.mu.Unlock()
	w.away(q.rules.Load(), w.account.shard.clock(nanos(now)))
}

// Settle ends a hold. What was charged stays charged when the event is done, and is given back when it is not; a place
// is given back in either case, to the next in line. An event that still waits leaves the line.
func (q *Quota) Settle(h weir.Hold, o weir.Outcome) {
	says := opinionOf(&o)
	if acc, admitted := h.Ref.(*account); admitted && o.Done && h.B == 0 && (h.C == 0 || says != accepts) {
		if h.C != 0 {
			acc.end(says)
		}
		return // nothing but requests were charged, and they stay charged
	}
	rs, now := q.rules.Load(), nanos(o.Time)
	acc, g := ownerOf(&h)
	acc.shard.mu.Lock()
	defer acc.shard.mu.Unlock()
	now = acc.shard.clock(now)
	if w, ok := h.Ref.(*waiter); ok {
		if w.inLine {
			w.leave(rs)
		}
		w.away(rs, now)
	}
	taken, at := takenBy(&h, rs)
	if o.Done && rs.Cost.Header != "" {
		h.N = q.reprice(rs, acc, taken, at, now, h.N, o.Price)
	}
	acc.each(rs, taken, func(r *rule, t *terms, st *state) {
		if o.Done && r.way != level {
			return
		}
		r.roll(st, t, now)
		r.giveBack(st, t, at, r.price(h.N), now)
		acc.mark(r, st, t, now)
	})
	if h.B != 0 {
		acc.pins--
	}
	if h.C != 0 {
		acc.end(says)
		if says == accepts {
			q.table.approve(rs, acc, origin(h.C), now)
		}
	}
	acc.callDue(rs, now)
	if g != nil {
		q.table.leave(rs, g, says, taken, h.N, at, now)
	}
}

// Advance calls everybody whose turn it is at now, and returns when somebody's turn comes next; zero when nobody waits.
func (q *Quota) Advance(now time.Time) time.Time {
	at, next := nanos(now), int64(never)
	setBack := at < q.seen.Swap(at)-int64(time.Second) // what was due by the old clock may be due by now
	for i := range q.table.shards {
		s := &q.table.shards[i]
		if s.waiting.Load() == 0 && !setBack {
			continue
		}
		s.mu.Lock()
		rs := q.rules.Load()
		if setBack {
			s.latest = at // Advance is called in order: it is never late itself
			for _, l := range slices.Clone(s.due.Items()) {
				l.rebase(at)
				l.call(rs, at)
			}
		}
		at := s.clock(at)
		for l := s.due.First(); l != nil; l = s.due.First() {
			if l.due > at {
				next = min(next, l.due)
				break
			}
			l.call(rs, at)
		}
		s.mu.Unlock()
	}
	return instant(next)
}

// Alarm registers the function that is called when a turn comes earlier than Advance said.
func (q *Quota) Alarm(f func(due time.Time)) {
	alarm := func(ns int64) { f(time.Unix(0, ns)) }
	q.table.alarm.Store(&alarm)
}

// Retire lets everybody in line go. It is for a quota that is no longer in use.
func (q *Quota) Retire(now time.Time) {
	rs := q.rules.Load()
	for i := range q.table.shards {
		s := &q.table.shards[i]
		s.mu.Lock()
		for l := s.due.First(); l != nil; l = s.due.First() {
			for w := l.waiters.First(); w != nil; w = l.waiters.First() {
				w.leave(rs)
				w.turn.Grant()
			}
			l.schedule(never)
		}
		s.mu.Unlock()
	}
}

// A bill is one event held against the rules of its account, with the account's shard locked.
type bill struct {
	rules    *rules
	account  *account
	stranger *stranger // whose event it is, where that has no account of its own
	now      int64
	cost     int64

	mask     uint64 // the rules the event is under, apart from levels
	levels   uint64 // the rules that limit a level
	delayed  uint64 // the rules it must wait for
	deadline int64
	until    int64 // of the verdict so far

	paid   bool   // rules that take stamps do not hold it
	failed bool   // the engine of a farm did not answer
	asks   uint64 // the rules for which the engine has to be asked
	before int    // the figures that were there
	// which figures it takes nothing of, by position: they count bytes, or it passes for its stamp
	free   uint64
	places uint64 // which figures count places

	charged uint64 // Enter: what it was charged to before
	at      int64  // Enter: and when
}

func newBill(rs *rules, acc *account, ev *weir.Event, now int64) *bill {
	// What costs more than any limit allows is refused, however much more it is.
	return &bill{rules: rs, account: acc, now: now, cost: rs.charge(ev, acc)}
}

// check puts the verdict of all rules into the answer: the longest refusal, else the longest wait. It changes nothing.
func (b *bill) check(route *weir.Route, a *weir.Answer) {
	rs, acc := b.rules, b.account
	b.before = len(a.Figures)
	for _, r := range rs.list {
		if !r.all && !r.Match.matches(route, acc.plan(rs)) {
			continue
		}
		if t := acc.terms(rs, r); !t.exempt {
			b.hold(r, t, a)
		}
	}
	if a.Verdict == weir.Admit { // the figures are to show what is left after this event
		for i := range a.Figures[b.before:] {
			f := &a.Figures[b.before+i]
			switch {
			case b.free&(1<<i) != 0:
			case b.places&(1<<i) != 0:
				f.Remaining = max(0, f.Remaining-1)
			default:
				f.Remaining = max(0, f.Remaining-b.cost)
			}
		}
	}
}

func (b *bill) hold(r *rule, t *terms, a *weir.Answer) {
	st := b.account.state(r)
	r.roll(st, t, b.now)
	b.mask |= r.bit
	switch at := uint64(1) << (len(a.Figures) - b.before); {
	case r.way == level:
		b.levels |= r.bit
		b.places |= at
	case r.bytes:
		b.free |= at
	}
	a.Figures = grow(a.Figures)
	f := &a.Figures[len(a.Figures)-1]
	r.figure(f, st, t, b.now)
	if b.account.has(shared) && !f.Reset.IsZero() {
		f.Reset = instant(min(f.Reset.UnixNano(), b.now+int64(sharedAdvice)))
	}

	need := r.need(b.cost, t)
	at := b.now
	if st.waiting == 0 {
		if at = r.readyAt(b.account, st, t, b.now, need+st.ahead); at <= b.now {
			return
		}
	}
	if r.lends(t) && st.waiting == 0 && !t.nothing() && need <= r.most(t) && b.lend(r, t, need, a) {
		return
	}
	if t.shut {
		b.shut(a)
		return
	}
	deadline := add(b.now, int64(r.Delay.MaxWait))
	until, expected := r.when(st, t, b.now, need), b.now
	if until <= b.now && at != never { // the others go first
		until = at
	}
	if r.way != level && until != never {
		expected = r.estimate(st, t, b.now, need)
	}
	switch {
	case r.way == level && !r.delay:
		b.refuse(a, weir.OverLimit, 0) // nobody knows when a place will be free
	case until == never && r.way != level && !t.nothing():
		b.refuse(a, weir.TooCostly, never)
	case !r.delay && !r.stamp || t.nothing():
		b.refuse(a, weir.OverLimit, until)
	case r.stamp:
		b.ask(r, a, until)
	case int(st.waiting) >= r.Delay.Max:
		if until == never { // a place: nobody knows
			until = 0
		}
		b.refuse(a, weir.LineFull, until)
	case expected > deadline:
		b.refuse(a, weir.WaitTooLong, until)
	default:
		b.deadline = max(b.deadline, deadline)
		b.delayed |= r.bit
		if a.Verdict == weir.Admit || (a.Verdict == weir.Wait && expected > b.until) {
			b.decide(a, weir.Wait, weir.OverLimit, expected)
		}
	}
}

// refuse makes the answer a refusal by the rule last looked at, unless another refuses for longer.
func (b *bill) refuse(a *weir.Answer, why weir.Reason, until int64) {
	b.deny(a, weir.Refuse, why, until)
}

// deny makes the answer that of the rule last looked at, unless another rule's is worse, or the same for longer.
func (b *bill) deny(a *weir.Answer, v weir.Verdict, why weir.Reason, until int64) {
	b.short(a)
	if v > a.Verdict || v == a.Verdict && until > b.until {
		b.decide(a, v, why, until)
	}
}

// short makes the figure of the last rule say that there is not enough: what is left is kept for those in line.
func (b *bill) short(a *weir.Answer) {
	if last := &a.Figures[len(a.Figures)-1]; last.Unit != unitBytes {
		last.Remaining = min(last.Remaining, b.cost-1)
	}
}

func (b *bill) decide(a *weir.Answer, v weir.Verdict, why weir.Reason, until int64) {
	b.until = until
	a.Figure = a.Figures[len(a.Figures)-1]
	if b.account.has(shared) && a.Limit > 0 && why != weir.TooCostly && why != weir.Unpaid {
		why = weir.SharedLimit
		if v == weir.Refuse && until != never {
			until = min(until, b.now+int64(sharedAdvice))
		}
	}
	a.Verdict, a.Reason, a.Until = v, why, instant(until)
}

// sharedAdvice is how long strangers are told to stay away, at most. They get an entry of their own when the table or
// their source has one again, and not when the period of what they share is over.
const sharedAdvice = time.Minute

// take charges the event to every rule, or puts it in line. Places at once are left to Enter.
func (b *bill) take(a *weir.Answer) {
	acc := b.account
	returns := b.mask & (b.levels | b.rules.volume)
	if b.rules.Cost.Header != "" {
		returns = b.mask // the answer may change what was charged
	}
	if returns != 0 {
		acc.pins++
	}
	b.mask &^= b.levels
	b.delayed &^= b.levels
	if b.delayed != 0 {
		b.wait(a)
	} else {
		if a.Verdict != weir.Admit { // only places are missing, and those are waited for in Enter
			*a = weir.Answer{Figures: a.Figures}
		}
		acc.each(b.rules, b.mask, func(r *rule, t *terms, st *state) { acc.charge(r, st, t, b.now, r.price(b.cost)) })
		a.Hold.A = b.mask
		if a.Hold.Ref = acc; b.stranger != nil {
			a.Hold.Ref = b.stranger
		}
	}
	a.Hold.At, a.Hold.N, a.Hold.V = b.now, b.cost, b.rules.version
	a.Hold.B, a.Hold.Enter = returns, b.levels != 0
}

func (b *bill) wait(a *weir.Answer) {
	w := &waiter{turn: weir.NewTurn(), stranger: b.stranger, version: b.rules.version, mask: b.mask, delayed: b.delayed,
		charged: b.charged, cost: b.cost, at: b.at, deadline: b.deadline, patience: b.deadline - b.now}
	l := b.account.queue()
	l.join(b.rules, w)
	a.Turn, a.Hold.Ref = w.turn, w
	l.call(b.rules, b.now)
}

// ownerOf returns the account that a hold is charged to and, where that is shared, the stranger whose event it is.
func ownerOf(h *weir.Hold) (*account, *stranger) {
	switch ref := h.Ref.(type) {
	case *waiter:
		return ref.account, ref.stranger
	case *stranger:
		return ref.account, ref
	}
	return h.Ref.(*account), nil
}

// takenBy returns what a hold was charged to, of the rules that still count the same, and when. The shard is locked.
func takenBy(h *weir.Hold, rs *rules) (mask uint64, at int64) {
	if w, ok := h.Ref.(*waiter); ok {
		return rs.still(w.charged, w.version), w.at
	}
	return rs.still(h.A, h.V), h.At
}

// nanos is the time as the rules count it. There is nothing before the epoch.
func nanos(t time.Time) int64 { return max(0, t.UnixNano()) }

// Allow reports whether one event of an account may go on now, and charges it if so. It is AllowN(now, account, 1).
//
// Most programs want Allow or AllowN and nothing else of a Quota. Judge is for those that also want to know why and
// until when an event is refused, to let it wait, to give it back, or to hold a place of kind concurrent.
func (q *Quota) Allow(now time.Time, account string) bool { return q.AllowN(now, account, 1) }

// AllowN reports whether an event that costs n requests may go on now, and charges every policy if so. A refusal
// charges none. What is allowed counts as done: it cannot be given back. An n below 1 counts as 1.
//
// Nobody waits and nobody pays: an event that Judge would delay or challenge is refused. A policy of kind concurrent
// refuses when events of Judge hold all its places; AllowN holds none. Events have no method, host or path to match.
//
// AllowN is safe for concurrent use. It allocates nothing for an account that is known, under policies that do not
// delay.
func (q *Quota) AllowN(now time.Time, account string, n int64) bool {
	a, _ := q.answers.Get().(*weir.Answer)
	if a == nil {
		a = new(weir.Answer)
	}
	_ = q.Judge(context.Background(), &weir.Event{Time: now, Account: account, Cost: n}, a) // it never fails
	if a.Hold.Enter && a.Verdict == weir.Admit {
		q.Enter(&a.Hold, now, a)
	}
	allowed := a.Verdict == weir.Admit
	if !a.Hold.IsZero() {
		q.Settle(a.Hold, weir.Outcome{Time: now, Done: allowed})
	}
	a.Clear()
	q.answers.Put(a)
	return allowed
}

// charge charges an account by a rule.
func (a *account) charge(r *rule, st *state, t *terms, now, n int64) {
	r.charge(st, t, now, n)
	if n != 0 {
		if a.has(contended) && st.racing() {
			st.peers().race.taken += n
		}
		a.mark(r, st, t, now)
	}
}
