package outbreak

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAdversary: whoever chooses times, recipients, what is deleted, and the moments of restarts and reloads reaches,
// over any stretch of time, recipients outside the working set only as follows. A clock ticks at most once more than
// its period fits into the stretch.
//   - Mails to one that pass, and all that leave the queue: max_slack and one for each tick.
//   - Recipients of mails to several that pass, and all that leave the queue: max_mslack and one for each tick. With
//     two clocks, only those leave by a clock that are of its kind.
//   - No more than stop recipients wait, beside those of the mail that stopped the user; nothing passes or leaves while
//     the user is stopped.
//   - Messages without a sender: as many as null_rate says at once, and as many in each period.
//
// Whoever has credit left, or writes to somebody in the working set, is served at once: another user beside the
// adversary, and the adversary.
func TestAdversary(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := Params{
			WorkingSet: rapid.IntRange(0, 4).Draw(rt, "working set"), FIFO: rapid.Bool().Draw(rt, "fifo"),
			Slow: rapid.IntRange(1, 4).Draw(rt, "slow"), HoldLarge: rapid.Bool().Draw(rt, "hold large"),
		}
		if rapid.Bool().Draw(rt, "tried again") {
			p.Resume = time.Duration(rapid.IntRange(1, 40).Draw(rt, "resume")) * time.Second
		}
		w := &play{rt: rt, p: p, now: epoch, fresh: 1 << 32, users: []*user{{name: "adversary"}, {name: "innocent"}}}
		w.two = rapid.Bool().Draw(rt, "two clocks")
		w.reload()
		for range rapid.IntRange(1, 300).Draw(rt, "steps") {
			w.step()
		}
		// What waits is not lost, and leaves in the end.
		for _, u := range w.users {
			if u.s.Resume(&w.p, w.now, false); u.stopped {
				u.stopped, u.waiting = false, nil
			}
			for range u.waiting {
				w.pass(max(w.p.Every, w.p.MultiEvery))
			}
			if len(u.waiting) > 0 {
				rt.Fatalf("%d recipients of %s still wait", len(u.waiting), u.name)
			}
		}
	})
}

// A play is some users of one throttle.
type play struct {
	rt     *rapid.T
	p      Params
	now    time.Time
	fresh  uint64
	mail   uint64
	users  []*user
	raised [2]int // by how much reloads have raised max_slack and max_mslack, all in all: so many more may come at once
	two    bool   // clocks
	paces  []pace // as they were
}

// A pace is how fast the clocks are from a time on.
type pace struct {
	at    time.Time
	every [2]time.Duration
}

// fastest is the shortest period of a clock since a time.
func (w *play) fastest(kind int, since time.Time) time.Duration {
	every := w.paces[len(w.paces)-1].every[kind]
	for i, p := range w.paces[:len(w.paces)-1] {
		if !w.paces[i+1].at.Before(since) {
			every = min(every, p.every[kind])
		}
	}
	return every
}

// A user has a state, and what the test knows of it.
type user struct {
	name    string
	s       State
	sent    []sent
	nulls   []time.Time
	waiting []Item
	stopped bool
	credit  [2]int    // at least so much, of mails to one and to several
	quiet   time.Time // since when it grows: nobody waits, and the user is not stopped
}

// A sent is a recipient whose mail went on.
type sent struct {
	at     time.Time
	key    uint64
	single bool
	known  bool // was in the working set
	left   bool // the queue
	raised [2]int
	p      Params
}

func (w *play) step() {
	u := w.users[rapid.IntRange(0, 2).Draw(w.rt, "user")/2]
	switch rapid.IntRange(0, 11).Draw(w.rt, "step") {
	case 0, 1:
		w.pass(time.Duration(rapid.IntRange(0, 12_000).Draw(w.rt, "ms")) * time.Millisecond)
	case 2: // to the next tick, or just before it
		if due := u.s.Due(&w.p); !due.IsZero() {
			w.pass(due.Sub(w.now) - time.Duration(rapid.IntRange(0, 1).Draw(w.rt, "before")))
		}
	case 3:
		for _, key := range rapid.SliceOfN(rapid.Uint64Range(1, 6), 1, 4).Draw(w.rt, "to") {
			w.send(u, w.now, key)
		}
	case 4, 5: // as much as there is credit
		for range rapid.IntRange(1, 4).Draw(w.rt, "mails") {
			w.send(u, w.now, w.new(1)...)
		}
	case 6:
		w.send(u, w.now, rapid.SliceOfNDistinct(rapid.Uint64Range(1, 30), 2, 12, rapid.ID).Draw(w.rt, "several")...)
	case 7: // a mail that was held up on its way
		late := time.Duration(rapid.Int64Range(0, int64(min(w.p.Every, w.p.MultiEvery))).Draw(w.rt, "late"))
		w.send(u, w.now.Add(-late), w.new(rapid.IntRange(1, 3).Draw(w.rt, "some"))...)
	case 8:
		for range rapid.IntRange(1, 8).Draw(w.rt, "messages") {
			w.null(u)
		}
	case 9:
		u.s = *reread(w.rt, &u.s)
		tried := *reread(w.rt, &u.s) // a mail that a store did not take after all is as good as never sent
		tried.Submit(&w.p, w.now, 1<<40, w.new(2), nil, nil)
	case 10:
		w.intervene(u)
	case 11:
		w.reload()
		for _, u := range w.users {
			w.tick(u)
		}
	}
}

