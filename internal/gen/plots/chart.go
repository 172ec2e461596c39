package main

import (
	"fmt"
	"math"
	"strings"

	"weir/throttle/bloom"
)

// Where things stand in the picture.
const (
	width, height             = 860, 420
	left, right, top, bottom  = 76, 40, 66, 66 // of the plot itself
	plotWidth, plotHeight     = width - left - right, height - top - bottom
	least, most               = 0.0001, 0.3 // shares on the vertical axis, which is logarithmic
	mostAttackers, everyOther = 120_000, 20_000
)

func x(perMiB float64) float64 { return left + plotWidth*perMiB/mostAttackers }

func y(share float64) float64 {
	return top + plotHeight*(math.Log(most)-math.Log(share))/(math.Log(most)-math.Log(least))
}

// draw draws the curve of the formula for every k among the points, and the points on it.
func draw(points []point) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, head, width, height, width-2, height-2)
	axes(&b)
	last, series := 0, 0
	for _, p := range points {
		if p.k != last {
			curve(&b, p.k)
			legend(&b, p.k, series)
			last, series = p.k, series+1
		}
	}
	for _, p := range points {
		mark(&b, p.k, x(p.perMiB()), y(p.measured))
	}
	fmt.Fprintf(&b, "</svg>\n")
	return []byte(b.String())
}

func axes(b *strings.Builder) {
	for _, share := range []struct {
		at   float64
		text string
	}{{0.0001, "0.01 %"}, {0.001, "0.1 %"}, {0.01, "1 %"}, {0.1, "10 %"}} {
		fmt.Fprintf(b, `  <path class="grid" d="M%d %.1f H%d"/>`+"\n", left, y(share.at), left+plotWidth)
		fmt.Fprintf(b, `  <text class="small" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-10, y(share.at)+4,
			share.text)
	}
	for n := 0; n <= mostAttackers; n += everyOther {
		at := x(float64(n))
		fmt.Fprintf(b, `  <path class="grid" d="M%.1f %d V%d"/>`+"\n", at, top, top+plotHeight)
		fmt.Fprintf(b, `  <text class="small" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at,
			top+plotHeight+20, thousands(n))
	}
	fmt.Fprintf(b,
		`  <text class="small" x="%.1f" y="%d" text-anchor="middle">networks far over their limit, for each MiB of a table</text>`+"\n",
		left+float64(plotWidth)/2, height-20)
}

// curve draws (1 - e^(-kn/m))^k up to the top of the plot, or to its right edge.
func curve(b *strings.Builder, k int) {
	const steps = 240
	limiters := int64(1<<20/bloom.LineBytes) * bloom.Lanes
	var path strings.Builder
	letter := "M"
	for i := 1; i <= steps; i++ {
		n := float64(mostAttackers) * float64(i) / steps
		share := bloom.Collateral(k, limiters, n)
		if share < least {
			continue
		}
		if share > most {
			break
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", letter, x(n), y(share))
		letter = "L"
	}
	fmt.Fprintf(b, `  <path class="curve k%d" d="%s"/>`+"\n", k, path.String())
}

// legend names a curve, in the corner that none of them comes to.
func legend(b *strings.Builder, k, series int) {
	const fromX, fromY, step = left + plotWidth - 110, top + plotHeight - 84, 26
	at := float64(fromY + step*series)
	fmt.Fprintf(b, `  <path class="curve k%d" d="M%d %.1f h32"/>`+"\n", k, fromX, at)
	mark(b, k, fromX+16, at)
	fmt.Fprintf(b, `  <text class="name" x="%d" y="%.1f">k = %d</text>`+"\n", fromX+42, at+5, k)
}

// mark draws a point. Each k has a shape of its own, for those who do not tell the colours apart.
func mark(b *strings.Builder, k int, atX, atY float64) {
	switch k {
	case 3:
		fmt.Fprintf(b, `  <rect class="mark k3" x="%.1f" y="%.1f" width="9" height="9"/>`+"\n", atX-4.5, atY-4.5)
	case 7:
		fmt.Fprintf(b, `  <path class="mark k7" d="M%.1f %.1f l6 10 h-12 z"/>`+"\n", atX, atY-6)
	default:
		fmt.Fprintf(b, `  <circle class="mark k%d" cx="%.1f" cy="%.1f" r="5"/>`+"\n", k, atX, atY)
	}
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// The colours are those of the other pictures in docs/img.
const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc" font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="14">
  <!-- Made by go generate ./internal/gen/plots from lab/bench/b4.csv. Do not edit. -->
  <title id="title">Innocent networks refused, by the number of attackers</title>
  <desc id="desc">The share of innocent networks that a Bloom limiter refuses rises with the number of networks that are far over their limit. Curves show the formula for 3, 5 and 7 limiters of each source, points what was measured; the points lie on the curves.</desc>
  <style>
    .card { fill: #ffffff; stroke: #c9d1d9 }
    .grid { stroke: #dde3e9; fill: none }
    text { fill: #1c2733 }
    .small { font-size: 12px; fill: #4a5866 }
    .name { font-weight: 600 }
    .curve { fill: none; stroke-width: 2; stroke: #5b6b7a }
    .mark { fill: #ffffff; stroke-width: 2; stroke: #5b6b7a }
    .k3 { stroke: #b07d12 }
    .k5 { stroke: #3b73b9 }
    .k7 { stroke: #2e7d4f }
    @media (prefers-color-scheme: dark) {
      .card { fill: #12181f; stroke: #38434f }
      .grid { stroke: #28323c }
      text { fill: #e6edf3 }
      .small { fill: #a9b6c3 }
      .curve { stroke: #93a3b3 }
      .mark { fill: #12181f; stroke: #93a3b3 }
      .k3 { stroke: #d9a93f }
      .k5 { stroke: #6ea2e0 }
      .k7 { stroke: #57b27d }
    }
  </style>
  <rect class="card" x="1" y="1" width="%d" height="%d" rx="10"/>
  <text class="name" x="76" y="34">Innocent networks refused</text>
  <text class="small" x="76" y="52">lines: the formula; points: measured, with the limiters of package bloom</text>
`
