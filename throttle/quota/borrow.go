package quota

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"weir"
	"weir/farm"
)

// A borrower is how an account stands with the engine, for all its rules that are on loan. Its shard's lock protects
// it.
type borrower struct {
	account  *account
	lender   *Lender
	run, key string        // by which the engine knows it
	calling  bool          // a call is under way
	over     chan struct{} // closed when it is over; nil if nobody waits for that
	asking   *atomic.Int64 // where the call is counted; nil if it is not
	back     bool          // what is not needed goes back with the next one
	forget   bool          // an operator has reset the account
	closed   bool          // the engine grants nothing until other nodes have told it what they know
	telling  bool          // the next call is one by which a new engine is told of all accounts
	waiting  []*engineWaiter
	shut     int64 // until then the engine grants nothing, as it is to be told first
	pause    int64 // how long the engine was last left alone after it had nothing left
	due      int64 // when to look after it
	position int
}

// An engineWaiter is an event that waits for the engine's answer. It is decided about as soon as that has come, in
// order.
type engineWaiter struct {
	cost    int64
	asks    uint64 // the rules that have no room for it
	version uint32 // of these rules: after a reload they are others
	tries   int
	// decide decides about it, and reports which rules have no room yet.
	decide func(rs *rules, now int64, failed bool) (asks uint64)
	done   chan struct{}
}

// maxTries is how many answers an event waits for. Others may have taken what came.
const maxTries = 4

// waitForEngine has an event wait for the engine. The shard is locked, and is not when it returns: the event has been
// decided about by then.
func (p *borrower) waitForEngine(w *engineWaiter, now int64) {
	w.done = make(chan struct{})
	p.waiting = append(p.waiting, w)
	p.account.pins++
	p.lender.stats.waited.Add(1)
	begins := p.begin(now)
	p.account.shard.mu.Unlock()
	if begins {
		p.lender.talk(context.Background(), p, w)
	}
	<-w.done
}

// call has the engine asked for what is needed, soon. The shard is locked.
func (p *borrower) call(now int64) {
	if p.begin(now) {
		go p.lender.talk(context.Background(), p, nil)
	}
}

// begin reports whether the caller is to ask the engine. Where too many ask, those who wait are decided about. The
// shard is locked.
func (p *borrower) begin(now int64) bool {
	if p.calling {
		return false
	}
	l := p.lender
	if l.closed.Load() { // what is spent is being written down
		p.serve(l.quota.rules.Load(), now, true)
		return false
	}
	asking, most := &l.asking, int64(maxAsks)
	if p.account.onProbation() {
		asking, most = &l.newcomers, maxNewAsks
	}
	if asking.Add(1) > most {
		asking.Add(-1)
		l.stats.crowded.Add(1)
		p.serve(l.quota.rules.Load(), now, true)
		p.see(now, tellLater)
		return false
	}
	p.calling, p.asking = true, asking
	p.account.pins++
	return true
}

// end notes that no call is under way any more. The shard is locked.
func (p *borrower) end() {
	p.calling = false
	p.account.pins--
	if p.over != nil {
		close(p.over)
		p.over = nil
	}
	if p.asking != nil {
		p.asking.Add(-1)
		p.asking = nil
	}
}

// talk asks the engine until nobody waits for it. The borrower is being called, and the account pinned. When the one
// who talks is decided about, somebody else goes on.
func (l *Lender) talk(ctx context.Context, p *borrower, who *engineWaiter) {
	for l.talkOnce(ctx, p) {
		if who == nil {
			continue
		}
		select {
		case <-who.done:
			go l.talk(ctx, p, nil)
			return
		default:
		}
	}
}

// talkOnce asks the engine once. It reports whether to go on.
func (l *Lender) talkOnce(ctx context.Context, p *borrower) (again bool) {
	a := p.account
	who := l.standing()
	a.shard.mu.Lock()
	rs := l.quota.rules.Load()
	sent := nanos(l.Now())
	p.follow(rs, sent)
	c := p.prepare(rs, who, sent)
	telling := p.telling
	p.telling = false
	a.shard.mu.Unlock()
	var reply farm.Reply
	err := errNothing
	if c != nil {
		if reply, err = l.ask(ctx, c); err == nil {
			err = c.raise(p, &reply, sent)
		}
	}
	a.shard.mu.Lock()
	rs = l.quota.rules.Load()
	now := a.shard.clock(nanos(l.Now()))
	if telling {
		l.hasTold(c == nil || err == nil)
	}
	if c != nil && p.take(rs, c, &reply, err, sent, now) {
		p.end() // the others are on their way: Advance asks again
		p.see(now, tellTime)
		a.shard.mu.Unlock()
		return false
	}
	p.serve(rs, now, err != nil || now < p.shut)
	p.expire(rs, now)
	again = len(p.waiting) > 0 || p.telling || p.forget && err == nil && now >= p.shut
	if !again {
		p.end()
		if line := a.line(); line != nil && line.waiting > 0 {
			line.call(rs, now) // it may call again
		}
		p.keep(rs, now)
	}
	a.shard.mu.Unlock()
	return again
}

