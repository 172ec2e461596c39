//go:build linux

package main

import (
	"fmt"
	"time"
)

// tails is the second half of Q2: how late answers are at half and at four fifths of the requests a second that nginx
// can do. Requests are sent at a constant rate, also while the proxy stands still, and the time of an answer counts
// from when its request should have been sent.
func (t *trial) tails(proxies []*proxy, saturation float64, pids []int) (figures []figure) {
	const connections = 64
	rounds, each := pick(t, 5, 1), pick[time.Duration](t, 3000, 250)*time.Millisecond
	var sides []*callers
	for _, p := range proxies {
		c := t.dialCallers(p.plain, connections, 1)
		c.run(newPace(0, 10*connections)) // connections to the service
		sides = append(sides, c)
	}
	for _, share := range []int{50, 80} {
		rate, turns := max(int(saturation*float64(share)/100), 1), 0
		all, busy := quietRounds(rounds, 90*time.Second, pids, func() []float64 {
			turns++
			late := make([]float64, 3*len(sides)) // p50, p99 and p99.9 of each side, in milliseconds
			for turn := range sides {
				at := (turn + turns) % len(sides)
				p := newPace(rate, max(int(float64(rate)*each.Seconds()), 1))
				sides[at].run(p)
				for i, q := range []int{500, 990, 999} {
					late[3*at+i] = p.percentile(q).Seconds() * 1000
				}
			}
			return late
		})
		got := medians(all)
		for i, name := range []string{"p50", "p99", "p99.9"} {
			nginx, haproxy, ours := got[3*byNginx+i], got[3*byHAProxy+i], got[3*byWeir+i]
			ratio := beside(ours/nginx, "%.2f ×")
			if name == "p99" && share == 50 {
				ratio = most(2, ours/nginx, "%.2f ×")
			}
			figures = append(figures, figure{fmt.Sprintf("open loop: %s of answers at a constant rate of %d %% of nginx's most "+
				"(%d/s), from when the request was due, against nginx", name, share, rate), []value{ratio},
				fmt.Sprintf("%.2f ms against %.2f ms; HAProxy %.2f ms%s", ours, nginx, haproxy, busy)})
		}
	}
	return figures
}
