package main

import (
	"io"
	"strconv"

	"weir/internal/plot"
	"weir/internal/tabular"
)

var overshoot = card{
	from:  "farmovershoot.csv",
	title: "By how much a farm exceeds a limit, by what is offered",
	says: "Six nodes share a limit of 1,000 requests a second for one account. What they grant above it in the worst " +
		"second rises with what is offered. One line shows the bound where nodes are told every 10 ms, one where they are " +
		"told at once, and points what was measured.",
	heading: "Granted above a limit of 1,000 a second, in the worst second",
	small:   "six nodes, one account; lines: (N−1)/N · offered · (interval + delivery), as measured; points: median of three runs",
	classes: [3]string{"bound", "measured", "once"},
}

// drawOvershoot draws what was measured, and the bounds.
func drawOvershoot(r io.Reader) ([]byte, error) {
	rows, err := columns(r, 0, "offered", "measured", "bound", "at_once")
	if err != nil {
		return nil, err
	}
	bound := plot.Series{Name: "told every 10 ms", Class: "bound", Sign: plot.None}
	once := plot.Series{Name: "told at once: 1 ms", Class: "once", Sign: plot.None}
	measured := plot.Series{Name: "measured", Class: "measured", Sign: 1}
	p := &plot.Plot{Says: overshoot.title, X: plot.Axis{Title: "requests a second that are offered, over all nodes",
		Grid: true}}
	for _, row := range rows {
		x := row[0]
		measured.Points = append(measured.Points, plot.Point{X: x, Y: row[1]})
		bound.Points = append(bound.Points, plot.Point{X: x, Y: row[2]})
		once.Points = append(once.Points, plot.Point{X: x, Y: row[3]})
		p.X.Hi, p.Y.Hi = max(p.X.Hi, x), max(p.Y.Hi, row[1], row[2], row[3])
	}
	// Round numbers: five steps or so upwards, and one for every 4,000 that are offered.
	step := 10.
	for 5*step < p.Y.Hi {
		step += 10
	}
	for p.Y.Hi = 0; p.Y.Hi < 5*step; {
		p.Y.Hi += step
		p.Y.Ticks = append(p.Y.Ticks, plot.Tick{Value: p.Y.Hi, Text: strconv.Itoa(int(p.Y.Hi))})
	}
	for n := 0.; n <= p.X.Hi; n += 4000 {
		p.X.Ticks = append(p.X.Ticks, plot.Tick{Value: n, Text: tabular.Grouped(int64(n))})
	}
	legend := []plot.Series{bound, once, measured}
	measured.Loose = true
	p.Series = []plot.Series{bound, once, measured}
	return overshoot.around(p, legend, left+24, top+16)
}
