package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"weir/internal/plot"
	"weir/internal/tabular"
	"weir/throttle/quota"
)

// What was measured: nodes that share a limit of so many a second.
const (
	sharing, shared = 6, 1000
	atOnce          = time.Millisecond // between two messages about a limit that is nearly used up
	everyOffered    = 4000             // on the horizontal axis
)

var overshoot = card{
	from:  "farmovershoot.csv",
	title: "By how much a farm exceeds a limit, by what is offered",
	says: "Six nodes share a limit of 1,000 requests a second for one account. What they grant above it in the worst " +
		"second rises with what is offered. One line shows the bound where nodes are told every 10 ms, one where they are " +
		"told at once, and points what was measured.",
	heading: "Granted above a limit of 1,000 a second, in the worst second",
	classes: [3]string{"bound", "measured", "once"},
}

// drawOvershoot draws what was measured, and the bounds.
func drawOvershoot(r io.Reader) ([]byte, error) {
	rows, err := columns(r, 0, "offered", "measured", "delivery_ms")
	if err != nil {
		return nil, err
	}
	measured := plot.Series{Name: "measured", Class: "measured", Sign: 1}
	var most float64
	var late []float64
	for _, row := range rows {
		measured.Points = append(measured.Points, plot.Point{X: row[0], Y: row[1]})
		most = max(most, row[0])
		late = append(late, row[2])
	}
	slices.Sort(late)
	delivery := time.Duration(late[len(late)/2] * float64(time.Millisecond))
	most = everyOffered * math.Ceil(most/everyOffered)
	bound := plot.Series{Name: "bound: told every 10 ms", Class: "bound", Sign: plot.None,
		Points: boundUpTo(most, quota.TellEvery+delivery)}
	once := plot.Series{Name: "told at once: 1 ms apart", Class: "once", Sign: plot.None,
		Points: boundUpTo(most, atOnce+delivery)}

	p := &plot.Plot{Says: overshoot.title, X: plot.Axis{Title: "requests a second that are offered, over all nodes",
		Hi: most, Grid: true}, Series: []plot.Series{bound, once, measured}}
	p.Series[2].Loose = true
	for n := 0.; n <= most; n += everyOffered {
		p.X.Ticks = append(p.X.Ticks, plot.Tick{Value: n, Text: tabular.Grouped(int64(n))})
	}
	var highest float64
	for _, s := range p.Series {
		for _, at := range s.Points {
			highest = max(highest, at.Y)
		}
	}
	const steps, round = 5, 10
	step := max(1, math.Ceil(highest/(steps*round))) * round
	p.Y.Hi = steps * step
	for i := range steps + 1 {
		p.Y.Ticks = append(p.Y.Ticks, plot.Tick{Value: float64(i) * step, Text: strconv.Itoa(i * int(step))})
	}
	c := overshoot
	c.small = fmt.Sprintf("six nodes, one account; lines: (N−1)/N · offered · (interval + delivery), delivery %.1f ms (p99)",
		delivery.Seconds()*1000)
	return c.around(p, []plot.Series{bound, once, measured}, left+24, top+16)
}

// boundUpTo is what the other nodes grant until they are told, and no more than is offered above the limit.
func boundUpTo(most float64, told time.Duration) (points []plot.Point) {
	const every = 100
	for x := float64(shared); x <= most; x += every {
		points = append(points, plot.Point{X: x, Y: min(x-shared, x*(sharing-1)/sharing*told.Seconds())})
	}
	return points
}
