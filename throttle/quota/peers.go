package quota

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// peers is what this node knows of the use that the other nodes of a farm make of one limit of one account, and what it
// must know of its own use to tell them.
//
// Each node tells running totals: of a period, of a part of a sliding window, or since it began to count at a steady
// rate. Of two that it told the later one counts, so that they may come late, twice and in any order.
type peers struct {
	list    []peer // by name
	waiting int64  // who waits at other nodes, by cost
	told    int64  // who waits here, as the others were told
	race    *race  // nil while nobody races for what is left
	reset   int64  // when an operator reset the account; what was told before does not count
	wiped   int64  // when this node took that in, by its clock: what it had charged by then is forgotten
	// What is known of this node's own use. Fixed requests: before is what its earlier runs used in the period that
	// starts at slice. Bytes in periods: total is what flowed here in that period, before what flowed in the last one.
	own     cell
	flown   int64                // bytes in periods: of the own total, what the others were told
	folded  cell                 // fixed requests: what nodes used that are forgotten
	earlier *ring                // sliding: what its earlier runs used
	theirs  *ring                // sliding: what all others used, of what stands in the window
	high    *[buckets + 1]uint32 // of the parts in the ring: what 32 bits do not hold; nil while they do
}

// A cell is a running total of one slice of time.
//
//   - fixed requests: the slice is a period by its start; before is what earlier runs of the node used.
//   - bytes in periods: the same; before is the total of the period before.
//   - sliding: the slice is a part of the window by its number; before is what earlier runs used.
//   - steady: the slice is when the node began to count, and the total the time that it takes up; before is when the
//     node thinks that all is paid off.
//   - level: only the total.
type cell struct{ slice, before, total int64 }

// A peer is another node.
type peer struct {
	node    *colleague
	boot    uint64 // its run
	at      int64  // when it told this, by its clock
	waiting int64
	cell
	last  cell // fixed requests: of the period before
	parts *parts
}

// parts are the parts of a sliding window as another node told them.
type parts struct {
	latest        int64 // the number of the newest
	total, before ring
	at            [buckets + 1]int64 // when it told each of them, by its clock: it tells only those that have changed
}

// A colleague is a node of the farm by its name, over all its runs.
type colleague struct {
	name   string
	boot   uint64
	run    atomic.Uint64 // the same, to be read at any time
	seq    uint64        // of its last message
	want   int64         // since when it wants to be told everything
	gap    int64         // when a message of it was last missed, by its clock
	gone   atomic.Bool   // it cannot be heard
	silent atomic.Bool   // it has said nothing since it came back: it may be another run
	snap   arriving
}

// arriving is the last snapshot of a node.
type arriving struct {
	at   int64 // when it was made, by the node's clock
	have [maxParts / 64]uint64
	left int64 // how many parts it has; -1 while that is not known
}

func (st *state) peers() *peers {
	if st.ring == nil {
		return nil
	}
	return st.ring.peers
}

// meet returns the peers of a state, to be filled in. A sliding window has begun.
func (st *state) meet() *peers {
	if st.ring == nil {
		st.ring = new(ring)
	}
	return st.ring.meet()
}

// contested reports whether somebody waits at another node, or several nodes use the limit up fast.
func (st *state) contested() bool {
	p := st.peers()
	return p != nil && (p.waiting > 0 || p.race != nil)
}

// racing reports whether several nodes use the limit up fast.
func (st *state) racing() bool {
	p := st.peers()
	return p != nil && p.race != nil
}

// expects reports whether something is to come that needs the state.
func (st *state) expects() bool {
	p := st.peers()
	return p != nil && (p.waiting > 0 || p.reset != 0)
}

// countTime counts what this node charges at a steady rate, by the time that it takes up.
func (st *state) countTime(now, d int64) {
	if sum := st.others + d; st.used == 0 || sum > maxFigure || sum < -maxFigure {
		st.used, st.others = max(1, now), 0 // it begins to count anew
	}
	st.others += min(d, maxFigure)
}

