package quota

import (
	"maps"
	"math"
	"slices"
	"time"
)

// view is an account under one rule as a node sees it.
type view struct {
	*rule
	terms terms
	state state
	reset int64
	now   int64
	id    uint64

	contested bool
}

// slice is the one that is counted in now.
func (v *view) slice() int64 {
	if v.way == steady || v.way == level {
		return 0
	}
	return v.state.start
}

// sliceOf is the one that a charge of a time belongs to. Who waited was called before it is looked at, and the clock of
// another node may be ahead: the slice that is current now is then a later one.
func (v *view) sliceOf(at int64) int64 {
	switch v.way {
	case inPeriods:
		start, _ := v.bounds(at)
		return start
	case inStretches:
		return at / v.bucket
	}
	return 0
}

// stands reports whether a charge stands in the window, if it stands anywhere.
func (v *view) stands(c *charge) bool {
	slice, charged := c.slices[v.id]
	late := v.slice() - slice
	return charged && (late == 0 || v.way == inStretches && late > 0 && late <= buckets)
}

// look returns how a node sees an account, after the state has been rolled.
func (n *node) look(account string) (views []view) {
	rs := n.quota.rules.Load()
	a := n.quota.table.known(rs, account)
	if a == nil {
		return nil
	}
	defer a.shard.mu.Unlock()
	for _, r := range rs.list {
		t, st := a.terms(rs, r), a.state(r)
		now := a.shard.clock(nanos(n.FarmTime()))
		r.roll(st, t, now)
		views = append(views, view{r, *t, *st, st.resetAt(), now, r.id(a), st.contested()})
	}
	return views
}

// hears reports whether a node counts on hearing another.
func (n *node) hears(other *node) bool {
	c := n.shared.colleagues[other.Name]
	return c == nil || !c.gone.Load()
}

// knows reports whether a node must know of a charge: it is its own, it was saved before a restart, or it was told of.
func (n *node) knows(v *view, c *charge, account string) bool {
	slice, charged := c.slices[v.id]
	switch {
	case c.back || !charged:
		return false
	case c.run == n.run:
		return true
	case c.node == n:
		return v.kept && c.saved
	}
	return c.n <= n.known[fact{c.run, account, v.id, slice}]
}

// checkGrant checks that a node may grant something, by what it knows.
func (n *node) checkGrant(v *visit) {
	w := n.world
	if !w.checks {
		return
	}
	charged, _ := takenBy(&v.answer.Hold, n.quota.rules.Load())
	for _, view := range n.look(v.account) {
		v.charge.resets[view.id] = view.reset
		if charged&view.bit == 0 { // it waited, and the rule was added meanwhile
			continue
		}
		v.charge.slices[view.id] = view.sliceOf(v.charge.at)
		if view.exempt() {
			continue
		}
		divided := view.share.lost() && view.OnLoss == LossShare
		counts := func(c *charge) bool {
			return w.sure(&view, v.account, c) && n.knows(&view, c, v.account) && (!divided || n.hears(c.node))
		}
		limit, sum := view.limit(&view.terms, v.charge.at), v.cost
		switch view.way {
		case inPeriods, inStretches:
			if view.way == inStretches {
				limit = view.terms.most()
			}
			for _, c := range w.ledger[v.account] {
				if view.stands(c) && counts(c) {
					sum += c.cost
				}
			}
		case steady:
			if view.Kind == Idle {
				for _, c := range w.ledger[v.account] {
					if apart := v.charge.at - c.at; counts(c) && apart < view.terms.period-int64(2*w.slack+catchUp) {
						w.t.Fatalf("%s: %s after one of %s under %s", n.Name, time.Duration(apart), c.node.Name,
							view.Name)
					}
				}
				continue
			}
			if w.faults || divided {
				continue
			}
			owed := view.owed(w.ledger[v.account], counts)
			if over := owed + cost(v.cost, &view.terms) - view.terms.whole - v.charge.at; over >
				int64(2*w.slack+catchUp) {
				w.t.Fatalf("%s: %s is granted %d %s too early", n.Name, v.account, v.cost, time.Duration(over))
			}
			continue
		case level:
			continue
		}
		if sum > limit {
			w.t.Fatalf("%s at %s: %s is granted %d by what it knows under %s, the limit is %d", n.Name,
				n.FarmTime().Format("05.000"), v.account, sum, view.Name, limit)
		}
	}
}

// checkLevel checks that a node may let a request in, by what it knows is under way.
func (n *node) checkLevel(v *visit) {
	if !n.world.checks {
		return
	}
	for _, view := range n.look(v.account) {
		if view.way != level || view.exempt() {
			continue
		}
		told := view.state.used
		for f, level := range n.levels {
			c := n.shared.colleagues[n.world.nameOf(f.run)]
			if f.account == v.account && f.rule == view.id && !c.gone.Load() {
				told += level
			}
		}
		if told > view.terms.limit {
			n.world.t.Fatalf("%s: %s has %d at once by what it knows, the limit is %d", n.Name, v.account, told,
				view.terms.limit)
		}
	}
}

// counts reports whether a charge may count.
func (v *view) counts(c *charge, slack time.Duration) bool {
	_, charged := c.slices[v.id]
	return charged && (c.resets[v.id] == v.reset || c.at >= v.reset-int64(slack))
}