// new returns recipients nobody has written to.
func (w *play) new(n int) (keys []uint64) {
	for range n {
		w.fresh++
		keys = append(keys, w.fresh)
	}
	return keys
}

// pass lets time pass. What is due is done when it is due.
func (w *play) pass(d time.Duration) {
	for end := w.now.Add(max(0, d)); ; {
		next := end
		for _, u := range w.users {
			if due := u.s.Due(&w.p); !due.IsZero() && due.After(w.now) && due.Before(next) {
				next = due
			}
		}
		w.now = next
		for _, u := range w.users {
			w.tick(u)
		}
		if next.Equal(end) {
			return
		}
	}
}

// tick lets the clock of a user run.
func (w *play) tick(u *user) {
	_, before := u.s.Stopped()
	out := u.s.Tick(&w.p, w.now, nil)
	if before != u.stopped {
		w.rt.Fatalf("%s: %s stopped: %v, want %v", w.now.Sub(epoch), u.name, before, u.stopped)
	}
	if _, stopped := u.s.Stopped(); before && !stopped {
		u.stopped, u.quiet = false, w.now // tried again, in slow motion
		u.waiting, u.credit = nil, [2]int{}
	}
	for _, it := range out {
		at := slices.Index(u.waiting, it)
		if at < 0 || u.stopped {
			w.rt.Fatalf("%s: %+v of %s leaves, stopped: %v, waiting: %v", w.now.Sub(epoch), it, u.name, u.stopped,
				u.waiting)
		}
		u.waiting = slices.Delete(u.waiting, at, at+1)
		w.goesOn(u, sent{at: w.now, key: it.Key, single: it.Single, left: true})
	}
	if len(out) > 0 {
		u.quiet = w.now
	}
	u.grow(w)
}

// grow lets credit grow where nobody waits.
func (u *user) grow(w *play) {
	if len(u.waiting) > 0 || u.stopped {
		u.quiet = w.now
		return
	}
	every := max(w.p.Every, w.p.MultiEvery)
	if u.s.Slow() {
		every *= time.Duration(w.p.Slow)
	}
	if ticks := int(w.now.Sub(u.quiet) / every); ticks > 0 {
		u.credit = [2]int{min(u.credit[0]+ticks, w.p.MaxSlack), min(u.credit[1]+ticks, w.p.MaxMSlack)}
		u.quiet = w.now
	}
}

// send sends a mail that brings a time.
func (w *play) send(u *user, now time.Time, keys ...uint64) {
	w.tick(u)
	w.mail++
	fates := make([]Fate, len(keys))
	d := u.s.Submit(&w.p, now, w.mail, keys, nil, fates)
	single := len(keys) == 1
	if u.stopped {
		if !d.Refused {
			w.rt.Fatalf("%s is stopped: %+v", u.name, d)
		}
		return
	}
	kind := 1
	if single {
		kind = 0
	}
	passes := min(len(keys), u.credit[kind])
	if single && u.knows(&w.p, keys[0]) {
		passes = 1
	}
	if !d.Held && (d.Refused || d.Passed < passes) {
		w.rt.Fatalf("%s: a mail of %s to %d with a credit of %v: %+v\n%s", w.now.Sub(epoch), u.name, len(keys),
			u.credit, d, u.told())
	}
	if d.Held && (!w.p.HoldLarge || len(keys)-passes <= w.p.Stop) {
		w.rt.Fatalf("%s: a mail to %d is held: %+v", u.name, len(keys), d)
	}
	if d.Held || d.Refused {
		return
	}
	for i, key := range keys {
		switch fates[i] {
		case Pass:
			known := single && u.knows(&w.p, key)
			w.goesOn(u, sent{at: w.now, key: key, single: single, known: known})
			if !known {
				u.credit[kind] = max(0, u.credit[kind]-1)
				u.quiet = w.now // the next tick may be a whole period away
			}
		case Delay:
			u.waiting = append(u.waiting, Item{w.mail, i, key, single})
		}
	}
	if over := d.Delayed > 0 && len(u.waiting) > w.p.Stop; d.Stopped != over {
		w.rt.Fatalf("%s: stopped: %v with %d waiting, stop is %d\n%s", u.name, d.Stopped, len(u.waiting), w.p.Stop,
			u.told())
	}
	u.stopped = d.Stopped
	w.tick(u) // by the time of a late mail something may be due
}

