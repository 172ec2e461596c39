package quota

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"weir"
	"weir/farm"
	"weir/store"
)

// What a node is granted it forgets when it is restarted, and an engine may be restarted as well. So before it spends
// a part of a limit, it has a ceiling on its disk: it has never spent more than that. After a restart it goes on as the
// run that wrote the ceiling, and tells the engine that all of it is spent. A ceiling is a step above what was granted,
// so that few grants wait for the disk; when weir ends by itself, it is what was spent.

const (
	// ceiledFrom is how long a window must be for ceilings to be kept. Shorter ones are soon over: an engine that has
	// forgotten them stays closed for so long.
	ceiledFrom = int64(10 * time.Second)
	// ceilingSteps are the steps of all nodes together in a limit.
	ceilingSteps = 20
	// diskPatience is how long an event waits for a ceiling to be on the disk.
	diskPatience = time.Second
	// seqGap is more calls than are made until weir is restarted.
	seqGap = 1 << 32
	// beganRule is the rule of a ceiling that says that an earlier run lent under this name, and from which call on.
	// nodeRule is that of one whose account is another node that did. Texts of rules have several words.
	beganRule, nodeRule = "began", "node"
)

// keepsCeilings reports whether ceilings of the rule are kept.
func (r *rule) keepsCeilings() bool {
	switch {
	case r.lender == nil || r.lender.Disk == nil:
		return false
	case r.way == level:
		return false
	case r.way == steady:
		return r.base.whole >= ceiledFrom
	}
	return r.base.period >= ceiledFrom || r.Period.Calendar != weir.NoCalendar
}

// unknown reports whether an earlier run may have been granted something in the window that now lies in, and nobody
// knows how much.
func (r *rule) unknown(t *terms, now int64) bool {
	l := r.lender
	if r.way == level || !l.earlier.Load() || r.ceiled && !l.partial.Load() {
		return false
	}
	switch r.way {
	case inPeriods:
		start, _ := r.bounds(now)
		return start < l.began
	case inStretches:
		return now-(buckets+1)*r.bucket < l.began
	}
	return now-2*t.whole-int64(farm.MaxLife) < l.began
}

// A ceiling is what a question needs to know of one on the disk.
type ceiling struct {
	kept     bool
	raised   bool
	slice, n int64
	step     int64
	after    int64 // how long it counts when its slice is over; of a steady rate, from when the question is sent
}

// ceilingOf is that of a loan. The shard is locked.
func (ln *loan) ceilingOf(r *rule, t *terms, nodes int64) ceiling {
	c := ceiling{kept: r.ceiled, slice: ln.ceiled, n: ln.ceiling, step: r.most(t) / (ceilingSteps * nodes)}
	switch {
	case r.way == inStretches:
		c.after = buckets * r.bucket
	case r.way == steady:
		c.after = add(t.whole, t.period)
	}
	return c
}

// limitOf is what names an account's limits on the disk.
func (p *borrower) limitOf(r *rule, source netip.Addr) store.Ceiling {
	name := p.account.name
	return store.Ceiling{Throttle: p.lender.Name, Rule: r.texts.of(name, source), Account: name, Source: source,
		Run: p.run}
}

// raise has ceilings on the disk that are not below what the engine has granted. No lock is held.
func (c *question) raise(p *borrower, reply *farm.Reply, sent int64) error {
	closed := !reply.Granted && reply.Failed < 0
	var all []store.Ceiling
	for i, r := range c.rules {
		k, g := &c.ceilings[i], &reply.Grants[i]
		if !k.kept {
			continue
		}
		have := k.n
		if k.slice != g.Slice {
			have = 0
		}
		if g.Total <= have && (closed || !c.ask.Wants[i].Forget) {
			continue
		}
		k.raised, k.slice, k.n = true, g.Slice, min(add(g.Total, k.step), farm.MaxNumber)
		until := add(sent, k.after)
		if r.way != steady {
			until = add(until, int64(g.For))
		}
		row := p.limitOf(r, c.source)
		row.Accepted, row.State, row.Slice, row.Used = c.accepted, []byte(g.Mark), k.slice, k.n
		row.Seq, row.Until = int64(c.ask.Seq), moment(until)
		if row.Validate() == nil { // a name that is too long for a store has no ceiling
			all = append(all, row)
		}
	}
	if len(all) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), diskPatience)
	defer cancel()
	if err := p.lender.Disk.Save(ctx, all); err != nil {
		p.lender.stats.unkept.Add(1)
		return fmt.Errorf("what may be granted is not on the disk: %w", err)
	}
	return nil
}