// sure reports whether no reset has made a charge one that does not count, as a node sees it.
func (w *world) sure(v *view, account string, c *charge) bool {
	reset, knew := w.resets[account], c.resets[v.id] // each rule is told by itself
	return knew == v.reset && (reset == 0 || knew == reset || c.at > reset+int64(3*time.Second))
}

// sureOf is what must count of a node's charges: all of its present run, and of all earlier ones together as much as
// whoever knows most of them knows: another node, or the node's own store. Nobody tells earlier runs apart. So where
// each of two knows a part of them, that is not added up: it may be the same part.
func (w *world) sureOf(n *node, v *view, account string) int64 {
	var present, earlier int64
	for _, other := range w.nodes {
		var known int64
		for _, c := range w.ledger[account] {
			switch {
			case c.node != n || c.back || !v.stands(c) || !w.sure(v, account, c) || !other.knows(v, c, account):
			case c.run != n.run:
				known += c.cost
			case other == n:
				present += c.cost
			}
		}
		earlier = max(earlier, known)
	}
	return present + earlier
}

func (v *view) exempt() bool { return v.terms.exempt }

// owed is when all charges of some are paid off at a steady rate.
func (v *view) owed(charges []*charge, of func(*charge) bool) (owed int64) {
	charges = slices.Clone(charges)
	slices.SortStableFunc(charges, func(a, b *charge) int { return int(a.at - b.at) })
	for _, c := range charges {
		if of(c) {
			owed = min(max(owed, c.at)+cost(c.cost, &v.terms), c.at+2*v.terms.whole)
		}
	}
	return owed
}

// checkRefusal checks that who is refused is over the limit by all that was granted anywhere.
func (n *node) checkRefusal(v *visit) {
	w := n.world
	for _, view := range n.look(v.account) {
		if view.Name != v.answer.Rule || view.way == level || len(n.line) > 0 || view.contested ||
			view.terms.extra != 0 {
			continue // or it is kept for those in line, or it is the turn of others
		}
		now, sum := view.now, v.cost
		counts := func(c *charge) bool { return view.counts(c, w.slack) }
		limit := view.limit(&view.terms, now)
		switch {
		case view.Kind == Idle, view.way == steady:
			if view.terms.limit == 0 || view.Kind != Idle && w.faults {
				return
			}
			var owed int64
			for _, c := range w.ledger[v.account] {
				if counts(c) {
					owed = max(owed, c.at) + cost(c.cost, &view.terms)
				}
			}
			if over := owed + cost(v.cost, &view.terms) - view.terms.whole - now; over < -int64(2*w.slack+TellEvery) {
				w.t.Fatalf("%s: %s is refused %s too late", n.Name, v.account, time.Duration(-over))
			}
			return
		default:
			for _, c := range w.ledger[v.account] {
				if view.stands(c) && counts(c) {
					sum += c.cost
				}
			}
			if view.way == inStretches {
				limit = view.terms.most()
			}
		}
		if sum <= limit {
			w.t.Fatalf("%s at %s: %s is refused by %s, and %d were granted of %d", n.Name,
				n.FarmTime().Format("05.000"), v.account, view.Name, sum-v.cost, limit)
		}
	}
}

// agree checks that after quiet all nodes show the same, and what was granted.
func (w *world) agree() {
	for _, account := range slices.Sorted(maps.Keys(w.ledger)) {
		views := map[*node][]view{}
		for _, n := range w.nodes {
			views[n] = n.look(account)
		}
		for i, r := range w.nodes[0].quota.rules.Load().list {
			if r.shared == nil || r.bytes {
				continue
			}
			w.agreeOn(account, i, views)
		}
	}
}

func (w *world) agreeOn(account string, i int, views map[*node][]view) {
	least, most, all := int64(math.MaxInt64), int64(math.MinInt64), []int64{}
	var one *view
	for _, n := range w.nodes {
		used := int64(0)
		if len(views[n]) > 0 {
			v := &views[n][i]
			if one != nil && v.slice() != one.slice() {
				return // clocks differ where a slice begins
			}
			if one == nil || v.reset > one.reset {
				one = v
			}
			switch used = v.state.used + v.state.others; v.way {
			case steady:
				used = max(0, v.state.start-v.now)
			case level:
				if v.state.used != 0 {
					w.t.Fatalf("%s: %d are still under way", n.Name, v.state.used)
				}
			}
		}
		least, most, all = min(least, used), max(most, used), append(all, used)
	}
	if one == nil {
		return
	}
	switch one.way {
	case steady:
		if one.Kind == Idle || !w.faults {
			if most-least > int64(2*w.slack+TellEvery) {
				w.t.Fatalf("%s owes %d under %s", account, all, one.Name)
			}
		}
		return
	case level:
		if most != 0 {
			w.t.Fatalf("%s has %d at once under %s", account, all, one.Name)
		}
		return
	}
	if least != most {
		w.t.Fatalf("%s has used %d under %s", account, all, one.Name)
	}
	var sure, maybe int64
	for _, c := range w.ledger[account] {
		if one.stands(c) && one.counts(c, w.slack) && (!c.back || c.run != c.node.run) {
			maybe += c.cost
		}
	}
	for _, n := range w.nodes {
		sure += w.sureOf(n, one, account)
	}
	if least < sure || most > maybe {
		w.t.Fatalf("%s has used %d under %s, and was granted %d, perhaps %d", account, all, one.Name, sure, maybe)
	}
}