// follow has the time of a shard go on from now, where the clock was set back. Otherwise it would stand still until the
// clock has caught up, and what is lent meanwhile would be over before it is spent.
func (p *borrower) follow(rs *rules, now int64) {
	if sh := p.account.shard; sh.latest > now+int64(setBack) {
		sh.latest = now
		p.void(rs)
	}
}

// void makes what is on loan unspendable.
func (p *borrower) void(rs *rules) {
	for _, r := range rs.list {
		if r.lender == p.lender && p.account.counts(r) {
			p.account.state(r).end = 0
		}
	}
}

var errNothing = errors.New("there is nothing to ask")

// A question is one call.
type question struct {
	ask      farm.Ask
	source   netip.Addr // of the account
	accepted bool       // the upstream has accepted it
	rules    []*rule    // of each want
	ceilings []ceiling  // of each want

	// Most have one.
	want    [1]farm.Want
	rule    [1]*rule
	ceiling [1]ceiling
}

// ask calls the engine. Where its time is in another period than this node's, it asks again by the engine's.
func (l *Lender) ask(ctx context.Context, c *question) (farm.Reply, error) {
	for tries := 1; ; tries++ {
		c.ask.Seq = l.seq.Add(1)
		l.stats.calls.Add(1)
		reply, err := l.Pot.Take(ctx, c.ask)
		if errors.Is(err, farm.ErrOutside) && tries < 3 {
			for i, r := range c.rules {
				if w := &c.ask.Wants[i]; !w.Start.IsZero() {
					w.Start, w.End = r.Period.Bounds(reply.Now, r.loc)
				}
			}
			continue
		}
		switch {
		case err != nil:
			l.stats.failed.Add(1)
			return reply, err
		case reply.Granted:
			l.stats.granted.Add(1)
		default:
			l.stats.denied.Add(1)
		}
		l.hearOf(&reply, nanos(l.Now()))
		return reply, nil
	}
}

// prepare makes the next call of what is needed, and takes out of the borrower what may not be spent until it is
// answered. It returns nil when there is nothing to ask.
func (p *borrower) prepare(rs *rules, who *standing, now int64) *question {
	a, l := p.account, p.lender
	c := &question{ask: farm.Ask{Key: p.key, Run: p.run, Nodes: who.farm}}
	c.ask.Wants, c.rules, c.ceilings = c.want[:0], c.rule[:0], c.ceiling[:0]
	c.source, c.accepted = a.source(), !a.onProbation()
	need, more := p.demand(rs, who.nodes, now)
	for _, r := range rs.list {
		t := a.terms(rs, r)
		if r.lender != l || t.exempt || !a.counts(r) {
			continue
		}
		ln := a.state(r).loan()
		if ln == nil && need[r.slot] == 0 {
			continue
		}
		ln = a.borrows(rs, r)
		st := a.state(r)
		w := r.want(t, now)
		w.Mark, w.Need, w.Unknown = ln.mark, need[r.slot], r.unknown(t, now)
		// What it may spend until the answer comes it says that it has spent.
		if w.Need > 0 || p.back || now >= st.end {
			st.others = min(st.others, st.used)
		}
		if w.Need > 0 || more[r.slot] > 0 || ln.block > 0 && st.start == never && !p.back {
			ln.grow(r, t, st.used, now, who.nodes)
			// A node never has more than a block ahead: that much is lost where an engine dies before it has answered.
			ahead := max(0, ln.block-max(0, st.others-st.used))
			w.Ahead = min(more[r.slot]+ahead, farm.MaxNumber/4)
		}
		if r.way == steady && ln.block > 0 {
			w.Life = r.life(t)
		}
		w.Used = max(st.used, st.others)
		w.Forget = p.forget && r.way != level
		if r.way == level {
			w.Used = min(w.Used, farm.MaxNumber)
		}
		st.start = never
		c.ask.Wants = append(c.ask.Wants, w)
		c.rules = append(c.rules, r)
		c.ceilings = append(c.ceilings, ln.ceilingOf(r, t, who.nodes))
	}
	p.back = false
	if len(c.ask.Wants) == 0 {
		return nil
	}
	return c
}

