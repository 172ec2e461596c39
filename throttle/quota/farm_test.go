package quota

import (
	"testing"
	"time"

	"weir"
)

// The source's case: a limit of 4 a second, five servers, five requests, one to each: the fifth is refused, or waits
// for the next second.
func TestFiveServersKeepOneLimit(t *testing.T) {
	for _, over := range []weir.Verdict{weir.Refuse, weir.Wait} {
		p := perSecond(4)
		if over == weir.Wait {
			p = delayed(p, 10, 5*time.Second)
		}
		const servers = 5
		var farm [servers]*rig
		var totals [servers]int64 // as each server last said
		for i := range farm {
			farm[i] = newRig(t, one(p))
		}
		for i := range farm {
			farm[i].q.Report(func(tally Tally) { totals[i] = max(totals[i], tally.Total) })
		}
		tell := func() {
			for i := range farm {
				tally := Tally{Account: "a", Rule: "per-second", Period: farm[i].now.Truncate(time.Second)}
				for j, total := range totals {
					if j != i {
						tally.Total += total
					}
				}
				farm[i].q.Others(tally, farm[i].now)
				farm[i].q.Others(tally, farm[i].now) // twice is as good as once
			}
		}
		for i := range servers - 1 {
			farm[i].admit("a")
			tell()
		}
		fifth := farm[servers-1].ask("a")
		if fifth.answer.Verdict != over || fifth.answer.Remaining != 0 {
			t.Fatalf("the fifth: %s", fifth.answer.Explain())
		}
		late := Tally{Account: "a", Rule: "per-second", Period: epoch.Add(-time.Second), Total: 4}
		farm[servers-1].now = epoch.Add(time.Second)
		farm[servers-1].q.Others(late, farm[servers-1].now) // of a period that is over
		if over == weir.Refuse {
			farm[servers-1].admit("a")
		}
	}
}
