package redis

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"weir/farm"
)

// BenchmarkTake measures calls per second: 64 callers at once, six runs, a hundred keys.
func BenchmarkTake(b *testing.B) {
	fixed := farm.Want{Rule: "f", Way: farm.Fixed, Limit: 1 << 40, Period: time.Second, Need: 1}
	steady := farm.Want{Rule: "s", Way: farm.Steady, Limit: 1 << 30, Burst: 1 << 30, Period: time.Second, Need: 1}
	sliding := farm.Want{Rule: "w", Way: farm.Sliding, Limit: 1 << 40, Period: time.Second, Need: 1}
	for _, x := range []struct {
		name  string
		wants []farm.Want
	}{
		{"fixed", []farm.Want{fixed}},
		{"steady", []farm.Want{steady}},
		{"sliding", []farm.Want{sliding}},
		{"three", []farm.Want{fixed, steady, sliding}},
	} {
		b.Run(x.name, func(b *testing.B) {
			p := start(b, redisServer(b)).open("bench")
			if err := p.Check(b.Context()); err != nil {
				b.Fatal(err)
			}
			var callers atomic.Int64
			b.SetParallelism(32)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				caller := callers.Add(1)
				ask := farm.Ask{Run: fmt.Sprint("run", caller%6), Seq: uint64(caller) << 32}
				ask.Wants = append(ask.Wants, x.wants...)
				for n := 0; pb.Next(); n++ {
					ask.Seq++
					ask.Key = fmt.Sprint("key", (n+int(caller))%100)
					if _, err := p.Take(b.Context(), ask); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