// Restore takes in the ceilings of earlier runs. It is called before anything is judged. An error is of the disk.
func (l *Lender) Restore(ctx context.Context) (restored, noRoom int, err error) {
	if l.Disk == nil {
		return 0, 0, nil
	}
	now := l.Now()
	last := int64(0)
	err = l.Disk.Load(ctx, l.Name, now, func(c store.Ceiling) error {
		last = max(last, c.Seq)
		switch c.Rule {
		case beganRule:
			l.earlier.Store(true)
			return nil
		case nodeRule:
			l.heard[c.Account], l.kept[c.Account] = l.Since(), true
			return nil
		}
		switch err := l.restore(&c, nanos(now)); {
		case err == nil:
			restored++
		case errors.Is(err, ErrTableFull):
			noRoom++
		}
		return nil
	})
	l.partial.Store(noRoom > 0 || err != nil)
	began := l.note(beganRule, beganRule)
	began.Seq = int64(l.seq.Add(uint64(last) + seqGap)) // a call whose number an earlier run used would be ignored
	if err == nil {
		err = l.Disk.Save(ctx, []store.Ceiling{began})
	}
	if err != nil && l.earlier.Load() && !l.partial.Load() {
		l.stats.unkept.Add(1) // what may be granted is on the disk all the same
		err = nil
	}
	return restored, noRoom, err
}

// note is a row that is no ceiling of an account.
func (l *Lender) note(rule, what string) store.Ceiling {
	return store.Ceiling{Throttle: l.Name, Rule: rule, Account: what, Run: farm.Home(l.Run), State: []byte{},
		Until: moment(farthest)}
}

// restore takes in one ceiling: all of it counts as spent.
func (l *Lender) restore(c *store.Ceiling, now int64) error {
	rs := l.quota.rules.Load()
	var r *rule
	for _, one := range rs.list {
		if one.lender == l && one.ceiled && one.texts.of(c.Account, c.Source) == c.Rule {
			r = one
		}
	}
	if r == nil {
		return ErrNoPolicy
	}
	a, _ := l.quota.table.get(rs, c.Account, c.Source, netip.Addr{}, now, restore)
	defer a.shard.mu.Unlock()
	if a.index < 0 {
		return ErrTableFull
	}
	if c.Accepted {
		a.accept()
	}
	fresh := a.borrower(rs) == nil
	ln := a.borrows(rs, r)
	p := ln.borrower
	if fresh {
		p.run = c.Run
	} else if p.run != c.Run { // of a run that had given back all that it had: the latest comes first
		return ErrOver
	}
	st := a.state(r)
	st.used, st.others, st.end = c.Used, c.Used, 0
	ln.mark, ln.slice, ln.begun, ln.ends = string(c.State), c.Slice, now, c.Until.UnixNano()
	ln.ceiling, ln.ceiled = c.Used, c.Slice
	return nil
}

// lower has what was spent on the disk, and no more, when a node ends by itself.
func (l *Lender) lower(ctx context.Context) {
	if l.Disk == nil {
		return
	}
	now := nanos(l.Now())
	var all []store.Ceiling
	l.visit(func(rs *rules, a *account) {
		p := a.borrower(rs)
		if p == nil || p.lender != l {
			return
		}
		for _, r := range rs.list {
			if r.lender != l || !r.ceiled || !a.counts(r) {
				continue
			}
			st := a.state(r)
			ln := st.loan()
			if ln == nil || p.calling || ln.ends <= now || ln.ceiled != ln.slice {
				continue
			}
			st.end = 0 // an event that is late would spend what is not on the disk
			if ln.ceiling == st.used && !ln.newer {
				continue
			}
			ln.ceiling, ln.newer = st.used, false
			row := p.limitOf(r, a.source())
			row.Accepted = !a.onProbation()
			row.State, row.Slice, row.Used, row.Seq = []byte(ln.mark), ln.slice, st.used, int64(l.seq.Load())
			row.Until = moment(ln.ends)
			if row.Validate() == nil {
				all = append(all, row)
			}
		}
	})
	for len(all) > 0 {
		n := min(len(all), store.MaxBatch)
		if err := l.Disk.Save(ctx, all[:n]); err != nil {
			l.stats.unkept.Add(1)
			return
		}
		all = all[n:]
	}
}

// uncover has the ceilings of an account that is forgotten taken off the disk. The shard is locked.
func (l *Lender) uncover(rs *rules, p *borrower) {
	a := p.account
	for _, r := range rs.list {
		if r.lender != l || !r.ceiled || !a.counts(r) {
			continue
		}
		if ln := a.state(r).loan(); ln == nil || ln.ceiling == 0 || ln.ends <= a.shard.latest {
			continue
		}
		l.mu.Lock()
		if len(l.uncovered) < store.MaxBatch { // others stay until their windows are over
			l.uncovered = append(l.uncovered, p.limitOf(r, a.source()))
		}
		l.mu.Unlock()
	}
}

// forgetUncovered takes them off the disk, unless somebody does already.
func (l *Lender) forgetUncovered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.uncovered) == 0 || l.forgetting {
		return
	}
	all := l.uncovered
	l.uncovered, l.forgetting = nil, true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), diskPatience)
		defer cancel()
		if err := l.Disk.Forget(ctx, all); err != nil {
			l.stats.unkept.Add(1)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.forgetting = false
	}()
}
