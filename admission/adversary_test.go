package admission

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/testkit/needs"
	"weir/throttle/stamp"
)

// An attack is what an adversary does for a while: it picks arrivals, addresses, retries, payments, tickets and slow
// readers as it likes.
type attack struct {
	lasts     time.Duration
	rate      int // requests a second
	addresses int
	retries   bool // until it is served
	pages     bool // it looks like a browser
	keeps     bool // it brings its tickets
	core      float64
	stuck     int // so many of them never end by themselves
}

func drawAttack(rt *rapid.T, pays bool) attack {
	a := attack{
		lasts:     time.Duration(rapid.IntRange(500, 2500).Draw(rt, "ms")) * time.Millisecond,
		rate:      rapid.IntRange(0, 200).Draw(rt, "rate"),
		addresses: rapid.SampledFrom([]int{1, 3, 10, 1 << 20}).Draw(rt, "addresses"),
		retries:   rapid.Bool().Draw(rt, "retries"),
		pages:     rapid.Bool().Draw(rt, "pages"),
		keeps:     rapid.Bool().Draw(rt, "keeps tickets"),
	}
	if pays {
		if a.core = rapid.SampledFrom([]float64{0, 1e6, 1e7, 1e9}).Draw(rt, "hashes a second"); a.core > 0 {
			a.addresses = min(a.addresses, 10)
		}
		a.stuck = rapid.IntRange(0, 12).Draw(rt, "stuck")
	}
	return a
}

// strike has the attack come.
func (a attack) strike(w *world, all *[]*visitor, from int) {
	if a.rate == 0 {
		return
	}
	var stamps []*bought
	busy := false
	w.every(time.Second/time.Duration(a.rate), a.lasts, func(i int) *visitor {
		v := &visitor{source: v4(11, (from+i)%a.addresses), page: a.pages, keeps: a.keeps, stuck: i < a.stuck,
			patient: 20 * time.Second}
		if a.retries {
			v.tries, v.pause = -1, time.Second
		}
		if a.core > 0 {
			v.pays = func(w *world, v *visitor, work stamp.Work) {
				if !busy {
					busy = true
					w.after(time.Duration(float64(work)/a.core*float64(time.Second)), func() {
						stamps, busy = append(stamps, &bought{work: work, covers: 50}), false
					})
				}
				w.refused(v)
			}
			for len(stamps) > 0 && stamps[0].uses == stamps[0].covers {
				stamps = stamps[1:]
			}
			if len(stamps) > 0 && !v.stuck { // payers may be slow
				v.stamp = stamps[0]
			}
		}
		*all = append(*all, v)
		return v
	})
}

// TestAdversary: whatever an adversary does, a free place is never left to nobody, somebody who pays what is asked
// has a page in a time that depends on how many clients pay and not on what they send, and after the end nothing is
// asked any more.
func TestAdversary(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		places := rapid.IntRange(1, 25).Draw(rt, "places")
		takes := time.Duration(rapid.IntRange(20, 150).Draw(rt, "takes ms")) * time.Millisecond
		w := newWorld(t, Options{Concurrent: places}, &stamp.Options{}, takes, rapid.Uint64().Draw(rt, "seed"))
		w.broken = workConserving
		var all []*visitor
		// Somebody who behaves pays for a page every two seconds. Ten other clients pay at most, each of them takes
		// its turns, of a page each; whoever is in the way and makes no progress is so for five seconds, and it takes
		// a second to see it.
		turns := time.Duration(10*5+6) * takes * 13 / 10 / time.Duration(places)
		bound := 8*time.Second + turns*10/9 + 10*takes
		pages, loaded := 0, 0
		person := func(i int) *visitor {
			pages++
			v := browser(&visitor{source: v4(10, i)}, 5e6)
			v.tries, v.pause = -1, time.Second
			v.done = func(v *visitor, served bool) {
				loaded++
				since := v.since // of the request that came in: before it, the stamp was made
				if took := w.now.Sub(since); v.stamp != nil && took > bound {
					rt.Errorf("after %s: somebody who paid waited %s, at most %s", w.now.Sub(begin), took, bound)
				}
			}
			return v
		}
		w.every(2*time.Second, 30*time.Second, person)
		for i := range rapid.IntRange(1, 3).Draw(rt, "attacks") {
			a := drawAttack(rt, true)
			a.strike(w, &all, i<<16)
			w.run(a.lasts)
		}
		w.run(30 * time.Second)
		for _, v := range all { // those who stood still have gone
			v.stuck = false
		}
		w.run(30 * time.Second)
		if loaded != pages {
			rt.Errorf("%d of %d who pay were served", loaded, pages)
		}
		ends(rt, w, all)
	})
}