// intervene is what the user and the operator may do.
func (w *play) intervene(u *user) {
	w.tick(u)
	switch rapid.IntRange(0, 3).Draw(w.rt, "by hand") {
	case 0:
		u.s.Stop(w.now)
		u.stopped = true
	case 1, 2:
		slowly := rapid.Bool().Draw(w.rt, "slowly")
		if u.stopped {
			u.waiting = nil
			if slowly {
				u.credit = [2]int{}
			}
		}
		u.s.Resume(&w.p, w.now, slowly)
		u.stopped, u.quiet = false, w.now
	case 3: // deleted, or released: then it goes on, as its user wants
		third := func(it Item) bool { return it.Key%3 == 0 }
		u.s.Take(third)
		u.waiting = slices.DeleteFunc(u.waiting, third)
		u.quiet = w.now
	}
}

// null sends a message without a sender.
func (w *play) null(u *user) {
	most := int(w.p.Nulls.Per / w.p.Nulls.Every)
	// A bucket that leaks.
	level, last := 0.0, time.Time{}
	for _, at := range append(slices.Clone(u.nulls), w.now) {
		level, last = max(0, level-float64(at.Sub(last))/float64(w.p.Nulls.Every))+1, at
	}
	inside := level <= float64(most)-1e-6
	if took := u.s.TakeNull(&w.p, w.now); !took {
		if inside {
			w.rt.Fatalf("%s: a message without a sender of %s is refused: %.3f of %d", w.now.Sub(epoch), u.name, level,
				most)
		}
		return
	}
	u.nulls = append(u.nulls, w.now)
	for i, from := range u.nulls {
		if n, of := len(u.nulls)-i, most+int(w.now.Sub(from)/w.p.Nulls.Every); n > of {
			w.rt.Fatalf("%s: %d messages without a sender of %s since %s, the most is %d", w.now.Sub(epoch), n, u.name,
				from.Sub(epoch), of)
		}
	}
}

// reload draws other figures.
func (w *play) reload() {
	slack, mSlack := w.p.MaxSlack, w.p.MaxMSlack
	w.p.MaxSlack = rapid.IntRange(0, 3).Draw(w.rt, "max slack")
	w.p.MaxMSlack = rapid.IntRange(0, 5).Draw(w.rt, "max mSlack")
	w.p.Stop = rapid.IntRange(0, 8).Draw(w.rt, "stop")
	w.p.Nulls = Nulls{Per: 12 * time.Second, Every: 12 * time.Second / 4}
	w.p.Every = time.Duration(rapid.IntRange(1, 9).Draw(w.rt, "every")) * time.Second
	if w.p.MultiEvery = w.p.Every; w.two {
		w.p.MultiEvery += time.Duration(rapid.IntRange(1, 9).Draw(w.rt, "more")) * time.Second
	}
	w.paces = append(w.paces, pace{w.now, [2]time.Duration{w.p.Every, w.p.MultiEvery}})
	w.raised[0] += max(0, w.p.MaxSlack-slack)
	w.raised[1] += max(0, w.p.MaxMSlack-mSlack)
	for _, u := range w.users {
		u.quiet = w.now // a tick of the new clock may be a whole period away
		if len(w.paces) == 1 {
			u.credit = [2]int{w.p.MaxSlack, w.p.MaxMSlack}
		}
		u.credit[0] = max(0, u.credit[0]-max(0, slack-w.p.MaxSlack))
		u.credit[1] = max(0, u.credit[1]-max(0, mSlack-w.p.MaxMSlack))
	}
}

// goesOn notes a recipient whose mail goes on, and checks every stretch that ends with it.
func (w *play) goesOn(u *user, last sent) {
	last.raised, last.p = w.raised, w.p
	u.sent = append(u.sent, last)
	var got [2]int
	for _, s := range slices.Backward(u.sent) {
		for kind := range got {
			of := s.single == (kind == 0)
			if s.known || !of && (!s.left || w.two) {
				continue // free, or of the other kind
			}
			got[kind]++
			most := []int{s.p.MaxSlack, s.p.MaxMSlack}[kind] + w.raised[kind] - s.raised[kind] +
				int(last.at.Sub(s.at)/w.fastest(kind, s.at)) + 1
			if got[kind] > most {
				w.rt.Fatalf("%s: %d of kind %d of %s went on since %s, the most is %d\n%s",
					w.now.Sub(epoch), got[kind], kind, u.name, s.at.Sub(epoch), most, u.told())
			}
		}
	}
}

// knows reports whether a recipient is in the working set: one of the last that mails to one went on to, or, by FIFO,
// who came into it last.
func (u *user) knows(p *Params, key uint64) bool {
	var set []uint64 // the oldest first
	for _, s := range u.sent {
		if at := slices.Index(set, s.key); !s.single || p.FIFO && at >= 0 {
			continue
		} else if at >= 0 {
			set = slices.Delete(set, at, at+1)
		}
		set = append(set, s.key)
		set = set[max(0, len(set)-p.WorkingSet):]
	}
	return slices.Contains(set, key)
}

func (u *user) told() (text string) {
	for _, s := range u.sent {
		text += fmt.Sprintf("%s: to %d, single %v, known %v, left %v\n", s.at.Sub(epoch), s.key, s.single, s.known,
			s.left)
	}
	return text
}