// countBytes counts bytes that this node charges in the current period.
func (st *state) countBytes(n int64) {
	p := st.meet()
	p.own.enter(st.start)
	p.own.total = min(max(0, p.own.total+n), maxFigure)
}

// enter makes a period the current one of bytes that are counted.
func (c *cell) enter(start int64) {
	if c.slice != start {
		*c = cell{slice: start, before: c.total}
	}
}

// restored notes that n of what is used in the current period were used by earlier runs of this node.
func (st *state) restored(n int64) {
	p := st.meet()
	if p.own.slice != st.start {
		p.own = cell{slice: st.start}
	}
	p.own.before += n
}

// remember notes what earlier runs used in a part of a sliding window.
func (p *peers) remember(bucket, n int64) {
	if p.earlier == nil {
		p.earlier = new(ring)
	}
	at := ringSlot(bucket)
	p.earlier.set(at, p.earlier.at(at)+n)
}

// own is what this node used in a part, with its earlier runs.
func (g *ring) own(slot int64) int64 {
	if g.peers == nil || g.peers.theirs == nil {
		return g.at(slot)
	}
	return max(0, g.at(slot)-g.peers.theirs.at(slot))
}

// forget drops a part of a sliding window that is over.
func (p *peers) forget(gone int64) {
	if p.theirs != nil {
		p.theirs.set(gone, 0)
	}
	if p.earlier != nil {
		p.earlier.set(gone, 0)
	}
}

// of returns what is known of a node, made if need be.
func (p *peers) of(c *colleague) *peer {
	if e := p.find(c); e != nil {
		return e
	}
	i, found := slices.BinarySearchFunc(p.list, c, func(have peer, want *colleague) int {
		return cmp.Compare(have.node.name, want.name)
	})
	switch {
	case found:
		p.list[i].node = c // it was forgotten meanwhile
	case len(p.list) >= maxColleagues:
		p.fold()
		return p.of(c)
	default:
		p.list = slices.Insert(p.list, i, peer{node: c})
	}
	return &p.list[i]
}

// fold forgets the node that told something the longest time ago, of those that are gone if there are any. What it has
// used stays used.
func (p *peers) fold() {
	oldest := 0
	for i := range p.list {
		e, o := &p.list[i], &p.list[oldest]
		if gone := e.node.gone.Load(); gone == o.node.gone.Load() && e.at < o.at || gone && !o.node.gone.Load() {
			oldest = i
		}
	}
	if e := &p.list[oldest]; e.slice > p.folded.slice {
		p.folded = cell{slice: e.slice, total: e.before + e.total}
	} else if e.slice == p.folded.slice {
		p.folded.total = add(p.folded.total, e.before+e.total)
	}
	p.list = slices.Delete(p.list, oldest, oldest+1)
}

// recount works out anew what the others have used and how many wait there.
func (r *rule) recount(st *state, t *terms) {
	p := st.peers()
	if p == nil {
		return
	}
	if r.way != steady {
		p.dropReset(r.resetMatters(st))
	}
	if r.shared == nil {
		return
	}
	p.waiting = 0
	// Each node that cannot be heard has a part of the limit that this one does not grant. Whether those nodes hear
	// each other is not known. So what each of them has used above its part counts here, and what they have used above
	// all of their parts.
	limit, part := r.limit(t, st.start), int64(0)
	if limit < t.undivided && r.share.of > 0 {
		part = t.undivided / r.share.of
	}
	var up, gone, over int64
	if p.folded.slice == st.start {
		gone, over = p.folded.total, p.folded.total
	}
	for i := range p.list {
		e := &p.list[i]
		p.waiting += e.waiting
		if n := e.used(r, st); e.node.gone.Load() {
			gone += n
			over += max(0, n-part)
		} else {
			up += n
		}
	}
	switch {
	case r.way == inPeriods && !r.bytes:
		st.others = up + max(over, gone-(t.undivided-limit))
	case r.way == level:
		st.others = up
	case r.way == inStretches:
		st.others = 0
	}
}

