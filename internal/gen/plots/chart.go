package main

import (
	"fmt"
	"strings"

	"weir/internal/plot"
	"weir/internal/tabular"
	"weir/throttle/bloom"
)

const (
	width, height             = 860, 420
	left, right, top, bottom  = 76, 40, 66, 66 // of the plot itself
	plotWidth, plotHeight     = width - left - right, height - top - bottom
	least, most               = 0.0001, 0.3 // shares on the vertical axis, which is logarithmic
	mostAttackers, everyOther = 120_000, 20_000
)

// signs are how the points of each k look.
var signs = map[int]int{3: 2, 5: 1, 7: 4}

// draw draws the curve of the formula for every k among the points, and the points on it.
func draw(points []point) ([]byte, error) {
	p := &plot.Plot{
		Says: "Innocent networks refused, by the number of attackers",
		X:    plot.Axis{Title: "networks far over their limit, for each MiB of a table", Hi: mostAttackers, Grid: true},
		Y: plot.Axis{Lo: least, Hi: most, Log: true, Ticks: []plot.Tick{{Value: 0.0001, Text: "0.01 %"},
			{Value: 0.001, Text: "0.1 %"}, {Value: 0.01, Text: "1 %"}, {Value: 0.1, Text: "10 %"}}},
	}
	for n := 0; n <= mostAttackers; n += everyOther {
		p.X.Ticks = append(p.X.Ticks, plot.Tick{Value: float64(n), Text: tabular.Grouped(int64(n))})
	}
	var measured []plot.Series
	for _, at := range points {
		class := fmt.Sprintf("k%d", at.k)
		if n := len(measured); n == 0 || measured[n-1].Class != class {
			p.Series = append(p.Series, plot.Series{Class: class, Sign: plot.None, Points: curve(at.k)})
			measured = append(measured, plot.Series{Name: fmt.Sprintf("k = %d", at.k), Class: class, Sign: signs[at.k],
				Loose: true})
		}
		last := &measured[len(measured)-1]
		last.Points = append(last.Points, plot.Point{X: at.perMiB(), Y: at.measured})
	}
	p.Series = append(p.Series, measured...)
	for i := range measured {
		measured[i].Loose = false // in the legend
	}
	// The legend is in the corner that no curve comes to.
	return collateral.around(p, measured, left+plotWidth-110, top+plotHeight-91)
}

// A card is what stands around a plot.
type card struct {
	from, title, says, heading, small string
	classes                           [3]string // of the series, in the order of their colours
}

var collateral = card{
	from:  "bloomcollateral.csv",
	title: "Innocent networks refused, by the number of attackers",
	says: "The share of innocent networks that a Bloom limiter refuses rises with the number of networks that are far " +
		"over their limit. Curves show the formula for 3, 5 and 7 limiters of each source, points what was measured; " +
		"the points lie on the curves.",
	heading: "Innocent networks refused",
	small:   "lines: the formula; points: measured, with the limiters of package bloom",
	classes: [3]string{"k3", "k5", "k7"},
}

// around draws a plot with its card, and the legend at a position.
func (c *card) around(p *plot.Plot, legend []plot.Series, fromX, fromY int) ([]byte, error) {
	picture, err := p.Draw().SVG()
	if err != nil {
		return nil, err
	}
	one, two, three := c.classes[0], c.classes[1], c.classes[2]
	var b strings.Builder
	fmt.Fprintf(&b, head, width, height, c.from, c.title, c.says, plot.CSS, one, two, three, width-2, height-2,
		c.heading, c.small)
	fmt.Fprintf(&b, `<svg x="%d" y="%d" width="%d" height="%d" overflow="visible">%s</svg>`+"\n", left, top, plotWidth,
		plotHeight, picture)
	for i, s := range legend {
		const step = 26
		key, err := s.Key()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">%s<text class="name" x="38" y="12">%s</text></g>`+"\n", fromX,
			fromY+step*i, key, s.Name)
	}
	b.WriteString("</svg>\n")
	return []byte(b.String()), nil
}

// curve is (1 - e^(-kn/m))^k up to the top of the plot, or to its right edge.
func curve(k int) (points []plot.Point) {
	const steps = 240
	limiters := int64(1<<20/bloom.LineBytes) * bloom.Lanes
	for i := 1; i <= steps; i++ {
		n := float64(mostAttackers) * float64(i) / steps
		if share := bloom.Collateral(k, limiters, n); share >= least && share <= most {
			points = append(points, plot.Point{X: n, Y: share})
		}
	}
	return points
}

// The colours are those of the other pictures in docs/img.
const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="14">
  <!-- Made by go generate ./internal/gen/plots from lab/bench/%s. Do not edit. -->
  <title id="title">%s</title>
  <desc id="desc">%s</desc>
  <style>%[6]s
    svg { --soft: #4a5866; --line: #dde3e9; --paper: #ffffff; --edge: #c9d1d9; --text: #1c2733; --%[7]s: #b07d12; --%[8]s: #3b73b9; --%[9]s: #2e7d4f }
    @media (prefers-color-scheme: dark) {
      svg { --soft: #a9b6c3; --line: #28323c; --paper: #12181f; --edge: #38434f; --text: #e6edf3; --%[7]s: #d9a93f; --%[8]s: #6ea2e0; --%[9]s: #57b27d }
    }
    .card { fill: var(--paper); stroke: var(--edge) }
    .plot { width: 100%%; height: 100%%; padding: 0 }
    .grid { stroke-opacity: 1 }
    .plot text.title { fill: var(--soft) }
    text { fill: var(--text) }
    .small { font-size: 12px; fill: var(--soft) }
    .name { font-weight: 600 }
    .sign { fill: var(--paper); stroke: var(--of); stroke-width: 2 }
    .%[7]s { --of: var(--%[7]s) } .%[8]s { --of: var(--%[8]s) } .%[9]s { --of: var(--%[9]s) }
  </style>
  <rect class="card" x="1" y="1" width="%[10]d" height="%[11]d" rx="10"/>
  <text class="name" x="76" y="34">%[12]s</text>
  <text class="small" x="76" y="52">%[13]s</text>
`
