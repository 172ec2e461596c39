package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir"
	"weir/store"
)

// BenchmarkJudge is one decision of an account among 100,000, under one requests policy.
func BenchmarkJudge(b *testing.B) {
	for _, w := range []WindowKind{Fixed, Sliding, GCRA} {
		b.Run(string(w), func(b *testing.B) {
			p := perSecond(1000)
			p.Window = w
			q, err := New(one(p))
			if err != nil {
				b.Fatal(err)
			}
			const keys = 100_000
			accounts := make([]string, keys)
			for i := range accounts {
				accounts[i] = fmt.Sprintf("account-%06d", i)
			}
			order := rand.New(rand.NewPCG(1, 2)).Perm(keys)
			var a weir.Answer
			now := epoch
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ev := &weir.Event{Account: accounts[order[i%keys]], Time: now.Add(time.Duration(i) * 1000)}
				a.Clear()
				_ = q.Judge(context.Background(), ev, &a)
				q.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: true})
			}
		})
	}
}

// BenchmarkDirty hands out the counters of 10,000 accounts that have changed, of 100,000; the time is for each counter.
func BenchmarkDirty(b *testing.B) {
	q, err := New(one(monthly(1 << 40)))
	if err != nil {
		b.Fatal(err)
	}
	const accounts = 100_000
	judge := func(step int) {
		var a weir.Answer
		for i := 0; i < accounts; i += step {
			ev := weir.Event{Account: fmt.Sprintf("account-%06d", i), Time: epoch}
			a.Clear()
			_ = q.Judge(context.Background(), &ev, &a)
		}
	}
	judge(1)
	batch := make([]store.Counter, 0, store.MaxBatch)
	for more := true; more; {
		_, more = q.Dirty(batch, "plans", epoch)
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		judge(10)
		b.StartTimer()
		if saved, _ := q.Dirty(batch, "plans", epoch); len(saved) != accounts/10 {
			b.Fatal(len(saved))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(accounts/10), "ns/counter")
}