// want is what there is to say of a rule in each call.
func (r *rule) want(t *terms, now int64) farm.Want {
	w := farm.Want{Rule: r.ident, Limit: t.limit}
	switch r.way {
	case inPeriods:
		w.Way = farm.Fixed
	case inStretches:
		w.Way = farm.Sliding
	case steady:
		w.Way, w.Burst = farm.Steady, t.burst
	case level:
		w.Way = farm.Level
		return w
	}
	if r.Period.Calendar != weir.NoCalendar {
		w.Start, w.End = r.Period.Bounds(time.Unix(0, now), r.loc)
	} else {
		w.Period = time.Duration(t.period)
	}
	return w
}

// demand is what is needed of each rule, by slot, for the first of those who wait, and how much more for the others.
func (p *borrower) demand(rs *rules, nodes, now int64) (need, more [MaxPolicies]int64) {
	a := p.account
	for i, w := range p.waiting {
		w.tries++
		a.each(rs, rs.still(w.asks, w.version), func(r *rule, t *terms, _ *state) {
			if n := r.need(w.cost, t); i == 0 {
				need[r.slot] = n
			} else {
				more[r.slot] = add(more[r.slot], n)
			}
		})
	}
	line := a.line()
	if line == nil || line.waiting == 0 {
		return need, more
	}
	first := len(p.waiting) == 0
	if w := line.waiters.First(); first {
		w.each(rs, w.mask, func(r *rule, t *terms, st *state) {
			if n := r.need(w.cost, t); r.lends(t) && !t.exempt && st.room(now) < n {
				need[r.slot] = n
			}
		})
	}
	for _, r := range rs.list { // those in line take no more than their part at once: others have lines too
		if r.lender == nil || !a.counts(r) {
			continue
		}
		if st := a.state(r); st.ahead > 0 && st.loan() != nil {
			left := min(st.loan().left, a.terms(rs, r).limit)
			more[r.slot] = add(more[r.slot], min(st.ahead, (left+2*nodes-1)/(2*nodes)))
		}
	}
	return need, more
}

// life is how long what is taken ahead of a steady rate may be kept: so long that the burst is smaller by a tenth.
func (r *rule) life(t *terms) time.Duration {
	return min(time.Duration(t.whole/10), 100*time.Millisecond).Truncate(time.Microsecond)
}

// grow works out how much is taken ahead: twice as much each time. Where more was last asked for long ago, it is three
// times what was spent since, as more is fetched when half is spent; or nothing if that lay idle.
func (ln *loan) grow(r *rule, t *terms, used, now, n int64) {
	if now-ln.took >= 2*idleAfter {
		if ln.block > 0 {
			ln.block = max(0, 3*(used-ln.from))
		}
	} else {
		ln.block = max(1, 2*ln.block)
	}
	ln.took, ln.from = now, used
	whole := r.most(t)
	most := whole / (10 * n)
	if r.ceiled { // where nodes are killed, a step on the disk is lost besides
		most = whole / (ceilingSteps * n)
	}
	if r.Ahead.Set {
		most = r.Ahead.N
	}
	if ln.left < whole {
		most = min(most, (ln.left+2*n-1)/(2*n))
	} else {
		most = min(most, (whole+2*n-1)/(2*n))
	}
	if r.way == steady && r.life(t) < 2*time.Millisecond {
		most = 0
	}
	ln.block = min(ln.block, most)
}

// tellTime is how long the other nodes have to tell an engine what they know, before those who wait for it ask again.
const tellTime = int64(4 * time.Millisecond)

