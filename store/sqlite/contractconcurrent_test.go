package sqlite_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"weir/store"
)

// manyAtOnce: many goroutines write and read, and no write is lost.
func manyAtOnce(t *testing.T, s *subject) {
	const writers, each = 16, 25
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				b := banOf(client(fmt.Sprintf("%02d-%02d", w, i)))
				if err := s.bans.Put(t.Context(), b); err != nil {
					t.Error(err)
				}
				got, err := keptBan(t.Context(), s.bans, b.BanKey, epoch) // a writer sees its own write
				if err != nil || !got.Equal(&b) {
					t.Errorf("%+v, %v", got, err)
				}
				if i%2 == 1 {
					err = s.bans.Remove(t.Context(), b.BanKey)
				} else {
					err = s.counters.Save(t.Context(), []store.Counter{counterOf(b.Client, int64(i+1))})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var bans []store.Ban
	var counters []store.Counter
	for w := range writers {
		for i := 0; i < each; i += 2 {
			b := banOf(client(fmt.Sprintf("%02d-%02d", w, i)))
			bans, counters = append(bans, b), append(counters, counterOf(b.Client, int64(i+1)))
		}
	}
	s.reopen()
	s.lists(epoch, bans...)
	s.counts(epoch, counters...)
}

// neverHalf: several goroutines write the same bans again and again, all bans in one call. A reader always sees the
// bans of one call, never a mix of two calls.
func neverHalf(t *testing.T, s *subject) {
	const writers, rounds, size = 4, 20, 8
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for round := range rounds {
				batch := manyBans(size)
				for i := range batch {
					batch[i].Reason = fmt.Sprintf("%d/%d", w, round)
				}
				if err := s.bans.Put(t.Context(), batch...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for more := true; more; {
		select {
		case <-done:
			more = false
		default:
		}
		all, err := s.bans.List(t.Context(), epoch)
		if err != nil {
			t.Fatal(err)
		}
		differs := func(b store.Ban) bool { return b.Reason != all[0].Reason }
		if len(all) != 0 && len(all) != size || slices.ContainsFunc(all, differs) {
			t.Fatalf("half of a call: %v", all)
		}
	}
}
