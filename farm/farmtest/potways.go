package farmtest

import (
	"maps"
	"math"
	"slices"
	"time"

	"weir/farm"
)

// buckets is how many buckets a sliding window has besides the current one.
const buckets = 16

// adopt takes over the state in the node's mark if that is newer than the engine's. The run may have returned some of
// what the mark counts for it, by a call whose reply was lost. So only what it has used is certain to be in the sum.
// open says when all of it is.
func (c *call) adopt(w *wanted) {
	r, m := w.rule, w.mark
	if r.closing != c.engine {
		r.said = map[string]int64{}
	}
	if m.ver == 0 || w.Way == farm.Level {
		return
	}
	if m.ver > r.ver {
		r.ver = m.ver
		switch b := m.body; { // see answer
		case w.Way == farm.Fixed && len(b) == 4:
			r.start, r.end, r.sum = m.slice, b[2], b[3]
			r.keepSaid(m, 0)
		case w.Way == farm.Sliding && len(b) == buckets+3:
			r.bucket, r.sums = m.slice, map[int64]int64{}
			for i, n := range b[2:] {
				r.sums[m.slice-buckets+int64(i)] = n
			}
			r.keepSaid(m, buckets)
		case w.Way == farm.Steady && len(b) == 1:
			r.at, r.limit = c.now, w.Limit
			r.owed = float64(max(0, b[0]-c.now))
		}
	}
	if w.Way == farm.Steady {
		r.hold(c.now, w.life)
	}
	if w.counts() {
		r.own[c.ask.Run], r.said[c.ask.Run] = w.told(), m.own
	}
}

// keepSaid forgets what runs have that have not said so themselves, and what is older than a mark by some slices.
func (r *memRule) keepSaid(m *mark, slices int64) {
	r.changes = m.body[1]
	maps.DeleteFunc(r.own, func(run string, own memOwn) bool {
		_, said := r.said[run]
		return !said || own.slice < m.slice-slices || slices == 0 && own.slice != m.slice
	})
}

// counts reports whether what the run has by its mark is in the rule's window.
func (w *wanted) counts() bool {
	switch w.Way {
	case farm.Fixed:
		return w.mark.slice == w.rule.start
	case farm.Sliding:
		return w.mark.slice >= w.rule.bucket-buckets
	}
	return true
}

// told is what the run has for certain by its mark.
func (w *wanted) told() memOwn {
	had := min(w.mark.own, w.Used)
	own := memOwn{slice: w.mark.slice, total: had, used: had}
	if w.Way <= farm.Sliding && len(w.mark.body) > 1 && w.counts() {
		own.changes = w.mark.body[0]
	}
	return own
}

// open opens the rule under an engine. If all changes are known to the runs that they concern, what each had by its
// mark is in the sum, and it gets back what it has not spent.
func (r *memRule) open(engine string) {
	known := int64(0)
	for _, own := range r.own {
		known += own.changes
	}
	for run, own := range r.own {
		if known == r.changes && own.changes > 0 {
			own.total = max(own.total, r.said[run])
			r.own[run] = own
		}
	}
	r.engine, r.closing, r.told, r.said = engine, "", nil, nil
}

// hold notes that what is taken now may be spent until life is over.
func (r *memRule) hold(now, life int64) {
	if now < r.held {
		life = max(life, r.heldLife)
	}
	r.held, r.heldLife = max(r.held, now+life), life
}

