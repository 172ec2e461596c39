//go:build linux

package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"weir"
	"weir/farm"
	"weir/throttle/quota"
)

// stalled is Q7: how long decisions take while the engine stands still, before it is taken for lost and afterwards.
func stalled(t *trial) []figure {
	rounds, later := pick(t, 40, 3), pick(t, 2000, 200)
	const askers = 8
	counters, engine := t.startRedis()
	b := t.borrow(counters, quota.Policy{Name: "hourly", Limit: quota.Count(1_000_000_000),
		Period: weir.Period{Length: time.Hour}, Farm: quota.FarmExact, Ahead: quota.Count(0)})
	t.cleanup(func() { _ = syscall.Kill(engine.Pid, syscall.SIGCONT) })
	timed := func(account string, a *weir.Answer) time.Duration {
		start := time.Now()
		granted(b.Quota, account, a)
		return time.Since(start)
	}
	var up, first, open []time.Duration
	var a weir.Answer
	for range rounds {
		check(syscall.Kill(engine.Pid, syscall.SIGCONT))
		until(func() bool { return granted(b.Quota, "account-0", &a) },
			func() error { return fmt.Errorf("the engine is not back: %+v", b.guard.Stats()) })
		for range later / rounds {
			up = append(up, timed("account-0", &a))
		}
		check(syscall.Kill(engine.Pid, syscall.SIGSTOP))
		waited := make([][]time.Duration, askers)
		together(askers, func(i int) error {
			var a weir.Answer
			for len(waited[i]) == 0 || b.guard.Stats().State != farm.PotStalled {
				waited[i] = append(waited[i], timed(fmt.Sprintf("account-%d", i), &a))
			}
			return nil
		})
		for _, list := range waited {
			first = append(first, list...)
		}
		for i := range later / rounds {
			open = append(open, timed(fmt.Sprintf("account-%d", i%askers), &a))
			time.Sleep(time.Millisecond) // so that looking whether it is back falls into it
		}
	}
	p99 := func(list []time.Duration) float64 { // in milliseconds
		slices.Sort(list)
		return list[len(list)*99/100].Seconds() * 1000
	}
	return []figure{
		{fmt.Sprintf("the engine is stopped (SIGSTOP): p99 of %d decisions until it is taken for lost, with ahead: 0",
			len(first)), []value{most(25, p99(first), "%.1f ms")}, fmt.Sprintf("%.3f ms while it runs", p99(up))},
		{fmt.Sprintf("… of %d decisions afterwards", len(open)), []value{most(1, p99(open), "%.3f ms")}, ""},
	}
}
