package quota_test

import (
	"context"
	"fmt"
	"time"

	"weir"
	"weir/quota"
)

// Two requests a second for each account; the clock is the caller's.
func Example() {
	q, err := quota.New(quota.Options{Policies: []quota.Policy{
		{Name: "per-second", Limit: quota.Count(2), Period: weir.Period{Length: time.Second}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for range 3 {
		var a weir.Answer
		if err := q.Judge(context.Background(), &weir.Event{Time: now, Account: "acme"}, &a); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(a.Explain())
		if a.Verdict == weir.Admit {
			q.Settle(a.Hold, weir.Outcome{Time: now, Done: true})
		}
	}
	// Output:
	// admit
	// admit
	// refuse by per-second (over-limit): 0 of 2 requests left per 1s, until 2026-03-02T12:00:01.000Z
}
