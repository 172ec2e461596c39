package redis

import (
	"fmt"
	"strconv"
	"strings"
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

// BenchmarkKeySize measures the memory that a key takes in Redis: one account with one limit, and with three, used by
// so many nodes.
func BenchmarkKeySize(b *testing.B) {
	fixed := farm.Want{Rule: "f", Way: farm.Fixed, Limit: 1 << 40, Period: time.Hour, Need: 1000}
	steady := farm.Want{Rule: "s", Way: farm.Steady, Limit: 1 << 30, Burst: 1 << 30, Period: time.Hour, Need: 1000}
	sliding := farm.Want{Rule: "w", Way: farm.Sliding, Limit: 1 << 40, Period: time.Hour, Need: 1000}
	for _, x := range []struct {
		name  string
		wants []farm.Want
	}{
		{"fixed", []farm.Want{fixed}},
		{"steady", []farm.Want{steady}},
		{"sliding", []farm.Want{sliding}},
		{"three", []farm.Want{fixed, steady, sliding}},
	} {
		for _, runs := range []int{1, 3, 6} {
			b.Run(fmt.Sprintf("%s/%d", x.name, runs), func(b *testing.B) {
				s := start(b, redisServer(b))
				p := s.open("weir")
				now := time.Now().UnixMicro()
				p.clock, p.identity = func() int64 { return now }, func() string { return strings.Repeat("e", 40) }
				for run := range runs {
					ask := farm.Ask{Key: "plans account-4711", Run: fmt.Sprintf("node-%d/%d", run, now), Seq: 0}
					ask.Wants = append(ask.Wants, x.wants...)
					for range 17 { // all buckets of a sliding window
						ask.Seq++
						reply, err := p.Take(b.Context(), ask)
						if err != nil || !reply.Granted {
							b.Fatal(err)
						}
						for i, g := range reply.Grants {
							ask.Wants[i].Mark, ask.Wants[i].Used = g.Mark, g.Total
						}
						now += (time.Hour / 16).Microseconds()
					}
					now -= 17 * (time.Hour / 16).Microseconds()
				}
				names, _ := p.keys("plans account-4711")
				size, err := strconv.Atoi(s.do("MEMORY USAGE " + names[0]))
				if err != nil {
					b.Fatal(err)
				}
				for b.Loop() { // nothing is timed
				}
				b.ReportMetric(float64(size), "B/key")
			})
		}
	}
}