// roll brings the rule up to now. It reports whether now is inside of the want's period.
func (c *call) roll(w *wanted) bool {
	r := w.rule
	switch w.Way {
	case farm.Fixed:
		if r.end > 0 && c.now < r.end && r.start-c.now <= r.end-r.start {
			return true
		}
		start := int64(0)
		end := w.End.UnixMicro()
		if w.period > 0 {
			start = c.now / w.period * w.period
			end = start + w.period
		} else if start = w.Start.UnixMicro(); c.now < start || c.now >= end {
			return false
		}
		if r.end > 0 && r.end <= c.now {
			start = max(start, r.end)
		}
		r.start, r.end, r.sum, r.own, r.changes = start, end, 0, map[string]memOwn{}, 0
	case farm.Sliding:
		at := c.now / w.len
		if at > r.bucket {
			r.bucket = at
		} else if r.bucket-at > buckets+1 {
			r.bucket, r.sums, r.own = at, map[int64]int64{}, map[string]memOwn{}
		}
		maps.DeleteFunc(r.sums, func(b, _ int64) bool { return b < r.bucket-buckets })
		maps.DeleteFunc(r.own, func(_ string, own memOwn) bool {
			over := own.slice < r.bucket-buckets
			if over {
				r.changes = max(0, r.changes-own.changes)
			}
			return over
		})
	case farm.Steady:
		if r.limit != w.Limit && w.Limit > 0 {
			if r.limit > 0 {
				r.owed = min(r.owed*float64(r.limit)/float64(w.Limit), most)
			}
			r.limit = w.Limit
		}
		if c.now > r.at {
			r.owed = max(0, r.owed-float64(c.now-r.at))
		}
		if c.now > r.at || r.at-c.now > step {
			r.at = c.now
		}
	case farm.Level:
		maps.DeleteFunc(r.own, func(_ string, o memOwn) bool { return o.life <= c.now })
	}
	return true
}

// windowStart is when the rule's window began, by a clock that may be behind by step: what was granted earlier does not
// count.
func (c *call) windowStart(w *wanted) int64 {
	r := w.rule
	switch w.Way {
	case farm.Fixed:
		return r.start - step
	case farm.Sliding:
		return (r.bucket-buckets)*w.len - step
	case farm.Steady:
		return c.time - int64(2*w.cost(w.Burst)) - step
	default:
		return c.time - step
	}
}

// noteTold notes that the calling node has told what it knows of a rule that a new engine has closed. The rule opens
// when all nodes have told, or when all that counts was granted by the new engine.
func (c *call) noteTold(w *wanted) {
	r := w.rule
	open := c.windowStart(w) > c.birth
	if !open {
		if r.closing != c.engine {
			r.closing, r.told = c.engine, map[string][]string{}
		}
		list := append([]string{}, c.ask.Nodes...)
		if w.Unknown {
			list = append(list, unknown)
		}
		r.told[farm.Home(c.ask.Run)] = list
		waiting := map[string]bool{}
		c.untold(r, waiting)
		open = len(waiting) == 0
		r.until = max(r.until, c.now+step)
		if w.Way == farm.Level && w.Used > 0 {
			r.own[c.ask.Run] = memOwn{total: w.Used, life: c.now + w.life}
		}
	}
	if open {
		r.open(c.engine)
	}
}

// noteRest notes that the calling node knows nothing of the other limits of the key: it has told all that it knows.
func (c *call) noteRest(stale bool) {
	for _, r := range c.key.rules {
		wanted := slices.ContainsFunc(c.wants, func(w *wanted) bool { return w.rule == r })
		if r.closing == c.engine && !stale && !wanted {
			r.told[farm.Home(c.ask.Run)] = append([]string{}, c.ask.Nodes...)
		}
	}
}

// unknown is in the list of a node that cannot tell what was granted. No node has this name, so nobody ever tells it.
const unknown = "?"

// untold adds to a set the nodes that have yet to tell what they know of a closed rule: those that the caller names,
// and those that were named when the caller, or a node that it names, told what it knew.
func (c *call) untold(r *memRule, set map[string]bool) {
	check := func(entry string) (node string) {
		node, excused := farm.Excuse(entry, c.engine, c.birth)
		if r.told[node] == nil && !excused {
			set[node] = true
		}
		return node
	}
	known := []string{farm.Home(c.ask.Run)}
	for _, entry := range c.ask.Nodes {
		known = append(known, check(entry))
	}
	for _, node := range known {
		for _, entry := range r.told[node] {
			check(entry)
		}
	}
}

// cost is how long n take up at the steady rate, in microseconds. It is rounded up to 1/1024, so that sums are exact.
func (w *wanted) cost(n int64) float64 {
	if w.Limit == 0 {
		return most
	}
	return min(most, math.Ceil(float64(n)*float64(w.period)/float64(w.Limit)*1024)/1024)
}