// ends waits until all who were turned away have been served, or have lost patience, and then for a minute: nothing
// is asked any more.
func ends(rt *rapid.T, w *world, all []*visitor) {
	deadline := w.now.Add(time.Duration(len(all))*w.takes*2/time.Duration(w.places) + 3*time.Minute)
	for i := 0; i < len(all); {
		if all[i].over {
			i++
			continue
		}
		if w.now.After(deadline) {
			s := w.lanes.Stats(w.now)
			rt.Fatalf("after %s: the backlog is not served: %+v, work %s, %+v", w.now.Sub(begin), s, w.work(), all[i])
		}
		w.run(time.Second)
	}
	w.run(time.Minute)
	if work := w.work(); work > 0 {
		rt.Errorf("%s is still asked: %+v", work, w.lanes.Stats(w.now))
	}
}

// TestNoWorseThanWithout: while nobody pays, a client that neither pays nor keeps a ticket gets what capacity alone
// would give it.
func TestNoWorseThanWithout(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		places, seed := rapid.IntRange(1, 20).Draw(rt, "places"), rapid.Uint64().Draw(rt, "seed")
		takes := time.Duration(rapid.IntRange(10, 150).Draw(rt, "takes ms")) * time.Millisecond
		var attacks []attack
		for range rapid.IntRange(1, 3).Draw(rt, "attacks") {
			attacks = append(attacks, drawAttack(rt, false))
		}
		excused := 0
		play := func(stamps *stamp.Options) (served int, all []*visitor, w *world) {
			w = newWorld(t, Options{Concurrent: places}, stamps, takes, seed)
			if stamps != nil {
				w.broken = workConserving
			}
			var s score
			w.every(time.Second, 15*time.Second, func(int) *visitor {
				v, long := s.plain(1), false
				v.patient = 5 * time.Second
				v.pays = func(w *world, v *visitor, _ stamp.Work) {
					// It is not held where that would take longer than pool_wait: that is how it is meant. Of several
					// places a tenth is left to those who pay, one at least.
					waiting, left := w.lanes.Stats(w.now).Pool.Waiting, places
					if left > 1 {
						left -= max(1, places/10)
					}
					if wait := time.Duration(waiting+1) * takes / time.Duration(left); wait > 4*time.Second && !long {
						long = true
						excused++
					}
					w.refused(v)
				}
				return v
			})
			for i, a := range attacks {
				a.strike(w, &all, i<<16)
				w.run(a.lasts)
			}
			w.run(60 * time.Second)
			return s.served, all, w
		}
		without, _, _ := play(nil)
		excused = 0
		with, all, w := play(&stamp.Options{})
		// It cannot be the same to the last one: whoever was asked for a stamp comes again a second later.
		if with+excused < without-1-without/10 {
			rt.Errorf("%d of 15 were served with stamps, and %d would have waited too long; %d without", with, excused,
				without)
		}
		ends(rt, w, all)
	})
}

// TestFairShare: whatever others send, a client that has one request with weir waits for one round of clients, and is
// never turned away.
func TestFairShare(t *testing.T) {
	needs.Unwatched(t)
	rapid.Check(t, func(rt *rapid.T) {
		const takes, lasts = 50 * time.Millisecond, 4 * time.Second
		places := rapid.IntRange(1, 12).Draw(rt, "places")
		others := rapid.IntRange(1, 20).Draw(rt, "others")
		rate := rapid.IntRange(100, 300).Draw(rt, "rate")
		w := newWorld(t, Options{Concurrent: places}, &stamp.Options{}, takes, rapid.Uint64().Draw(rt, "seed"))
		w.broken = workConserving
		w.every(time.Second/time.Duration(rate), lasts, func(i int) *visitor {
			return &visitor{source: v4(11, i%others), patient: 20 * time.Second}
		})
		round := time.Duration(others+2) * takes * 6 / 5 / time.Duration(max(1, places-max(1, places/10)))
		var again func()
		again = func() {
			w.come(&visitor{source: v4(10, 1), done: func(v *visitor, ok bool) {
				if took := w.now.Sub(v.came); !ok || took > round+2*takes {
					rt.Fatalf("after %s: served %v in %s, a round is %s", w.now.Sub(begin), ok, took, round)
				}
				w.after(10*time.Millisecond, again)
			}})
		}
		again()
		w.run(lasts)
	})
}
