package sqlite

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"weir/store"
)

// BenchmarkCommit measures durable writes of one ban each, by callers who wait for each one.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := mustOpen(b, Options{Folder: b.TempDir()})
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if err := s.Bans().Put(context.Background(),
							banOf(fmt.Sprintf("client-%d", i%100_000))); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			stats := s.Stats()
			b.ReportMetric(float64(stats.Writes)/b.Elapsed().Seconds(), "writes/s")
			b.ReportMetric(float64(stats.Writes)/float64(max(stats.Commits, 1)), "writes/commit")
		})
	}
}

// BenchmarkSave measures counters saved in batches of 1000, as a quota does.
func BenchmarkSave(b *testing.B) {
	s := mustOpen(b, Options{Folder: b.TempDir()})
	batch := make([]store.Counter, 1000)
	for i := range batch {
		batch[i] = store.Counter{Throttle: "plans", Rule: "monthly", Account: fmt.Sprintf("account-%d", i),
			Period: epoch, Used: 1, Until: epoch.AddDate(0, 1, 0)}
	}
	for i := 0; b.Loop(); i++ {
		for j := range batch {
			batch[j].Used = int64(i + 1)
		}
		if err := s.Counters().Save(context.Background(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "counters/s")
}

// BenchmarkList reads 100,000 bans, as weir does when it starts.
func BenchmarkList(b *testing.B) {
	s := mustOpen(b, Options{Folder: b.TempDir()})
	for n := range 10 {
		batch := make([]store.Ban, store.MaxBatch)
		for i := range batch {
			batch[i] = banOf(fmt.Sprintf("client-%d-%d", n, i))
		}
		if err := s.Bans().Put(context.Background(), batch...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if all, err := s.Bans().List(context.Background(), epoch); err != nil || len(all) != 100_000 {
			b.Fatal(len(all), err)
		}
	}
}