// dropReset forgets a reset before a time: everything that was told before the reset is over as well.
func (p *peers) dropReset(since int64) {
	if p.reset < since {
		p.reset = 0
	}
}

// used is what a node has used that is not in the window already: of the current period, or at once.
func (e *peer) used(r *rule, st *state) int64 {
	switch {
	case r.way == level:
		return e.total
	case r.way != inPeriods || r.bytes:
		return 0
	case e.slice == st.start:
		return e.before + e.total
	case e.last.slice == st.start:
		return e.last.before + e.last.total
	}
	return 0
}

// A telling is what one run of a node told about one limit of an account.
type telling struct {
	from    *colleague
	boot    uint64
	at      int64
	waiting int64
	reset   int64
	cells   []cell
}

// merge takes in what another node told. It reports whether anything has changed. The state has been rolled to now.
func (r *rule) merge(st *state, t *terms, w *telling, now int64) (changed bool) {
	if r.way == inStretches && st.ring == nil {
		r.begin(st, now)
	}
	p := st.meet()
	if w.reset < p.reset { // it does not know of the reset yet
		w.cells = slices.DeleteFunc(w.cells, func(c cell) bool { return r.begins(c.slice) <= p.reset })
	}
	if w.from == r.shared.self {
		return r.mergeOwn(st, p, w)
	}
	e := p.of(w.from)
	newer := w.boot > e.boot || w.boot == e.boot && w.at > e.at
	volume := r.bytes && r.way == inPeriods
	known := e.at > 0 && (w.boot == e.boot || volume && w.boot > e.boot)
	if w.boot > e.boot {
		e.anew(r, w.boot)
	}
	for i, c := range w.cells {
		switch {
		case volume && i > 0: // what the node knows that all have used
			if !known && c.slice == st.start {
				st.used = max(st.used, c.total)
			}
		case r.way == steady:
			if newer {
				r.mergeSteady(st, t, e, c, known, w.at, now)
			}
		case r.way == level:
			if newer {
				e.total = c.total
			}
		case r.way == inStretches:
			r.mergePart(st, e, c, w, now)
		case r.bytes:
			if newer {
				r.mergeBytes(st, e, c, known)
			}
		default:
			e.mergePeriod(c, w.boot, newer)
		}
	}
	if newer {
		e.boot, e.at, e.waiting = w.boot, w.at, w.waiting
	}
	r.recount(st, t)
	return true
}

// begins is when a slice begins.
func (r *rule) begins(slice int64) int64 {
	if r.way == inStretches {
		return mul(slice, r.bucket)
	}
	return slice
}

// began is when the first charge may have been made that counts.
func (r *rule) began(st *state) int64 {
	switch r.way {
	case inStretches:
		return r.begins(max(0, st.start-buckets))
	case steady:
		return st.used
	}
	return st.start
}

// resetMatters returns the time before which a reset no longer matters. A debt of bytes outlives its period.
func (r *rule) resetMatters(st *state) int64 {
	if r.way == inPeriods && r.bytes {
		return st.start - (st.end - st.start)
	}
	return r.began(st)
}

// anew makes what a node used before that of earlier runs.
func (e *peer) anew(r *rule, boot uint64) {
	e.boot = boot
	switch {
	case r.way == inStretches && e.parts != nil:
		e.parts.end()
	case r.way == inPeriods && !r.bytes:
		e.before, e.total = e.before+e.total, 0
		e.last.before, e.last.total = e.last.before+e.last.total, 0
	case r.way == inPeriods: // it counts from nothing
		e.cell = cell{}
	}
}