// settle works out what this run has of the current slice (cur), what it has used of that (used), and how many more
// fit. Unless it only looks, it counts just what was used: the rest is returned.
func (c *call) settle(w *wanted, look bool) {
	r := w.rule
	own, known := r.own[c.ask.Run]
	if !known && w.mark.ver > 0 && (w.Way == farm.Fixed || w.Way == farm.Sliding) {
		if own = w.told(); !look { // it was forgotten to make room
			r.changes += own.changes
		}
	}
	w.own = own
	switch w.Way {
	case farm.Fixed:
		if own.slice == r.start {
			w.cur = own.total
		}
		if w.mark.slice == r.start {
			w.used = w.Used
		}
		if !look {
			r.sum = max(0, r.sum+w.used-w.cur)
		}
		w.fits = w.Limit - r.sum
	case farm.Sliding:
		c.settleBuckets(w, own, look)
	case farm.Steady:
		c.settleSteady(w, own, known, look)
	case farm.Level:
		w.cur, w.used = own.total, w.Used
		w.fits = w.Limit - w.used
		for run, other := range r.own {
			if run != c.ask.Run {
				w.fits -= other.total
			}
		}
	}
}

// forget starts a limit anew. No run is known any more. When one calls again, settle takes from its mark what it had
// been granted, and counts only what it has used beyond that.
func (c *call) forget(w *wanted) {
	r := w.rule
	r.own, w.used, w.cur, w.fits = map[string]memOwn{}, 0, 0, w.Limit
	w.own = memOwn{}
	r.changes++ // nobody knows of it
	switch w.Way {
	case farm.Fixed:
		r.sum = 0
	case farm.Sliding:
		r.sums = map[int64]int64{}
	case farm.Steady:
		r.owed, w.own = 0, memOwn{slice: c.now}
		w.fits = w.steadyFits(c.room(w))
	}
}

func (c *call) settleBuckets(w *wanted, own memOwn, look bool) {
	r := w.rule
	if own.slice == r.bucket {
		w.cur = own.total
	}
	if w.mark.slice == r.bucket {
		w.used = w.Used
	}
	if !look {
		if own.slice != r.bucket && own.slice >= r.bucket-buckets {
			used := own.used // the node does not know of this slice, or has heard of a later one
			if own.slice == w.mark.slice {
				used = w.Used
			}
			r.sums[own.slice] = max(0, r.sums[own.slice]+used-own.total)
		}
		r.sums[r.bucket] = max(0, r.sums[r.bucket]+w.used-w.cur)
	}
	w.fits = w.Limit
	for _, n := range r.sums {
		w.fits -= n
	}
}

func (c *call) settleSteady(w *wanted, own memOwn, known, look bool) {
	r := w.rule
	w.cur, w.own = own.total, own
	used := own.used
	if !known {
		w.own.slice = c.now
	} else if own.slice == w.mark.slice {
		w.used, used = w.Used, w.Used
	}
	if !look && known {
		// Of what is returned, the part that was paid off since it was granted is not free again.
		if back := own.total - used; back >= 0 {
			r.owed = max(0, r.owed-max(0, w.cost(back)-float64(c.now-own.at)))
		} else {
			r.owed = min(most, r.owed+w.cost(-back))
		}
	}
	w.fits = w.steadyFits(c.room(w))
}

// room is how much more may be owed. It is less by life, as what was taken ahead may be spent as late as that, together
// with what is taken then.
func (c *call) room(w *wanted) float64 {
	life := w.life
	if c.now < w.rule.held {
		life = max(life, w.rule.heldLife)
	}
	return w.cost(w.Burst) - float64(life) - w.rule.owed
}

// steadyFits is how many fit into room at the steady rate.
func (w *wanted) steadyFits(room float64) int64 {
	if room <= 0 || w.Limit == 0 {
		return 0
	}
	n := min(int64(room*float64(w.Limit)/float64(w.period)), w.Burst)
	for n > 0 && w.cost(n) > room {
		n--
	}
	return n
}

