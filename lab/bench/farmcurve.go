//go:build linux

package main

import (
	"fmt"
	"math"
	"time"

	"weir"
	"weir/throttle/quota"
)

// tellApart is how far apart messages about a limit that is nearly used up are, at least.
const tellApart = time.Millisecond

// overshootCurve is Q5c: by how much six nodes exceed a limit of 1,000 a second, against what is offered. The bound is
// what the other nodes grant until they are told: (N-1)/N · offered · (interval + delivery), and never more than was
// offered above the limit.
func overshootCurve(t *trial) (figures []figure) {
	const nodes, limit = 6, 1000
	rates := pick(t, []int{1000, 2000, 4000, 6000, 8000, 12_000, 16_000, 20_000}, []int{1000, 4000})
	runs, seconds := pick(t, 3, 1), pick(t, 5, 2)
	csv := "offered,measured,delivery_ms\n"
	for _, rate := range rates {
		var over, late []float64
		offered := 0
		for range runs {
			all := grow(nodes, quota.Options{Policies: []quota.Policy{{Name: "p", Limit: quota.Count(limit),
				Period: weir.Period{Length: time.Second}}}})
			granted, asked := offer(all, rate, seconds)
			late = append(late, delivery(all).Seconds())
			reap(all)
			offered = max(offered, asked/seconds)
			over = append(over, limit*excess(quota.Fixed, granted, limit, seconds))
		}
		measured, wire := median(over), median(late)
		bound := func(interval time.Duration) float64 {
			const others = float64(nodes-1) / nodes
			return min(max(0, float64(offered-limit)), others*float64(offered)*(interval.Seconds()+wire))
		}
		got := most(math.Floor(bound(quota.TellEvery)), measured, "%.0f")
		if rate <= limit { // What is offered comes at random: a second may have more than the mean.
			got = beside(measured, "%.0f")
		}
		figures = append(figures, figure{fmt.Sprintf("farm of %d, one account, %d a second, offered %d a second: over the "+
			"limit in the worst second, median of %d, against (N−1)/N · offered · (10 ms + delivery)", nodes, limit,
			offered, runs), []value{got}, fmt.Sprintf("bound %.0f where all is told at once, delivery p99 %.1f ms",
			bound(tellApart), 1000*wire)})
		csv += fmt.Sprintf("%d,%.6g,%.4g\n", offered, measured, 1000*wire)
	}
	t.points("farmovershoot.csv", csv)
	return figures
}
