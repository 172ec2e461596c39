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
	// Of a rule that is new here, this node does not know yet what the others have charged.
	if shared := with.shared; shared != nil && slices.ContainsFunc(rs.list, func(r *rule) bool {
		return r.shared != nil && r.since == rs.version
	}) {
		shared.ask(nanos(now))
	}
	for i := range q.table.shards { // accounts of which nobody waits are updated when they are next used
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

// Judge decides about an event. What it grants is taken at once, except places of kind concurrent, which Enter takes.
// If a stamp would let the event go on, its purse is opened. No lock is held then.
func (q *Quota) Judge(ctx context.Context, ev *weir.Event, a *weir.Answer) error {
	rs, now := q.rules.Load(), nanos(ev.Time)
	acc, g := q.table.find(rs, ev, now, enter)
	if acc == nil {
		a.Verdict, a.Reason = weir.Refuse, rs.noAccount(ev)
		return nil
	}
	paid := pays(ev.Purse.Paid())
	if next := q.judge(rs, acc, g, ev, now, paid, a); next.step != settled {
		q.goOn(ctx, acc, g, ev, now, paid, next, a)
	}
	return nil
}

// Prompt reports whether Judge and Enter decide without asking the engine of a farm.
func (q *Quota) Prompt() bool { return q.rules.Load().lender == nil }

// A step is what has to be done, without the lock, before an event can be decided about.
type step uint8

const (
	settled step = iota
	toPay        // open its purse
	toAsk        // ask the engine of a farm
)

// next is a step and, with toAsk, the rules because of which the engine is asked, and their version.
type next struct {
	step
	asks    uint64
	version uint32
}

// goOn does one step after the other until the event is decided about. The account is pinned, so that it is not
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
			n = q.borrow(acc, g, &ev, paid, n, a)
		}
		if n.step != settled {
			acc.unpin() // each step pins it
		}
	}
}

// current returns the rules, and brings the account up to date with them. Its shard is locked.
func (q *Quota) current(a *account) *rules {
	rs := q.rules.Load()
	if a.version != rs.version {
		a.update(rs)
	}
	return rs
}

// borrow asks the engine of a farm for what an event needs, and then decides about the event.
func (q *Quota) borrow(acc *account, g *stranger, ev *weir.Event, paid bool, n next, a *weir.Answer) next {
	acc.shard.mu.Lock()
	rs := q.current(acc)
	if rs.version != n.version { // a reload came in between
		a.Clear()
		return q.judge(rs, acc, g, ev, nanos(ev.Time), paid, a)
	}
	w := &engineWaiter{cost: rs.charge(ev, acc), asks: n.asks, version: n.version}
	w.decide = func(rs *rules, now int64, failed bool) uint64 {
		a.Clear()
		acc.update(rs)
		n = q.decide(rs, acc, g, ev, now, paid, failed, a)
		return n.asks
	}
	p := acc.borrows(rs, rs.slots[bits.TrailingZeros64(n.asks)].rule).borrower
	p.waitForEngine(w, acc.shard.clock(nanos(rs.lender.Now())))
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
	// The most common case, see grant: one rule, and an account that is like all others.
	if rs.only != nil && a.rest == nil && g == nil && ev.Plan == "" && rs.only.grant(rs, a, ev.Charge(), now, answer) {
		q.begin(rs, a, ev, answer)
		return next{}
	}
	a.callDue(rs, now)
	a.setPlan(rs, ev.Plan)
	b := newBill(rs, a, ev, now)
	b.paid, b.failed, b.stranger = paid, failed, g
	if g != nil {
		g.plan = ev.Plan
	}
	b.check(&ev.Route, answer)
	switch {
	case answer.Verdict == weir.Admit && b.asks != 0:
		return next{toAsk, b.asks, rs.version}
	case answer.Verdict < weir.Challenge:
		b.take(answer)
		q.begin(rs, a, ev, answer)
	case answer.Verdict == weir.Challenge && ev.Purse != nil:
		a.pins++
		return next{step: toPay}
	}
	return next{}
}

// begin notes that an event of an account on probation is under way, and where it came from.
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
		a.Verdict, a.Reason = weir.Refuse, rs.noAccount(ev)
		return
	}
	defer acc.shard.mu.Unlock()
	before := acc.setPlan(rs, ev.Plan)
	b := newBill(rs, acc, ev, acc.shard.clock(now))
	b.paid = pays(ev.Purse.Paid())
	b.check(&ev.Route, a)
	acc.setPlan(rs, before)
}