// mergePeriod takes in what a node used in a period.
func (e *peer) mergePeriod(c cell, boot uint64, newer bool) {
	switch {
	case newer && c.slice > e.slice:
		e.last = e.cell
		e.cell = c
	case c.slice != e.slice:
	case newer:
		e.before, e.total = max(e.before, c.before), c.total
	case boot < e.boot:
		e.before = max(e.before, c.before+c.total)
	default:
		e.before = max(e.before, c.before)
	}
}

// mergePart takes in what a node used in a part of a sliding window.
func (r *rule) mergePart(st *state, e *peer, c cell, w *telling, now int64) {
	if c.slice > st.start && c.slice-st.start <= buckets { // its clock is ahead: the window goes on with it
		r.roll(st, &r.base, max(now, r.begins(c.slice)))
	}
	if c.slice > st.start || st.start-c.slice > buckets {
		return
	}
	if e.parts == nil {
		e.parts = &parts{latest: st.start}
	}
	e.parts.roll(st.start)
	at := ringSlot(c.slice)
	total, before := e.parts.total.at(at), e.parts.before.at(at)
	switch {
	case w.boot < e.boot:
		before = max(before, c.before+c.total)
	case w.at > e.parts.at[at]:
		before, total, e.parts.at[at] = max(before, c.before), c.total, w.at
	default:
		before = max(before, c.before)
	}
	r.part(st, e, at, max(0, total), before)
}

// part counts what a node used in a part, where it counted something else before.
func (r *rule) part(st *state, e *peer, at, total, before int64) {
	diff := total + before - e.parts.total.at(at) - e.parts.before.at(at)
	e.parts.total.set(at, total)
	e.parts.before.set(at, before)
	p := st.peers()
	if p.theirs == nil {
		p.theirs = new(ring)
	}
	p.theirs.set(at, max(0, p.theirs.at(at)+diff))
	st.ring.set(at, max(0, st.ring.at(at)+diff))
	st.used = max(0, st.used+diff)
}

// roll drops parts that are over.
func (p *parts) roll(latest int64) {
	if latest-p.latest > buckets {
		*p = parts{latest: latest}
	}
	for p.latest < latest {
		p.latest++
		p.total.set(ringSlot(p.latest), 0)
		p.before.set(ringSlot(p.latest), 0)
		p.at[ringSlot(p.latest)] = 0
	}
}

// end makes what a run used that of an earlier one.
func (p *parts) end() {
	for at := range int64(buckets + 1) {
		p.before.set(at, p.before.at(at)+p.total.at(at))
		p.total.set(at, 0)
		p.at[at] = 0
	}
}

// justNow is how long ago a node may have begun to count for all that it counted to be new.
const justNow = int64(time.Second)

// lately is how long ago a node may have told something for what it told since to be new, though messages were missed.
const lately = int64(100 * time.Millisecond)

// mergeSteady takes in what a node charged at a steady rate. What is known to be new is charged at the time at which it
// was told. After a gap nobody knows when it was charged: then what the node thinks that is owed must do.
func (r *rule) mergeSteady(st *state, t *terms, e *peer, c cell, known bool, at, now int64) {
	most := int64(never)
	if !r.bytes { // all together may owe another burst
		most = add(now, add(t.whole, t.whole))
	}
	owed := min(c.before, most)
	switch same := known && e.slice == c.slice; {
	case r.Kind == Idle:
		st.start = max(st.start, owed)
	case same && (e.at >= e.node.gap || at-e.at <= lately), !same && at-c.slice <= justNow:
		n := c.total
		if same {
			n -= e.total
		}
		switch {
		case n > 0:
			st.start = max(st.start, min(add(max(st.start, min(at, now)), n), most))
		case n < 0:
			st.start -= min(-n, max(0, st.start-now))
		}
	default:
		st.start = max(st.start, owed)
	}
	e.cell = c
}

