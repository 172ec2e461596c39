//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"weir"
	"weir/throttle/bloom"
)

// idleTables is B8: the processor time that a limiter takes by itself, as a share of a core. A thousand networks have
// asked, and then none does for an hour. For comparison, a thousand networks that ask once a second each for ten
// minutes: what the limiter takes beside judging them. Time is passed in; only the calls that are due are measured.
func idleTables(t *trial) (figures []figure) {
	for _, attackers := range []int64{million, 10 * million} {
		if t.quick {
			attackers /= 100
		}
		l := try(bloom.New(bloom.Options{Rate: weir.Rate{Count: 100, Per: time.Second}, Burst: 200,
			Attackers: attackers}, begin))
		now, due := begin, begin
		// pass lets time pass and returns the processor time of what is due in it.
		pass := func(d time.Duration) (spent time.Duration) {
			for end := now.Add(d); now.Before(end); {
				if now = end; due.Before(end) {
					now = due
				}
				if !due.After(now) {
					before := processTime()
					due = l.Advance(now)
					spent += processTime() - before
				}
			}
			return spent
		}
		var ev weir.Event
		var a weir.Answer
		var busy time.Duration
		for range 600 {
			for i := range 1000 {
				a.Clear()
				ev.Time, ev.Source = now, netip.AddrFrom4(network(i))
				if err := l.Judge(context.Background(), &ev, &a); err != nil || a.Verdict != weir.Admit {
					noneRefused(1)
				}
			}
			busy += pass(time.Second)
		}
		idle := pass(time.Hour)
		share := idle.Seconds() / time.Hour.Seconds()
		figures = append(figures,
			figure{fmt.Sprintf("processor time of a limiter for %d attackers that nobody asks for an hour", attackers),
				"≤ 0.1 % of a core", fmt.Sprintf("%.4f %% (with 1,000 networks that ask once a second: %.2f %%)",
					100*share, 100*busy.Seconds()/600), share <= 0.001})
	}
	return figures
}