// Enter takes a place under every policy of kind concurrent that the event met. If the engine of a farm has to be asked
// for one, Enter waits for the answer.
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
	*h = q.enterLater(rs, acc, p, *h, asks, a)
}

// enterLater is enter when the engine of a farm has answered. The hold is a copy, for the heap.
func (q *Quota) enterLater(rs *rules, acc *account, p *borrower, h weir.Hold, asks uint64, a *weir.Answer) weir.Hold {
	w := &engineWaiter{cost: h.N, asks: asks, version: rs.version}
	w.decide = func(rs *rules, now int64, failed bool) uint64 {
		figures := a.Figures
		a.Clear()
		a.Figures = figures
		acc.update(rs)
		return q.enter(rs, &h, now, failed, a)
	}
	p.waitForEngine(w, acc.shard.clock(nanos(rs.lender.Now())))
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
			b.checkRule(r, t, a)
		}
	})
	a.Figures = figures
	if b.asks != 0 && a.Verdict == weir.Admit {
		// This makes the borrower that Enter waits for.
		acc.borrows(rs, rs.slots[bits.TrailingZeros64(b.asks)].rule)
		return b.asks
	}
	h.Enter, h.V = false, rs.version
	w, waited := h.Ref.(*waiter)
	switch {
	case a.Verdict == weir.Wait:
		b.wait(a)
		h.Ref = a.Hold.Ref
		if waited { // it has left the line that it waited in before
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

// Away calls the next in line when an event that waited is on its way to the upstream.
func (q *Quota) Away(h weir.Hold, now time.Time) {
	w, ok := h.Ref.(*waiter)
	if !ok {
		return
	}
	w.account.shard.mu.Lock()
	defer w.account.shard.mu.Unlock()
	w.away(q.rules.Load(), w.account.shard.clock(nanos(now)))
}

// Settle ends a hold. What was charged stays charged if the event is done, and is given back if it is not. A place goes
// to the next in line in either case. An event that still waits leaves the line.
func (q *Quota) Settle(h weir.Hold, o weir.Outcome) {
	upstream := opinionOf(&o)
	if acc, admitted := h.Ref.(*account); admitted && o.Done && h.B == 0 && (h.C == 0 || upstream != accepts) {
		if h.C != 0 {
			acc.end(upstream)
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
		acc.end(upstream)
		if upstream == accepts {
			q.table.approve(rs, acc, origin(h.C), now)
		}
	}
	acc.callDue(rs, now)
	if g != nil {
		q.table.leave(rs, g, upstream, taken, h.N, at, now)
	}
}

// Advance calls everybody whose turn it is at now, and returns when somebody's turn comes next; zero when nobody waits.
func (q *Quota) Advance(now time.Time) time.Time {
	at, next := nanos(now), int64(never)
	setBack := at < q.seen.Swap(at)-int64(time.Second) // then all lines are looked at
	for i := range q.table.shards {
		s := &q.table.shards[i]
		if s.waiting.Load() == 0 && !setBack {
			continue
		}
		s.mu.Lock()
		rs := q.rules.Load()
		if setBack {
			s.latest = at // unlike events, calls of Advance come in order
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

// A bill is one event, checked against the rules of its account with the account's shard locked. Sets of rules have the
// bits of the rules; sets of figures have a bit for each position in the answer's Figures, counted from before.
type bill struct {
	rules    *rules
	account  *account
	stranger *stranger // set if the account that the event names has no entry in the table
	now      int64
	cost     int64

	mask     uint64 // the rules that the event is under; take leaves out those that limit a level
	levels   uint64 // the rules that limit a level
	delayed  uint64 // the rules that it must wait for
	deadline int64
	until    int64 // of the verdict so far

	paid   bool   // rules that take stamps let it pass
	failed bool   // the engine of a farm did not answer
	asks   uint64 // the rules for which the engine has to be asked
	before int    // how many figures other throttles have put into the answer
	free   uint64 // figures that it takes nothing of: they count bytes, or it passes for its stamp
	places uint64 // figures that count places

	charged uint64 // for Enter: the rules that Judge has charged
	at      int64  // for Enter: when that was
}

func newBill(rs *rules, acc *account, ev *weir.Event, now int64) *bill {
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
			b.checkRule(r, t, a)
		}
	}
	if a.Verdict == weir.Admit { // the figures show what is left after this event
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

// checkRule adds a rule's figure to the answer, and makes the verdict worse if the event does not fit into the rule.
func (b *bill) checkRule(r *rule, t *terms, a *weir.Answer) {
	st := b.account.state(r)
	r.roll(st, t, b.now)
	b.mask |= r.bit
	switch figure := uint64(1) << (len(a.Figures) - b.before); {
	case r.way == level:
		b.levels |= r.bit
		b.places |= figure
	case r.bytes:
		b.free |= figure
	}
	a.Figures = grow(a.Figures)
	f := &a.Figures[len(a.Figures)-1]
	r.figure(f, st, t, b.now)
	if b.account.has(shared) && !f.Reset.IsZero() {
		f.Reset = instant(min(f.Reset.UnixNano(), b.now+int64(sharedAdvice)))
	}

	need := r.need(b.cost, t)
	ready := b.now
	if st.waiting == 0 { // nobody is overtaken who waits because of this rule
		if ready = r.readyAt(b.account, st, t, b.now, need+st.ahead); ready <= b.now {
			return
		}
	}
	if r.lends(t) && st.waiting == 0 && !t.nothing() && need <= r.most(t) && b.lend(r, t, need, a) {
		return
	}
	if t.shut {
		b.refuseUnknown(a)
		return
	}
	deadline := add(b.now, int64(r.Delay.MaxWait))
	until, expected := r.when(st, t, b.now, need), b.now
	if until <= b.now && ready != never { // it fits, but others go first
		until = ready
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
			b.set(a, weir.Wait, weir.OverLimit, expected)
		}
	}
}

// refuse makes the answer a refusal by the rule last checked, unless another refuses for longer.
func (b *bill) refuse(a *weir.Answer, why weir.Reason, until int64) {
	b.worsen(a, weir.Refuse, why, until)
}

// worsen makes the answer that of the rule last checked, unless the one so far is worse, or the same for longer.
func (b *bill) worsen(a *weir.Answer, v weir.Verdict, why weir.Reason, until int64) {
	b.short(a)
	if v > a.Verdict || v == a.Verdict && until > b.until {
		b.set(a, v, why, until)
	}
}

// short makes the last figure say that less is left than the event costs: what is left is for those in line.
func (b *bill) short(a *weir.Answer) {
	if last := &a.Figures[len(a.Figures)-1]; last.Unit != unitBytes {
		last.Remaining = min(last.Remaining, b.cost-1)
	}
}

// set makes the answer that of the rule last checked.
func (b *bill) set(a *weir.Answer, v weir.Verdict, why weir.Reason, until int64) {
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

// sharedAdvice is how long strangers are told to stay away, at most. They are served when they get an entry of their
// own, which may be long before the period of the limits that they share is over.
const sharedAdvice = time.Minute

// take charges the event to every rule, or puts it in line. Places are left to Enter. The hold has in A the rules that
// were charged, in B those that the event comes back for with Enter, Flow or Settle, and in C the origin of an event of
// an account on probation, see begin.
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
		if a.Verdict != weir.Admit { // it only has to wait for places, in Enter
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

// wait puts the event in its account's line.
func (b *bill) wait(a *weir.Answer) {
	w := &waiter{turn: weir.NewTurn(), stranger: b.stranger, version: b.rules.version, mask: b.mask, delayed: b.delayed,
		charged: b.charged, cost: b.cost, at: b.at, deadline: b.deadline, patience: b.deadline - b.now}
	l := b.account.queue()
	l.join(b.rules, w)
	a.Turn, a.Hold.Ref = w.turn, w
	l.call(b.rules, b.now)
}

// ownerOf returns the account that a hold is charged to, and the stranger of the event if strangers share it.
func ownerOf(h *weir.Hold) (*account, *stranger) {
	switch ref := h.Ref.(type) {
	case *waiter:
		return ref.account, ref.stranger
	case *stranger:
		return ref.account, ref
	}
	return h.Ref.(*account), nil
}

// takenBy returns the rules that a hold was charged to, if they still count the same, and when. The shard is locked.
func takenBy(h *weir.Hold, rs *rules) (mask uint64, at int64) {
	if w, ok := h.Ref.(*waiter); ok {
		return rs.still(w.charged, w.version), w.at
	}
	return rs.still(h.A, h.V), h.At
}

// nanos is the time as the rules count it. Times before the epoch count as the epoch.
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

// charge charges an account under a rule, and marks what the store and the other nodes have to be told.
func (a *account) charge(r *rule, st *state, t *terms, now, n int64) {
	r.charge(st, t, now, n)
	if n != 0 {
		if a.has(contended) && st.racing() {
			st.peers().race.taken += n
		}
		a.mark(r, st, t, now)
	}
}
