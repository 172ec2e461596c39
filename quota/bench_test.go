package quota

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"weir"
)

// BenchmarkJudge is one decision of an account among 100,000, under one requests policy.
func BenchmarkJudge(b *testing.B) {
	for _, w := range []Window{Fixed, Sliding, GCRA} {
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
				ev := weir.Event{Account: accounts[order[i%keys]], Time: now.Add(time.Duration(i) * 1000)}
				a.Clear()
				_ = q.Judge(context.Background(), &ev, &a)
				q.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: true})
			}
		})
	}
}