// take takes in what the engine has answered. It reports whether to ask again soon, as the others tell it what they
// know.
func (p *borrower) take(rs *rules, c *question, reply *farm.Reply, err error, sent, now int64) (soon bool) {
	if err != nil {
		p.lender.asked.Store(p)
		p.back = true // the engine may have granted it, or not have heard what goes back
		return false  // what it says that it has spent it may spend
	}
	a := p.account
	closed := !reply.Granted && reply.Failed < 0
	p.closed = closed
	for i, old := range c.rules {
		r := rs.slots[old.slot].rule
		if r == nil || r.since != old.since || r.lender != p.lender {
			continue
		}
		st, t, w, g := a.state(r), a.terms(rs, r), &c.ask.Wants[i], &reply.Grants[i]
		ln := st.loan()
		if ln == nil {
			continue
		}
		if w.Forget && !closed {
			p.forget = false
		}
		if r.way != level && (ln.mark == "" || g.Slice != ln.slice || w.Forget && !closed) {
			told := w.Used
			if ln.mark == "" {
				told = 0
			}
			st.used = max(0, st.used-told)
			ln.begun, ln.base, ln.from = sent, 0, 0
		}
		ln.newer = ln.newer || ln.mark != g.Mark
		ln.slice, ln.mark, ln.left = g.Slice, g.Mark, g.Left
		if k := &c.ceilings[i]; k.raised {
			ln.ceiled, ln.ceiling, ln.newer = k.slice, k.n, false
		}
		st.others = g.Total
		if reply.Stale { // never: numbers grow
			st.others = min(g.Total, st.used)
		}
		st.end = sent + int64(min(g.For-g.For/16, lendFor))
		if g.For == 0 && reply.Granted && w.Need > 0 {
			st.end = now + 1 // to be spent at once
		}
		switch r.way {
		case inPeriods:
			ln.ends = add(sent, int64(g.For))
		case inStretches:
			ln.ends = add(sent, int64(g.For)+buckets*r.bucket)
		case steady:
			ln.ends = add(sent, add(t.whole, t.period))
		}
		if reply.Granted {
			ln.no, ln.opens = 0, 0
		}
		if room := st.others - st.used; ln.block > 0 && room > 1 {
			st.start = st.used + (room+1)/2
		}
		ln.seen = st.used
	}
	switch {
	case reply.Granted:
		p.pause, p.shut = 0, 0
		return false
	case closed && len(p.waiting) > 0 && p.waiting[0].tries < maxTries && !p.lender.closed.Load():
		p.lender.tellOthers(a, true, now)
		return true
	case closed:
		p.pause = min(max(askAgain, 2*p.pause), askAgainAtLast)
		p.shut = now + p.pause
		if len(p.waiting) > 0 { // else nobody needs it: the others tell by themselves
			p.lender.tellOthers(a, true, now)
		}
		return false
	}
	p.pause = min(max(askAgain, 2*p.pause), askAgainAtLast)
	failed := c.rules[reply.Failed]
	if ln := a.state(failed).loan(); ln != nil && rs.slots[failed.slot].rule != nil {
		ln.opens = add(now, int64(reply.Wait))
		ln.no = min(now+p.pause, ln.opens)
	}
	p.lender.tellOthers(a, false, now)
	return false
}

// serve decides about those who waited for an answer, in order.
func (p *borrower) serve(rs *rules, now int64, failed bool) {
	waiting := p.waiting
	p.waiting = nil
	for _, w := range waiting {
		// After a reload, what has failed is not what the event needs now.
		w.asks, w.version = w.decide(rs, now, failed && w.version == rs.version), rs.version
		if w.asks != 0 && w.tries >= maxTries {
			w.asks = w.decide(rs, now, true)
		}
		if w.asks != 0 {
			p.waiting = append(p.waiting, w)
			continue
		}
		p.account.pins--
		close(w.done)
	}
}

// expire ends what was to be spent at once.
func (p *borrower) expire(rs *rules, now int64) {
	for _, r := range rs.list {
		if r.lender == p.lender && r.way == steady && p.account.counts(r) {
			if st := p.account.state(r); st.end == now+1 {
				st.end = 0
			}
		}
	}
}

// keep has the borrower looked after where something of it may have to go back, or to be renewed.
func (p *borrower) keep(rs *rules, now int64) {
	if p.forget || p.back {
		p.see(now, tellLater)
	}
	for _, r := range rs.list {
		if r.lender != p.lender || !p.account.counts(r) {
			continue
		}
		st := p.account.state(r)
		switch {
		case st.room(now) > 0:
			p.see(now, idleAfter)
		case r.way == level && st.used > 0:
			p.see(now, renewAfter)
		case r.way != level && st.used > st.others && st.loan() != nil && !p.closed:
			p.see(now, tellLater)
		}
	}
}

// lapse is when an account with a borrower is forgotten.
func (a *account) lapse(rs *rules) {
	if rs.lender == nil {
		return
	}
	if p := a.borrower(rs); p != nil {
		p.unsee()
		if p.telling {
			p.telling = false
			p.lender.hasTold(true)
		}
		rs.lender.entries.Add(1)
		rs.lender.uncover(rs, p)
		if a.invented() {
			rs.lender.discard(a)
		}
	}
}
