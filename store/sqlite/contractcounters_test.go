package sqlite_test

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/store"
)

func countersAreKept(_ *testing.T, s *subject) {
	ctx := s.Context()
	s.counts(epoch)
	s.must(s.counters.Save(ctx, nil))
	a, b := counterOf("a", 5), counterOf("b", 7)
	batch := []store.Counter{a, b}
	s.must(s.counters.Save(ctx, batch))
	clear(batch)                                        // it is the caller's
	s.must(s.counters.Save(ctx, []store.Counter{a, b})) // twice is as good as once
	s.counts(epoch, a, b)

	// Every part of the key tells counters apart.
	others := []store.Counter{a, a, a, a}
	others[0].Throttle = "edge"
	others[1].Rule = "weekly"
	others[2].Account, others[2].Source = "", netip.MustParseAddr("192.0.2.1")
	others[3].Period = a.Period.Add(time.Nanosecond)
	s.must(s.counters.Save(ctx, others))
	s.counts(epoch, append(others, a, b)...)

	a.Used, b.Used = 4, 8 // the last one counts, also when it is less
	s.must(s.counters.Save(ctx, []store.Counter{counterOf("a", 100), a, b}))
	s.counts(epoch, append(others, a, b)...)
	a.Used = 0
	s.must(s.save(a))
	s.counts(epoch, append(others, b)...)

	enough, n := errors.New("enough"), 0
	err := s.counters.Load(ctx, epoch, func(store.Counter) error {
		if n++; n == 2 {
			return enough
		}
		return nil
	})
	if s.fails(err, enough); n != 2 {
		s.Errorf("%d were loaded after all", n)
	}
}

func countersEnd(_ *testing.T, s *subject) {
	ctx := s.Context()
	over, runs := counterOf("over", 1), counterOf("runs", 2)
	over.Until, runs.Until = epoch.Add(time.Nanosecond), epoch.Add(time.Hour)
	s.must(s.counters.Save(ctx, []store.Counter{over, runs}))
	s.counts(epoch, over, runs)
	s.counts(over.Until, runs) // it ends at that very moment
	s.pruned(s.counters.Prune, epoch, 0)
	s.pruned(s.counters.Prune, over.Until, 1)
	s.reopen()
	s.counts(epoch, runs)
	s.pruned(s.counters.Prune, runs.Until, 1)
	s.counts(epoch)
}

func (s *subject) save(c store.Counter) error {
	return s.counters.Save(s.Context(), []store.Counter{c})
}

func manyCounters(n int) []store.Counter {
	all := make([]store.Counter, n)
	for i := range all {
		all[i] = counterOf(fmt.Sprintf("account-%06d", i), int64(i+1))
	}
	return all
}

func countersAllOrNothing(_ *testing.T, s *subject) {
	for _, at := range []int{0, 50, 99} {
		batch := manyCounters(100)
		batch[at].Used = -1
		s.fails(s.counters.Save(s.Context(), batch), store.ErrInvalid)
		s.counts(epoch)
	}
}

func countersMistakes(_ *testing.T, s *subject) {
	rejects(s, store.ErrInvalid, map[string]func(*store.Counter){
		"no throttle":             func(c *store.Counter) { c.Throttle = "" },
		"no rule":                 func(c *store.Counter) { c.Rule = "" },
		"nobody":                  func(c *store.Counter) { c.Account = "" },
		"an account and a source": func(c *store.Counter) { c.Source = netip.MustParseAddr("192.0.2.1") },
		"IPv4 in IPv6":            func(c *store.Counter) { c.Account, c.Source = "", mapped },
		"a zone":                  func(c *store.Counter) { c.Account, c.Source = "", zoned },
		"below zero":              func(c *store.Counter) { c.Used = -1 },
		"no period":               func(c *store.Counter) { c.Period = time.Time{} },
		"no end":                  func(c *store.Counter) { c.Until = time.Time{} },
		"as of before the epoch":  func(c *store.Counter) { c.At = time.Unix(-1, 0) },
		"no UTF-8":                func(c *store.Counter) { c.Account = "\xff" },
		"a zero byte":             func(c *store.Counter) { c.Rule = "\x00" },
	}, counterOf("a", 1), s.save)
	s.counts(epoch)
}

func countersBounds(_ *testing.T, s *subject) {
	ctx := s.Context()
	most := counterOf(long(store.MaxAccount), 1<<63-1)
	most.Throttle, most.Rule = long(store.MaxThrottle), long(store.MaxRule)
	s.must(s.save(most))
	rejectsLong(s, counterOf("a", 1), func(c *store.Counter) []bound {
		return []bound{{&c.Throttle, store.MaxThrottle}, {&c.Rule, store.MaxRule}, {&c.Account, store.MaxAccount}}
	}, s.save)
	s.counts(epoch, most)
	batch := manyCounters(store.MaxBatch + 1)
	s.fails(s.counters.Save(ctx, batch), store.ErrTooLarge)
	s.counts(epoch, most)
	s.must(s.counters.Save(ctx, batch[:store.MaxBatch]))
	s.counts(epoch, append(batch[:store.MaxBatch], most)...)
}

// countersAnySequence compares the store with a map, also after it was opened again.
func countersAnySequence(t *testing.T, s *subject) {
	s.anySequence(t, func(rt *rapid.T) {
		ctx := s.Context()
		model := map[store.Counter]store.Counter{}                 // by key
		_, err := s.counters.Prune(ctx, epoch.Add(1000*time.Hour)) // what the case before has left
		s.must(err)
		now := epoch
		some := rapid.Custom(func(t *rapid.T) store.Counter {
			c := counterOf(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "account"),
				rapid.Int64Range(0, 3).Draw(t, "used"))
			c.Rule = rapid.SampledFrom([]string{"monthly", "weekly"}).Draw(t, "rule")
			c.Until = now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "minutes")) * time.Minute)
			if rapid.Bool().Draw(t, "as of") {
				c.At = now
			}
			return c
		})
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0, 1, 2, 3, 4, 5:
				batch := rapid.SliceOfN(some, 1, 4).Draw(rt, "save")
				s.must(s.counters.Save(ctx, batch))
				for _, c := range batch {
					if c.Used == 0 {
						delete(model, keyOf(c))
					} else {
						model[keyOf(c)] = c
					}
				}
			case 6:
				before := len(model)
				maps.DeleteFunc(model, func(_, c store.Counter) bool { return !c.Counts(now) })
				s.pruned(s.counters.Prune, now, before-len(model))
			case 7, 8:
				now = now.Add(time.Duration(rapid.IntRange(1, 40).Draw(rt, "on")) * time.Minute)
			case 9:
				s.mayReopen(rt)
			}
			want := slices.Collect(maps.Values(model))
			s.counts(now, slices.DeleteFunc(want, func(c store.Counter) bool { return !c.Counts(now) })...)
		}
	})
}

// keyOf is a counter without what it has counted.
func keyOf(c store.Counter) store.Counter {
	c = plain(c)
	c.Used, c.At, c.Until = 0, time.Time{}, time.Time{}
	return c
}
