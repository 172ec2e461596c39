package bloom_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"
	"time"

	"weir"
	"weir/throttle/bloom"
)

// Two events a second for each /24, and five at once. A program passes time.Now().
func ExampleLimiter_Allow() {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	limiter, err := bloom.New(bloom.Options{Rate: weir.Rate{Count: 2, Per: time.Second}, Burst: 5}, now)
	if err != nil {
		log.Fatal(err)
	}
	client, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")
	fmt.Println(limiter.Allow(now, client, 5), limiter.Allow(now, client, 1), limiter.Allow(now, other, 1))
	fmt.Println(limiter.Allow(now.Add(time.Second), client, 2))
	// Output:
	// true false true
	// true
}

func ExampleNew() {
	now := time.Now()
	limiter, err := bloom.New(bloom.Options{
		Rate:       weir.Rate{Count: 2, Per: time.Second}, // for each /24
		Burst:      5,
		Attackers:  10_000,
		Collateral: 0.01,
	}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	ask := func(source string) weir.Verdict {
		var a weir.Answer
		_ = limiter.Judge(context.Background(), &weir.Event{Time: now, Source: netip.MustParseAddr(source)}, &a)
		return a.Verdict
	}
	for range 6 {
		fmt.Print(ask("192.0.2.1"), " ")
	}
	fmt.Println(ask("198.51.100.1"))
	// Output: admit admit admit admit admit refuse admit
}

func ExampleSize() {
	plan, err := bloom.Size(5, 412_000, 0.01, 0)
	fmt.Println(plan.Lines, "lines,", plan.Bytes>>20, "MiB for both tables,", err)
	// Output: 130894 lines, 15 MiB for both tables, <nil>
}
