package admission

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"weir/throttle/stamp"
)

// The service of these tests: 50 requests a second.
var fifty = Options{Concurrent: 4}

const eighty = 80 * time.Millisecond

// A score counts what became of visitors.
type score struct{ came, served int }

func (s *score) done(_ *visitor, served bool) {
	if served {
		s.served++
	}
}

func (s *score) share() float64 { return float64(s.served) / float64(max(s.came, 1)) }

// plain is a client that neither pays nor keeps a ticket, with four tries a second apart.
func (s *score) plain(source int) *visitor {
	s.came++
	return &visitor{source: v4(10, source), tries: 3, pause: time.Second, patient: 10 * time.Second, done: s.done}
}

// flood is a request of somebody who pays nothing and does not come again.
func flood(source int) *visitor { return &visitor{source: v4(11, source), patient: 10 * time.Second} }

// workConserving fails when a place is free that somebody in weir could have.
func workConserving(w *world) {
	capacity, free, pooled, paying := w.standing()
	if free > 0 && paying > 0 {
		w.t.Fatalf("after %s: %d places are free, and %d who paid wait", w.now.Sub(begin), free, paying)
	}
	if free > max(min(1, capacity-1), capacity/10) && pooled > 0 {
		w.t.Fatalf("after %s: %d of %d places are free, and %d of the pool wait", w.now.Sub(begin), free, capacity, pooled)
	}
}

// TestAfterAFlood is (a): clients at 44 % load that neither pay nor keep tickets are served as soon as a flood of
// eight times the capacity is over, and nothing is asked any more within a minute, whoever retries.
func TestAfterAFlood(t *testing.T) {
	for _, retries := range []bool{false, true} {
		w := newWorld(t, fifty, &stamp.Options{}, eighty, 1)
		w.broken = workConserving
		var before, during, after score
		var flooders []*visitor
		at := func(s *score, from int) func(i int) *visitor {
			return func(i int) *visitor { return s.plain(from + i) }
		}
		w.every(time.Second/22, 5*time.Second, at(&before, 0))
		w.run(5 * time.Second)
		w.every(time.Second/400, 6*time.Second, func(i int) *visitor {
			v := flood(i)
			if retries { // until it is served
				v.tries, v.pause = -1, 2*time.Second
				flooders = append(flooders, v)
			}
			return v
		})
		w.every(time.Second/22, 6*time.Second, at(&during, 1000))
		w.run(6 * time.Second)
		if w.work() == 0 {
			t.Error("nothing was asked during the flood")
		}
		w.every(time.Second/22, 10*time.Second, at(&during, 2000))
		w.run(10 * time.Second)
		w.every(time.Second/22, 30*time.Second, at(&after, 3000))
		w.run(30 * time.Second)
		t.Logf("retries %v: before %.3f, during %.3f, after %.3f", retries, before.share(), during.share(),
			after.share())
		if before.share() < 1 || !retries && after.share() < 0.95 {
			t.Errorf("retries %v: before %.3f, from 10 s after the end on %.3f", retries, before.share(), after.share())
		}
		w.every(time.Second/22, 200*time.Second, at(new(score), 5000))
		left := func() (n int) {
			for _, v := range flooders {
				if !v.over {
					n++
				}
			}
			return n
		}
		for seconds := 0; left() > 0; seconds++ {
			if seconds == 120 {
				t.Fatalf("retries %v: %d have still not been served", retries, left())
			}
			w.run(time.Second)
		}
		w.run(time.Minute)
		if work := w.work(); work > 0 {
			t.Errorf("retries %v: %s is still asked, load %s", retries, work, w.load().Share)
		}
	}
}

// TestInventedKeys is (b): 200 requests a second with invented keys from one address, and one client at 1/s with its
// own key and address.
func TestInventedKeys(t *testing.T) {
	for name, accepts := range map[string]bool{"the upstream knows its keys": false,
		"the upstream accepts every key": true} {
		w := newWorld(t, fifty, &stamp.Options{}, eighty, 1)
		w.broken = workConserving
		accepted := func(v *visitor, served bool) {
			if served {
				w.lanes.Accepted(v.source, v.account, accepts, w.now)
			}
		}
		w.every(time.Second/200, 40*time.Second, func(i int) *visitor {
			return &visitor{source: v4(11, 1), account: "invented" + string(rune('a'+i%400)), patient: 10 * time.Second,
				done: accepted}
		})
		w.run(5 * time.Second)
		var own score
		w.every(time.Second, 30*time.Second, func(int) *visitor {
			own.came++
			return &visitor{source: v4(10, 1), account: "own", patient: 10 * time.Second,
				done: func(v *visitor, served bool) {
					own.done(v, served)
					w.lanes.Accepted(v.source, v.account, true, w.now)
				}}
		})
		w.run(45 * time.Second)
		if own.share() < 0.95 {
			t.Errorf("%s: %d of %d were served", name, own.served, own.came)
		}
	}
}