// mergeBytes takes in what flowed through a node. The debt is common.
func (r *rule) mergeBytes(st *state, e *peer, c cell, known bool) {
	var had, hadBefore int64 // of the same periods
	switch {
	case known && e.slice == c.slice:
		had, hadBefore = e.total, e.before
	case known && c.slice > e.slice:
		hadBefore = e.total
	}
	e.cell = c
	switch {
	case c.slice == st.start:
		if late := c.before - hadBefore; known && late > 0 && st.used > 0 {
			st.used = add(st.used, late)
		}
		if known {
			st.used = max(0, add(st.used, c.total-had))
			return
		}
		// It is not known what of it is counted here already.
		sum := st.ring.peers.own.total
		for i := range st.ring.peers.list {
			if o := &st.ring.peers.list[i]; o.slice == st.start {
				sum = add(sum, o.total)
			}
		}
		st.used = max(st.used, sum)
	case st.used > 0 && known && c.total > had: // of a period that is over: it is still a debt
		st.used = add(st.used, c.total-had)
	}
}

// mergeOwn takes in what other nodes know of this one's earlier runs.
func (r *rule) mergeOwn(st *state, p *peers, w *telling) (changed bool) {
	for _, c := range w.cells {
		n := c.before
		if w.boot != r.shared.boot {
			n += c.total
		}
		switch {
		case r.way == inPeriods && !r.bytes && c.slice == st.start:
			if p.own.slice != c.slice {
				p.own = cell{slice: c.slice}
			}
			if n > p.own.before {
				st.used += n - p.own.before
				p.own.before = n
				changed = true
			}
		case r.way == inStretches && c.slice <= st.start && st.start-c.slice <= buckets:
			at, known := ringSlot(c.slice), int64(0)
			if p.earlier != nil {
				known = p.earlier.at(at)
			}
			if n > known {
				p.remember(c.slice, n-known)
				st.ring.set(at, st.ring.at(at)+n-known)
				if r.kept { // the store may have lost it
					st.ring.changed |= 1 << at
				}
				st.used += n - known
				changed = true
			}
		case r.way == steady && w.boot != r.shared.boot:
			st.start = max(st.start, c.before)
		}
	}
	return changed
}

// lose takes in that runs of a node before one are over, or cannot be heard. It reports whether that changes anything.
func (r *rule) lose(st *state, t *terms, c *colleague, before uint64) bool {
	e := st.peer(c)
	if e == nil || e.boot >= before {
		return false
	}
	if e.waiting = 0; r.way == level {
		e.total = 0
	}
	r.recount(st, t)
	return true
}

// lower takes in that a node that said everything there is at a time did not speak of this. It reports whether that
// changes anything.
func (r *rule) lower(st *state, t *terms, c *colleague, made int64) bool {
	e := st.peer(c)
	if e == nil || e.boot != c.boot {
		return false
	}
	// What is over by the node's clock it does not speak of. By this one's it may still count.
	if r.way == inStretches && e.parts != nil { // of an account it speaks only of the parts with something in them
		e.parts.roll(st.start)
		for b := max(0, st.start-buckets, made/r.bucket+1-buckets); b <= st.start; b++ {
			if at := ringSlot(b); e.parts.at[at] < made {
				r.part(st, e, at, 0, e.parts.before.at(at))
			}
		}
	}
	if e.at < made {
		e.waiting = 0
		if r.way == level || r.way == inPeriods && !r.bytes && (e.slice != st.start || made < st.end) {
			e.total = 0
		}
	}
	r.recount(st, t)
	return true
}

// peer returns what is known of a node, or nil.
func (st *state) peer(c *colleague) *peer {
	p := st.peers()
	if p == nil {
		return nil
	}
	return p.find(c)
}

// find returns what is known of a node, or nil. Counters are heard all the time, so that nothing is copied or compared
// byte by byte here.
func (p *peers) find(c *colleague) *peer {
	for i := range p.list {
		if p.list[i].node == c {
			return &p.list[i]
		}
	}
	return nil
}
