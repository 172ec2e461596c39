package flood

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// Where things stand in a picture. It is narrow, so that its text can still be read where a phone makes it smaller.
const (
	plotWidth                              = 480
	plotLeft, plotRight, plotTop, plotFoot = 52, 14, 12, 40
)

// A plot shows something over time.
type plot struct {
	strings.Builder
	height   float64
	from, to float64 // seconds
	most     float64 // on the vertical axis
}

// newPlot begins a picture. label says what is in it to those who cannot see it.
func newPlot(label string, height int, from, to int, most float64) *plot {
	p := &plot{height: float64(height), from: float64(from), to: float64(max(to, from+1)), most: most}
	fmt.Fprintf(p, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", plotWidth, height,
		html.EscapeString(label))
	return p
}

func (p *plot) done() template.HTML {
	p.WriteString("</svg>\n")
	return template.HTML(p.String()) // numbers and names of our own
}

func (p *plot) x(second float64) float64 {
	return plotLeft + (plotWidth-plotLeft-plotRight)*(second-p.from)/(p.to-p.from)
}

func (p *plot) y(value float64) float64 {
	return plotTop + (p.height-plotTop-plotFoot)*(1-min(value/p.most, 1))
}

// axes draws both, with values at some heights.
func (p *plot) axes(values []float64, text func(float64) string) {
	if p.from < 0 {
		fmt.Fprintf(p, `<rect class="warm" x="%.1f" y="%d" width="%.1f" height="%.1f"/>`, p.x(p.from), plotTop,
			p.x(min(p.to, 0))-p.x(p.from), p.height-plotTop-plotFoot)
		fmt.Fprintf(p, `<text class="mid" x="%.1f" y="%.1f">warm-up</text>`+"\n", (p.x(p.from)+p.x(min(p.to, 0)))/2,
			p.height-plotFoot+34)
	}
	for _, v := range values {
		fmt.Fprintf(p, `<path class="grid" d="M%d %.1f H%d"/>`, plotLeft, p.y(v), plotWidth-plotRight)
		fmt.Fprintf(p, `<text class="end" x="%d" y="%.1f">%s</text>`+"\n", plotLeft-8, p.y(v)+4,
			html.EscapeString(text(v)))
	}
	step := max(math.Ceil(p.to/6), 1)
	for s := 0.0; s <= p.to; s += step {
		unit := ""
		if s == 0 {
			unit = " s"
		}
		fmt.Fprintf(p, `<path class="grid" d="M%.1f %d v%.1f"/>`, p.x(s), plotTop, p.height-plotTop-plotFoot+4)
		fmt.Fprintf(p, `<text class="mid" x="%.1f" y="%.1f">%.0f%s</text>`+"\n", p.x(s), p.height-plotFoot+18, s, unit)
	}
}

// A point of a line.
type point struct{ x, y float64 }

// line draws a line with a mark at each point. Each series has a colour, a pattern and a mark, for those who do not
// tell colours apart.
func (p *plot) line(series string, points []point) {
	var path strings.Builder
	letter := "M"
	for _, at := range points {
		fmt.Fprintf(&path, "%s%.1f %.1f", letter, p.x(at.x), p.y(at.y))
		letter = "L"
	}
	if len(points) > 1 {
		fmt.Fprintf(p, `<path class="line %s" d="%s"/>`+"\n", series, path.String())
	}
	for _, at := range points {
		p.WriteString(mark(series, p.x(at.x), p.y(at.y)))
	}
	p.WriteByte('\n')
}

// mark draws the mark of a series.
func mark(series string, x, y float64) string {
	switch series {
	case "nginx":
		return fmt.Sprintf(`<rect class="mark %s" x="%.1f" y="%.1f" width="7" height="7"/>`, series, x-3.5, y-3.5)
	case "haproxy":
		return fmt.Sprintf(`<path class="mark %s" d="M%.1f %.1f l4.5 8 h-9 z"/>`, series, x, y-5)
	case "weir":
		return fmt.Sprintf(`<circle class="mark %s" cx="%.1f" cy="%.1f" r="4"/>`, series, x, y)
	}
	return fmt.Sprintf(`<path class="mark %s" d="M%.1f %.1f l4 4 l-4 4 l-4 -4 z"/>`, series, x, y-4)
}

// bars draws what several series have in each second, one above the other.
func (p *plot) bars(series []string, seconds []Second, of func(Second) []float64) {
	wide := p.x(1) - p.x(0)
	for _, s := range seconds {
		below := 0.0
		for i, v := range of(s) {
			if v > 0 {
				top, foot := p.y(below+v), p.y(below)
				fmt.Fprintf(p, `<rect class="bar %s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, series[i],
					p.x(float64(s.At))+1, top, wide-2, foot-top)
			}
			below += v
		}
		p.WriteByte('\n')
	}
}

// span returns the seconds that a round shows.
func span(rounds []Round) (from, to int) {
	for _, r := range rounds {
		if n := len(r.Seconds); n > 0 {
			from, to = min(from, r.Seconds[0].At), max(to, r.Seconds[n-1].At+1)
		}
	}
	return from, to
}

// sharePlot shows which share of the people who came in each second was served at last, for every front.
func sharePlot(f *Flood) template.HTML {
	var said []string
	for i := range f.Rounds {
		said = append(said, f.Rounds[i].Title+" "+percent(f.Rounds[i].People.Share))
	}
	from, to := span(f.Rounds)
	p := newPlot("Share of people served, over time: "+strings.Join(said, ", "), 300, from, to, 1)
	p.axes([]float64{0, 0.25, 0.5, 0.75, 1}, percent)
	for i := range f.Rounds {
		var points []point
		for _, s := range f.Rounds[i].Seconds {
			if s.People.Came > 0 {
				points = append(points, point{float64(s.At) + 0.5, float64(s.People.Got) / float64(s.People.Came)})
			}
		}
		p.line(f.Rounds[i].Front, points)
	}
	return p.done()
}

// groupSeries are the groups as they are stacked.
var groupSeries = []string{"people", "without", "flood"}

// servedPlot shows who was served in each second, by group, for one front.
func servedPlot(r *Round, capacity float64) template.HTML {
	from, to := span([]Round{*r})
	most := capacity * 1.1
	for _, s := range r.Seconds {
		most = max(most, float64(s.People.Served+s.Without.Served+s.Flood.Served))
	}
	p := newPlot(fmt.Sprintf("Served by group, over time, with %s in front: %d people, %d people without JavaScript, "+
		"%d requests of the flood",
		r.Title, r.People.Served, r.Without.Served, r.Flood.Served), 190, from, to, most)
	p.axes([]float64{0, capacity / 2, capacity}, number)
	p.bars(groupSeries, r.Seconds, func(s Second) []float64 {
		return []float64{float64(s.People.Served), float64(s.Without.Served), float64(s.Flood.Served)}
	})
	fmt.Fprintf(p, `<path class="capacity" d="M%d %.1f H%d"/>`+"\n", plotLeft, p.y(capacity), plotWidth-plotRight)
	return p.done()
}

// gaugePlot shows one figure that a front tells of itself.
func gaugePlot(r *Round, what string, value func(Gauge) float64, text func(float64) string) template.HTML {
	from, to := span([]Round{*r})
	most := 0.0
	var points []point
	for _, g := range r.Gauges {
		most = max(most, value(g))
		points = append(points, point{g.Second, value(g)})
	}
	if most == 0 {
		most = 1
	}
	p := newPlot(what+", over time", 190, from, to, most*1.1)
	p.axes([]float64{0, most / 2, most}, text)
	p.line(r.Front, points)
	return p.done()
}
