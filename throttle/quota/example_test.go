package quota_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"weir"
	"weir/throttle/quota"
)

// Two requests a second for each account. A program passes time.Now().
func ExampleQuota_Allow() {
	q, err := quota.New(quota.Options{Policies: []quota.Policy{
		{Name: "per-second", Limit: quota.Count(2), Period: weir.Period{Length: time.Second}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	fmt.Println(q.Allow(now, "acme"), q.Allow(now, "acme"), q.Allow(now, "acme"), q.Allow(now, "other"))
	fmt.Println(q.Allow(now.Add(time.Second), "acme"))
	// Output:
	// true true false true
	// true
}

// Judge also says why an event is refused, and until when.
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

// What was used of a month is saved now and then, and goes on after a restart.
func ExampleQuota_Dirty() {
	options := quota.Options{Policies: []quota.Policy{
		{Name: "monthly", Limit: quota.Count(3), Period: weir.Period{Calendar: weir.Month}},
	}}
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	ask := func(q *quota.Quota) {
		var a weir.Answer
		_ = q.Judge(context.Background(), &weir.Event{Time: now, Account: "acme"}, &a)
		fmt.Println(a.Verdict, a.Figures[0].Remaining)
	}
	before, _ := quota.New(options)
	ask(before)
	ask(before)
	saved, _ := before.Dirty(nil, "plans", now)

	now = now.Add(24 * time.Hour)
	after, _ := quota.New(options)
	for _, c := range saved {
		fmt.Println(c.Rule, c.Used)
		if err := after.Restore(c, now); err != nil {
			fmt.Println(err)
		}
	}
	ask(after)
	ask(after)
	// Output:
	// admit 2
	// admit 1
	// monthly requests fixed month UTC 2
	// admit 0
	// refuse 0
}
