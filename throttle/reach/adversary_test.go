package reach

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir"
	"weir/internal/testkit/needs"
)

// TestAdversary: whoever chooses times, recipients, what others refuse, and the moments of restarts and reloads
//   - reaches at most threshold recipients who are new within 55 minutes, 23 hours and 6 days (a window moves on by
//     steps), where new ones are held or refused from the flag on, and none at all while flagged;
//   - sends at most limit messages within a period before the flag and the one that begins with it, unless they were
//     sent before the flag, and limit in each period after that, where a limit holds;
//   - sends nothing while flagged, where all is blocked.
//
// Whoever stays below the threshold is never flagged, and a flagged user still writes to those who are known, or, with
// a limit, as many messages as are left: another user beside the adversary, and the adversary.
func TestAdversary(t *testing.T) {
	needs.Unwatched(t)
	for _, over := range []Action{Limit, HoldNew, KnownOnly, Block} {
		t.Run(string(over), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := &play{rt: rt, o: Options{Over: over, Known: true}, now: epoch,
					users: []*user{{name: "adversary"}, {name: "innocent"}}}
				w.o.Limit.Per = rapid.SampledFrom([]time.Duration{time.Minute, time.Hour}).Draw(rt, "per")
				w.reload()
				for range rapid.IntRange(1, 100).Draw(rt, "steps") {
					w.step()
				}
			})
		})
	}
}

// A play is some users of one throttle.
type play struct {
	rt    *rapid.T
	o     Options
	r     *Rules
	now   time.Time
	fresh uint64
	users []*user
}

// A user has a state, and what the test knows of it.
type user struct {
	name    string
	s       State
	now     time.Time // the latest time of a message: one that brings an older time is late
	known   []uint64
	counted []recipient // those who were new, whatever became of them
	sent    []time.Time // messages of which somebody passed
	flagged time.Time   // since when; zero where the user is not
	over    time.Time   // when the flag before it ended
	limit   int         // the highest since then
	from    int         // which messages were sent since then
}

// A recipient is one who was new.
type recipient struct {
	at     time.Time
	key    uint64
	passed bool
}

func (w *play) step() {
	u := w.users[rapid.IntRange(0, 2).Draw(w.rt, "user")/2]
	switch rapid.IntRange(0, 10).Draw(w.rt, "step") {
	case 0:
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 200).Draw(w.rt, "minutes")) * time.Minute)
	case 1:
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(w.rt, "hours")) * time.Hour)
	case 2: // to the edge of a step of a window, or of a period that began with a message
		if len(u.sent) > 0 && rapid.Bool().Draw(w.rt, "period") {
			from := u.sent[rapid.IntRange(max(0, len(u.sent)-4), len(u.sent)-1).Draw(w.rt, "from")]
			if edge := from.Add(w.o.Limit.Per - time.Duration(rapid.IntRange(0, 1).Draw(w.rt,
				"before"))*time.Second); edge.After(w.now) {
				w.now = edge
			}
			break
		}
		step := rapid.SampledFrom([]time.Duration{5 * time.Minute, time.Hour, day}).Draw(w.rt, "edge")
		w.now = w.now.Truncate(step).Add(step - time.Duration(rapid.IntRange(0, 1).Draw(w.rt, "before"))*time.Second)
	case 3, 4:
		w.send(u, w.now, w.new(rapid.IntRange(1, 6).Draw(w.rt, "new")), false)
	case 5: // some of them known, or tried
		keys := w.new(rapid.IntRange(0, 2).Draw(w.rt, "new"))
		for range rapid.IntRange(1, 3).Draw(w.rt, "others") {
			if key := rapid.Uint64Range(1, max(1, w.fresh)).Draw(w.rt, "other"); !slices.Contains(keys, mix(key)) {
				keys = append(keys, mix(key))
			}
		}
		w.send(u, w.now, keys, false)
	case 6: // many messages to somebody known
		for range rapid.IntRange(1, 6).Draw(w.rt, "messages") {
			if len(u.known) > 0 {
				w.send(u, w.now, u.known[:1], false)
			}
		}
	case 7: // a message that was held up, and one that somebody else refused
		w.send(u, w.now.Add(-time.Duration(rapid.IntRange(0, 300).Draw(w.rt, "late"))*time.Second), w.new(1),
			rapid.Bool().Draw(w.rt, "refused"))
	case 8:
		for _, u := range w.users {
			w.restart(u)
		}
	case 9:
		w.reload()
	case 10: // over the end of a period: messages just before it, and the one that flags just after it
		if len(u.known) == 0 {
			break
		}
		w.send(u, w.now, u.known[:1], false)
		w.now = w.now.Add(w.o.Limit.Per - time.Second)
		for range rapid.IntRange(1, 6).Draw(w.rt, "messages") {
			w.send(u, w.now, u.known[:1], false)
		}
		if rapid.Bool().Draw(w.rt, "restart") {
			w.restart(u)
		}
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 2).Draw(w.rt, "seconds")) * time.Second)
		w.send(u, w.now, w.new(rapid.IntRange(1, 9).Draw(w.rt, "new")), false)
		w.send(u, w.now, u.known[:1], false)
	}
}

