package outbreak_test

import (
	"fmt"
	"time"

	"weir/throttle/outbreak"
)

// A stolen account sends a mail to somebody new every second. The clock is the caller's.
func Example() {
	var options outbreak.Options
	p, err := options.Params("ann", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	var state outbreak.State
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	begin, passed := now, 0
	for victim := uint64(1); ; victim++ {
		passed += len(state.Tick(&p, now, nil)) // what leaves the delay queue is sent
		fates := make([]outbreak.Fate, 1)
		d := state.Submit(&p, now, victim, []uint64{victim}, nil, fates)
		passed += d.Passed
		if d.Stopped {
			break
		}
		now = now.Add(time.Second)
	}
	fmt.Printf("stopped after %s: %d passed, %d are held\n", now.Sub(begin), passed, len(state.Waiting()))
	// Output: stopped after 21s: 1 passed, 21 are held
}

// A mail to 18 is split: 15 go now, one a minute follows.
func ExampleState_Tick() {
	var options outbreak.Options
	p, _ := options.Params("ann", "")
	var state outbreak.State
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	recipients := make([]uint64, 18) // keyed hashes of the addresses
	for i := range recipients {
		recipients[i] = uint64(i)
	}
	d := state.Submit(&p, now, 1, recipients, nil, make([]outbreak.Fate, 18))
	fmt.Println(d.Passed, "now,", d.Delayed, "later")
	for due := state.Due(&p); !due.IsZero(); due = state.Due(&p) {
		for _, item := range state.Tick(&p, due, nil) {
			fmt.Println(due.UTC().Format("15:04"), "recipient", item.Number)
		}
	}
	// Output:
	// 15 now, 3 later
	// 12:01 recipient 15
	// 12:02 recipient 16
	// 12:03 recipient 17
}

// Limits of one user go before those of all.
func ExampleLimits_Set() {
	var l outbreak.Limits
	fmt.Println(l.Set("stop=50"), l.Set("rate=5/m"), l)
	fmt.Println(l.Set("stpo=50"))
	var options outbreak.Options
	p, _ := options.Params("ann", l.String())
	fmt.Println(p.Stop, p.Every)
	// Output:
	// <nil> <nil> {"rate":"5/m","stop":50}
	// there is no limit "stpo" (did you mean "stop"?)
	// 50 12s
}