// browser is a visitor that pays what it is asked, as a browser does: after the time that it takes, with a stamp for
// covers requests.
func browser(v *visitor, speed float64) *visitor {
	v.page = true
	v.pays = func(w *world, v *visitor, work stamp.Work) {
		w.after(time.Duration(float64(work)/speed*float64(time.Second)), func() {
			v.stamp = &bought{work: work, covers: w.taker.Terms().Covers}
			w.come(v)
		})
	}
	return v
}

// TestPayingVisitors is (c): 28 paying visitors a second, one request each, are 56 % load. The price is gone within a
// minute after a flood, though each of them is challenged first: a challenge and its paid return are one visit.
func TestPayingVisitors(t *testing.T) {
	w := newWorld(t, fifty, &stamp.Options{}, eighty, 1)
	w.broken = workConserving
	visitors := 0
	people := func(i int) *visitor {
		visitors++
		return browser(&visitor{source: v4(10, visitors)}, 3e6)
	}
	w.every(time.Second/28, 5*time.Second, people)
	w.run(5 * time.Second)
	w.every(time.Second/400, 8*time.Second, flood)
	w.every(time.Second/28, 100*time.Second, people)
	w.run(8 * time.Second)
	if w.work() == 0 {
		t.Error("nothing was asked during the flood")
	}
	dormant := 0
	for ; w.work() > 0 && dormant < 60; dormant++ {
		w.run(time.Second)
	}
	t.Logf("dormant after %d s", dormant)
	if dormant > 30 {
		t.Errorf("%s is asked %d s after the end", w.work(), dormant)
	}
}

// page loads a page: a request, and four more at once when that has come.
func page(w *world, source int, took func(time.Duration)) {
	first := browser(&visitor{source: v4(10, source)}, 3e6)
	first.done = func(v *visitor, served bool) {
		left := 4
		for range 4 {
			part := &visitor{source: v.source, stamp: v.stamp, tries: -1, pause: time.Second}
			part.done = func(*visitor, bool) {
				if left--; left == 0 {
					took(w.now.Sub(first.came))
				}
			}
			w.come(part)
		}
	}
	w.come(first)
}

// TestPageBesideAPayer is (d): one core that pays in front of a service of 50/s, with stamps that cover 50. A page of
// five requests takes people at most twice the time that it takes without, whether the core uses its stamps up or
// always a new one.
func TestPageBesideAPayer(t *testing.T) {
	const core = 10e6
	var alone time.Duration
	for _, payer := range []struct {
		addresses int
		fresh     bool // it uses the newest stamp, and throws the rest of the others away
	}{{0, false}, {1, false}, {1, true}} {
		addresses := payer.addresses
		w := newWorld(t, fifty, &stamp.Options{}, eighty, 1)
		w.broken = workConserving
		var stamps []*bought
		if addresses > 0 {
			asked, making := stamp.Work(1<<16), false
			var make func()
			make = func() {
				work := asked
				w.after(time.Duration(float64(work)/core*float64(time.Second)), func() {
					stamps = append(stamps, &bought{work: work, covers: 50})
					make()
				})
			}
			w.every(time.Second/300, 35*time.Second, func(i int) *visitor {
				v := &visitor{source: v4(11, i%addresses), patient: 10 * time.Second}
				v.pays = func(w *world, v *visitor, work stamp.Work) {
					if asked = work; !making {
						making = true
						make()
					}
					w.refused(v)
				}
				for len(stamps) > 0 && stamps[0].uses == stamps[0].covers {
					stamps = stamps[1:]
				}
				if len(stamps) > 0 {
					v.stamp = stamps[0]
					if last := stamps[len(stamps)-1]; payer.fresh && last.uses < last.covers {
						v.stamp = last
					}
				}
				return v
			})
		}
		w.run(10 * time.Second)
		var all []time.Duration
		for i := range 20 {
			page(w, i, func(took time.Duration) { all = append(all, took) })
			w.run(time.Second)
		}
		w.run(5 * time.Second)
		if len(all) != 20 {
			t.Fatalf("%d addresses: %d pages of 20", addresses, len(all))
		}
		slices.Sort(all)
		median := all[len(all)/2]
		t.Logf("%+v: a page takes %s, at most %s; work %s", payer, median, all[len(all)-1], w.work())
		if addresses == 0 {
			alone = median
		} else if median > 2*alone {
			t.Errorf("%+v: a page takes %s, without the payer %s", payer, median, alone)
		}
	}
}

// equalTurns is how long a page of five requests takes, the last four of them at once, among so many other clients,
// each with something waiting all the time: a round for each request.
func equalTurns(others, places int, takes time.Duration) time.Duration {
	return 5*takes*time.Duration(others+1)/time.Duration(places) + 2*takes
}

// payers are clients with one request at a time, each with a new stamp that cost what is asked now.
func payers(w *world, sources []netip.Addr) {
	for i, source := range sources {
		var again func()
		again = func() {
			w.come(&visitor{source: source, id: fmt.Sprint("payer ", i),
				stamp: &bought{work: max(w.work(), 1<<14), covers: 50},
				done:  func(*visitor, bool) { w.after(time.Millisecond, again) }})
		}
		w.after(time.Duration(w.rng.Int64N(int64(100*time.Millisecond))), again)
	}
}