// mix makes a key of a number, as a hash does.
func mix(n uint64) uint64 {
	n = (n + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

// new returns recipients nobody has written to.
func (w *play) new(n int) (keys []uint64) {
	for range n {
		w.fresh++
		keys = append(keys, mix(w.fresh))
	}
	return keys
}

// reload draws other figures.
func (w *play) reload() {
	w.o.Threshold.Count = rapid.IntRange(2, 8).Draw(w.rt, "threshold")
	w.o.Windows = rapid.SliceOfNDistinct(rapid.SampledFrom(Windows[:]), 1, 3, rapid.ID).Draw(w.rt, "windows")
	w.o.Limit.Count = int64(rapid.IntRange(1, 5).Draw(w.rt, "limit"))
	w.o.For = weir.Duration(time.Duration(rapid.IntRange(1, 120).Draw(w.rt, "for")) * time.Minute)
	w.o.Floor = 0
	if over := rapid.SampledFrom([]Action{HoldNew, KnownOnly}).Draw(w.rt, "over"); w.o.Over != Limit &&
		w.o.Over != Block {
		w.o.Over = over
	}
	r, err := w.o.Rules()
	if err != nil {
		w.rt.Fatal(err)
	}
	w.r = r
}

// restart writes a state and reads it again.
func (w *play) restart(u *user) {
	b, err := u.s.AppendBinary(nil)
	if err != nil {
		w.rt.Fatal(err)
	}
	var read State
	if err := read.UnmarshalBinary(b); err != nil {
		w.rt.Fatal(err)
	}
	if read.NeedsKnown() {
		known, err := u.s.AppendKnown(nil)
		if err != nil {
			w.rt.Fatal(err)
		}
		if err := read.SetKnown(known); err != nil {
			w.rt.Fatal(err)
		}
	}
	u.s = read
}

// send judges a message that brings a time, and commits it, unless somebody else refuses it.
func (w *play) send(u *user, now time.Time, keys []uint64, refused bool) {
	if len(keys) == 0 {
		return
	}
	if now.After(u.now) {
		u.now = now
	}
	fates := make([]Fate, len(keys))
	v := u.s.Judge(w.r, nil, now, keys, fates)
	w.inside(u, keys, v, fates)
	if refused {
		for i := range fates {
			fates[i] = Refuse
		}
	}
	u.s.Commit(w.r, nil, now, keys, fates)
	if _, _, flagged := u.s.Flagged(); !u.flagged.IsZero() && (v.Now || !flagged) {
		w.ended(u)
		u.over = u.now
	}
	switch since, _, flagged := u.s.Flagged(); {
	case !flagged:
		u.flagged = time.Time{}
	case v.Now:
		u.flagged, u.limit, u.from = u.now, int(w.o.Limit.Count), len(u.sent)
	case u.flagged.IsZero():
		w.rt.Fatalf("%s: %s is flagged since %s, and nobody said so", u.now.Sub(epoch), u.name, since)
	}
	passes := false
	for i, key := range keys {
		known := slices.Contains(u.known, key)
		if fates[i] == Pass {
			passes = true
		}
		if known {
			continue
		}
		u.counted = append(u.counted, recipient{u.now, key, fates[i] == Pass})
		if fates[i] == Pass {
			w.reached(u, v)
			u.known = append(u.known, key)
		}
	}
	if passes {
		w.passed(u, v)
	}
}

// ended checks a flag that is over: it held as long as it must, and those who were new have become few, whatever became
// of them.
func (w *play) ended(u *user) {
	if held := u.now.Sub(u.flagged); held < w.o.For.Std() {
		w.rt.Fatalf("%s: a flag of %s held for %s only", u.now.Sub(epoch), u.name, held)
	}
	for _, window := range w.o.Windows {
		seen, fresh := map[uint64]bool{}, 0 // who is tried again counts once
		for _, c := range u.counted {
			if !seen[c.key] && u.now.Sub(c.at) < window.Length()-time.Duration(window.shape().slot)*time.Second {
				fresh++
			}
			seen[c.key] = true
		}
		if 2*fresh >= w.o.Threshold.Count {
			w.rt.Fatalf("%s: a flag of %s is over with %d new in the %s\n%s", u.now.Sub(epoch), u.name, fresh, window,
				u.told())
		}
	}
}

// reached checks a new recipient who was reached just now.
func (w *play) reached(u *user, v Verdict) {
	if !u.flagged.IsZero() && !v.Now && w.o.Over != Limit {
		w.rt.Fatalf("%s: a flagged user reached somebody new\n%s", u.now.Sub(epoch), u.told())
	}
	if w.o.Over == Limit && !u.flagged.IsZero() {
		return // only messages are limited then
	}
	for _, window := range w.o.Windows {
		n, stretch := 0, window.Length()-time.Duration(window.shape().slot)*time.Second
		for _, c := range u.counted {
			if c.passed && u.now.Sub(c.at) < stretch {
				n++
			}
		}
		if n > w.o.Threshold.Count {
			w.rt.Fatalf("%s: %s reached %d new ones within %s, the threshold is %d\n%s",
				u.now.Sub(epoch), u.name, n, stretch, w.o.Threshold.Count, u.told())
		}
	}
}

// passed checks a message of which somebody passed just now.
func (w *play) passed(u *user, v Verdict) {
	u.sent = append(u.sent, u.now)
	limit, per := int(w.o.Limit.Count), w.o.Limit.Per
	if u.flagged.IsZero() || w.o.Over != Limit {
		return
	}
	if v.Now && v.Refused > 0 {
		u.from++ // it passed for those before the one that crossed the threshold
		return
	}
	lately, after := 0, len(u.sent)-u.from
	for _, at := range u.sent {
		if at.After(u.flagged.Add(-per)) {
			lately++
		}
	}
	// Of a flag that follows another at once, the periods of the other reach into this one.
	if u.now.Before(u.flagged.Add(per)) && lately > limit && u.flagged.Sub(u.over) >= per {
		w.rt.Fatalf("%s: %d messages of %s went on, flagged since %s, the limit is %d in %s\n%s",
			u.now.Sub(epoch), lately, u.name, u.flagged.Sub(epoch), limit, per, u.told())
	}
	u.limit = max(u.limit, limit)
	if most := u.limit * int(1+u.now.Sub(u.flagged)/per); after > most {
		w.rt.Fatalf("%s: %d messages of %s went on since %s, the most is %d\n%s",
			u.now.Sub(epoch), after, u.name, u.flagged.Sub(epoch), most, u.told())
	}
}

// inside checks that whoever stays inside the limits is let in.
func (w *play) inside(u *user, keys []uint64, v Verdict, fates []Fate) {
	fresh, withheld := 0, 0
	for i, key := range keys {
		known := slices.Contains(u.known, key)
		if !known {
			fresh++
		}
		if fates[i] != Pass {
			withheld++
			if known && (w.o.Over == HoldNew || w.o.Over == KnownOnly) {
				w.rt.Fatalf("%s: a known recipient of %s does not go on: %+v", u.now.Sub(epoch), u.name, v)
			}
		}
	}
	if withheld == 0 && !v.Now {
		return
	}
	if u.flagged.IsZero() || v.Now {
		below := true
		for _, window := range w.o.Windows {
			n := fresh
			for _, c := range u.counted {
				if u.now.Sub(c.at) <= window.Length()+5*time.Minute { // a late message counts longer
					n++
				}
			}
			below = below && n <= w.o.Threshold.Count
		}
		if below {
			w.rt.Fatalf("%s: %s is below the threshold: %+v\n%s", u.now.Sub(epoch), u.name, v, u.told())
		}
	}
	if w.o.Over == Limit && withheld > 0 {
		n := 1
		for _, at := range u.sent {
			// two periods before a flag, and the one that begins with it
			if u.now.Sub(at) < 3*w.o.Limit.Per+5*time.Minute {
				n++
			}
		}
		if n <= int(w.o.Limit.Count) {
			w.rt.Fatalf("%s: %s sent %d messages only: %+v\n%s", u.now.Sub(epoch), u.name, n-1, v, u.told())
		}
	}
}

func (u *user) told() (text string) {
	text = fmt.Sprintf("flagged %s, messages:", u.flagged.Sub(epoch))
	for _, at := range u.sent {
		text += fmt.Sprintf(" %s", at.Sub(epoch))
	}
	text += "\nnew:"
	for _, c := range u.counted {
		text += fmt.Sprintf(" %s (%v)", c.at.Sub(epoch), c.passed)
	}
	return text
}