// wait is how long until what is needed fits, in microseconds, if nobody returns anything.
func (c *call) wait(w *wanted) int64 {
	r := w.rule
	whole := w.Limit
	if w.Way == farm.Steady {
		whole = w.steadyFits(w.cost(w.Burst) - float64(w.life))
	}
	if w.Need > whole {
		return never
	}
	switch w.Way {
	case farm.Fixed:
		return r.end - c.now
	case farm.Sliding:
		b := r.bucket - buckets
		for free := w.fits + r.sums[b]; free < w.Need && b < r.bucket; free += r.sums[b] {
			b++
		}
		return (b+buckets+1)*w.len - c.now
	case farm.Steady:
		wait := int64(math.Ceil(w.cost(w.Need) - c.room(w)))
		if w.cost(w.Need) > c.room(w)+r.owed {
			wait = r.held - c.now
		}
		return max(1, wait)
	default:
		wait := step
		for run, o := range r.own {
			if run != c.ask.Run {
				wait = min(wait, o.life-c.now)
			}
		}
		return wait
	}
}

// grant makes what this run has n more than what it has used.
func (c *call) grant(w *wanted, n int64) {
	r := w.rule
	r.ver = max(r.ver+1, c.now)
	w.fits -= n
	w.cur = w.used + n
	own := memOwn{total: w.cur, used: w.used}
	switch w.Way {
	case farm.Fixed:
		r.sum += n
		own.slice, r.until = r.start, r.end
		r.change(&own, w.own)
	case farm.Sliding:
		r.sums[r.bucket] += n
		own.slice, r.until = r.bucket, (r.bucket+buckets+1)*w.len
		r.change(&own, w.own)
	case farm.Steady:
		own.slice, own.at, own.life = w.own.slice, w.own.at, w.own.life
		if n > 0 {
			r.owed = min(most, r.owed+w.cost(n))
			own.at, own.life = c.now, w.life
			r.hold(c.now, w.life)
		}
		w.own = own
		r.until = max(r.until, c.now+int64(r.owed)+step)
	case farm.Level:
		if own.life = c.now + w.life; w.cur == 0 {
			delete(r.own, c.ask.Run)
			return
		}
		r.until = max(r.until, own.life)
	}
	r.own[c.ask.Run] = own
}

// change counts a change of what a run had.
func (r *memRule) change(own *memOwn, had memOwn) {
	own.changes = had.changes
	if own.total != had.total || own.slice != had.slice && own.total > 0 {
		own.changes++
		r.changes++
	}
}

// answer says what this run has now.
func (c *call) answer(w *wanted, look bool) farm.Grant {
	r := w.rule
	g := farm.Grant{Total: w.cur, Left: max(0, w.fits)}
	own := r.own[c.ask.Run]
	m := mark{ver: r.ver, own: w.cur}
	var lasts int64
	switch w.Way {
	case farm.Fixed:
		g.Slice, g.Others, lasts = r.start, r.sum-w.cur, r.end-c.now
		m.body = []int64{own.changes, r.changes, r.end, r.sum}
	case farm.Sliding:
		g.Slice, lasts = r.bucket, (r.bucket+1)*w.len-c.now
		g.Others, m.body = -w.cur, []int64{own.changes, r.changes}
		for b := r.bucket - buckets; b <= r.bucket; b++ {
			g.Others += r.sums[b]
			m.body = append(m.body, r.sums[b])
		}
	case farm.Steady:
		g.Slice, lasts = w.own.slice, max(0, w.own.at+w.own.life-c.now)
		g.Left = w.steadyFits(c.room(w))
		m.body = []int64{r.at + int64(math.Ceil(r.owed))}
	case farm.Level:
		g.Others = w.Limit - w.fits - w.cur
		if lasts = w.life; look {
			g.Others = w.Limit - w.fits - w.used
			lasts = max(0, r.own[c.ask.Run].life-c.now)
		}
	}
	if m.slice = g.Slice; own.slice == m.slice && w.Way <= farm.Sliding {
		m.own = max(m.own, r.said[c.ask.Run]) // where it is closed
	}
	g.For, g.Mark = time.Duration(lasts)*time.Microsecond, m.String()
	return g
}