// pageWith loads a page of five requests with a stamp that has been made, and says whether all of them came.
func pageWith(w *world, source netip.Addr, id string, over func(whole bool, took time.Duration)) {
	bought := &bought{work: max(w.work(), 1<<14), covers: 50}
	came, left, whole := w.now, 4, true
	part := func(done func(*visitor, bool)) { w.come(&visitor{source: source, id: id, stamp: bought, done: done}) }
	part(func(_ *visitor, served bool) {
		whole = served
		for range 4 {
			part(func(_ *visitor, served bool) {
				whole = whole && served
				if left--; left == 0 {
					over(whole, w.now.Sub(came))
				}
			})
		}
	})
}

// TestPageBesideManyPayers: beside clients that have one request at a time each, always with a new stamp, people have
// their turns, from the first use of a stamp to the last. Many ids of one address are one client.
func TestPageBesideManyPayers(t *testing.T) {
	const takes = 100 * time.Millisecond
	for _, places := range []int{4, 8, 64} {
		var alone time.Duration
		for _, others := range []struct{ addresses, ids int }{{0, 0}, {7, 1}, {12, 1}, {50, 1}, {12, 5}, {1, 50}} {
			w := newWorld(t, Options{Concurrent: places}, &stamp.Options{}, takes, 1)
			w.broken = workConserving
			var sources []netip.Addr
			for i := range others.addresses * others.ids {
				sources = append(sources, v4(11, i%others.addresses))
			}
			payers(w, sources)
			w.run(5 * time.Second)
			var all []time.Duration
			broken, i := 0, 0
			var next func()
			next = func() {
				i++
				pageWith(w, v4(10, i), "person", func(whole bool, took time.Duration) {
					if all = append(all, took); !whole {
						broken++
					}
					next()
				})
			}
			next()
			w.run(100 * time.Second)
			slices.Sort(all)
			p95, most := all[len(all)*95/100], equalTurns(others.addresses, places, takes)*3/2
			switch others.addresses {
			case 0:
				alone = p95
			case 1:
				most = 2 * alone
			}
			t.Logf("%d places, %+v: %d pages, %d not whole, half in %s, 95 %% in %s (at most %s)", places, others,
				len(all), broken, all[len(all)/2], p95, most)
			if p95 > most || broken*20 > len(all) {
				t.Errorf("%d places, %+v: %d of %d pages not whole, 95 %% in %s, want %s", places, others, broken,
					len(all), p95, most)
			}
		}
	}
}

// TestPeopleBehindOneAddressBesidePayers: people who share an address have their pages beside twenty clients that pay
// all the time; so have forty who all look at one page after the other, and wait for each other.
func TestPeopleBehindOneAddressBesidePayers(t *testing.T) {
	for _, places := range []int{8, 64} {
		w := newWorld(t, Options{Concurrent: places}, &stamp.Options{}, 100*time.Millisecond, 1)
		w.broken = workConserving
		var sources []netip.Addr
		for i := range 20 {
			sources = append(sources, v4(11, i))
		}
		payers(w, sources)
		pages, broken := 0, 0
		for i := range 40 {
			var next func()
			next = func() {
				pageWith(w, v4(10, 1), fmt.Sprint("person ", i), func(whole bool, _ time.Duration) {
					if pages++; !whole {
						broken++
					}
					w.after(time.Second, next)
				})
			}
			w.after(time.Duration(i)*25*time.Millisecond, next)
		}
		w.run(time.Minute)
		t.Logf("%d places, forty people: %d pages, %d not whole", places, pages, broken)
		if pages < 100 || broken*20 > pages {
			t.Errorf("%d places, forty people: %d pages, %d not whole", places, pages, broken)
		}
	}
	for _, places := range []int{4, 8, 64} {
		w := newWorld(t, Options{Concurrent: places}, &stamp.Options{}, 100*time.Millisecond, 1)
		w.broken = workConserving
		var sources []netip.Addr
		for i := range 20 {
			sources = append(sources, v4(11, i))
		}
		payers(w, sources)
		w.run(5 * time.Second)
		var all []time.Duration
		broken := 0
		gap := 6 * time.Second / time.Duration(places) // of 40 requests/s five, of 80 seven
		for i := range 75 {
			pageWith(w, v4(10, 1), fmt.Sprint("person ", i%20), func(whole bool, took time.Duration) {
				if all = append(all, took); !whole {
					broken++
				}
			})
			w.run(max(gap, 100*time.Millisecond))
		}
		w.run(time.Minute)
		slices.Sort(all)
		t.Logf("%d places: %d pages, %d not whole, 95 %% in %s", places, len(all), broken, all[len(all)*95/100])
		if len(all) != 75 || broken*20 > 75 {
			t.Errorf("%d places: %d pages, %d not whole", places, len(all), broken)
		}
	}
}
