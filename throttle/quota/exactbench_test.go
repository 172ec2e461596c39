package quota

import (
	"context"
	"testing"
	"time"

	"weir"
	"weir/farm/farmtest"
)

// BenchmarkJudgeExact is one decision of an account that has plenty on loan, beside one that is counted here.
func BenchmarkJudgeExact(b *testing.B) {
	for _, mode := range []Farm{FarmLocal, FarmExact} {
		b.Run(string(mode), func(b *testing.B) {
			q, err := New(one(Policy{Name: "p", Limit: Count(1_000_000_000_000), Period: hour, Farm: mode}))
			if err != nil {
				b.Fatal(err)
			}
			if mode == FarmExact {
				began := time.Now()
				l := q.Lend(Lending{Pot: farmtest.NewPot(time.Now), Name: "plans", Run: "a",
					Farm: func() []string { return []string{"a"} }, Nodes: func() int { return 1 },
					Call: func([]byte) error { return nil }, Now: time.Now,
					Since: func() time.Duration { return time.Since(began) }})
				defer l.Close()
			}
			var a weir.Answer
			b.ReportAllocs()
			for b.Loop() {
				ev := &weir.Event{Account: "account", Time: time.Now()}
				a.Clear()
				_ = q.Judge(context.Background(), ev, &a)
				if a.Verdict != weir.Admit {
					b.Fatal("refused")
				}
				q.Settle(a.Hold, weir.Outcome{Time: ev.Time, Done: true})
			}
		})
	}
}
