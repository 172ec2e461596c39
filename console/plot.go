package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weir"
)

// Where things stand in a picture: a unit to the right is a second, the top is 0 and the foot 100. The browser
// stretches it to the room that there is; what is written beside it keeps its size.
const (
	plotWidth  = float64(HistoryLength * HistoryEvery / time.Second)
	plotHeight = 100
	plotGap    = 2.5 // seconds without a sample that a line does not bridge
)

// gatePlots are the pictures of one gate.
type gatePlots struct {
	Gate, Address string
	Plots         []plot
}

// A plot is the picture of one thing over the last minutes.
type plot struct {
	Title string
	Unit  string // what its height means
	Now   string // the latest value
	Most  string // the highest; empty where that says little
	Label string // all of it in a sentence, for those who do not see it
	Ticks []tick
	Lines []line
}

// A tick is a value beside the picture.
type tick struct {
	At    string // how far down
	Text  string
	Limit bool // a value that should not be passed
}

// A line is one series. Those of the same picture have a name, and differ in more than their color.
type line struct {
	Class string
	Name  string
	Now   string
	Path  string
	Area  string // under it; empty where there is none
}

// plotsOf draws the pictures of a gate: what is asked of it, what it asks for, and what became of those who came.
func plotsOf(h GateHistory) gatePlots {
	name := h.Gate
	if h.Address != "" {
		name = h.Address
	}
	g := gatePlots{Gate: h.Gate, Address: h.Address, Plots: []plot{loadPlot(h, name)}}
	if h.Stamps != "" {
		g.Plots = append(g.Plots, workPlot(h, name))
	}
	g.Plots = append(g.Plots, letInPlot(h, name), awayPlot(h, name))
	if len(h.Samples) == 0 {
		for i := range g.Plots {
			p := &g.Plots[i]
			p.Now, p.Most, p.Label = "no figures yet", "", fmt.Sprintf("%s at %s: no figures yet.", p.Title, name)
		}
	}
	return g
}

func loadPlot(h GateHistory, name string) plot {
	of := func(s Sample) float64 { return s.Load }
	most := highest(h, of)
	top := max(1.25, roundUp(most))
	height := func(s Sample) float64 { return s.Load / top }
	now := percent(h.Last().Load)
	p := plot{
		Title: "Load", Unit: "of the capacity", Now: now, Most: percent(most),
		Label: fmt.Sprintf("Load of %s over the last 5 minutes: now %s of the capacity, at most %s.", name, now,
			percent(most)),
		Lines: []line{{Class: "load", Path: draw(h, height, false), Area: fill(h, height, false)}},
	}
	p.Ticks = append(p.Ticks, tick{at(1 / top), percent(1), true})
	if top > 1.25 {
		p.Ticks = append(p.Ticks, tick{at(1), percent(top), false})
	}
	if 1/top > 0.15 { // or it would stand in the way
		p.Ticks = append(p.Ticks, tick{at(0), percent(0), false})
	}
	return p
}

// lowest is the work at the foot of the picture of work, as time on a phone: everything from nothing to that stands
// there.
const lowest = 100 * time.Microsecond

func workPlot(h GateHistory, name string) plot {
	most := time.Duration(highest(h, func(s Sample) float64 { return float64(s.Takes) }))
	decades := max(5, math.Ceil(math.Log10(float64(most)/float64(lowest))))
	height := func(s Sample) float64 {
		if s.Work == 0 {
			return 0
		}
		// What is asked is never nothing, however little it is.
		return max(math.Log10(float64(max(s.Takes, 1))/float64(lowest)), 0.2) / decades
	}
	last := h.Last()
	p := plot{
		Title: "Work asked", Unit: "as time on a phone", Now: bits(last.Work),
		Label: fmt.Sprintf("Work asked for a stamp at %s over the last 5 minutes: now %s", name,
			asked(last.Work, last.Takes)),
		Lines: []line{{Class: "work", Path: draw(h, height, true), Area: fill(h, height, true)}},
		Ticks: []tick{{at(0), bits(0), false}},
	}
	if most > 0 {
		p.Most = about(most)
		p.Label += fmt.Sprintf(", at most %s on a phone", p.Most)
	}
	if last.Work > 0 {
		p.Now += ", about " + about(last.Takes)
	}
	p.Label += "."
	for d, t := 1.0, 10*lowest; d <= decades; d, t = d+1, 10*t {
		p.Ticks = append(p.Ticks, tick{at(d / decades), weir.Duration(t).String(), false})
	}
	return p
}

func letInPlot(h GateHistory, name string) plot {
	top := rateTop(highest(h, func(s Sample) float64 { return max(s.Stamped, s.Pool) }))
	stamped := func(s Sample) float64 { return s.Stamped / top }
	pool := func(s Sample) float64 { return s.Pool / top }
	last := h.Last()
	return plot{
		Title: "Let in", Unit: "requests a second", Now: rate(last.Stamped+last.Pool) + "/s", Ticks: rateTicks(top),
		Label: fmt.Sprintf("Let in at %s over the last 5 minutes: now %s requests a second with a stamp and %s from "+
			"the general pool.",
			name, rate(last.Stamped), rate(last.Pool)),
		Lines: []line{
			{Class: "stamped", Name: "stamped", Now: rate(last.Stamped), Path: draw(h, stamped, false),
				Area: fill(h, stamped, false)},
			{Class: "pool", Name: "pool", Now: rate(last.Pool), Path: draw(h, pool, false)},
		},
	}
}

func awayPlot(h GateHistory, name string) plot {
	of := func(s Sample) float64 { return s.TurnedAway }
	most := highest(h, of)
	top := rateTop(most)
	height := func(s Sample) float64 { return s.TurnedAway / top }
	now := rate(h.Last().TurnedAway)
	return plot{
		Title: "Turned away", Unit: "requests a second", Now: now + "/s", Most: rate(most) + "/s",
		Ticks: rateTicks(top),
		Label: fmt.Sprintf("Turned away at %s over the last 5 minutes, asked to pay or refused: now %s requests a "+
			"second, at most %s.", name, now, rate(most)),
		Lines: []line{{Class: "away", Path: draw(h, height, false), Area: fill(h, height, false)}},
	}
}

func highest(h GateHistory, of func(Sample) float64) (most float64) {
	for _, s := range h.Samples {
		most = max(most, of(s))
	}
	return most
}

// roundUp returns the next of 1, 2, 5, 10, 20, 50 and so on.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 0
	}
	tens := math.Pow10(int(math.Floor(math.Log10(v))))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*tens {
			return n * tens
		}
	}
	return 10 * tens
}

func rateTop(most float64) float64 { return max(roundUp(most), 1) }

func rateTicks(top float64) []tick {
	return []tick{{at(1), rate(top), false}, {at(0.5), rate(top / 2), false}, {at(0), "0", false}}
}

// at says how far down a height is, as SVG wants it.
func at(height float64) string { return number((1-height)*100) + "%" }

// number writes a coordinate in no more digits than can be seen.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

func percent(share float64) string { return weir.Share(math.Round(share*100) / 100).String() }

func rate(v float64) string {
	if v < 10 {
		return number(v)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// asked says what is asked for.
func asked(work uint64, takes time.Duration) string {
	if work == 0 || takes == 0 {
		return bits(work)
	}
	return bits(work) + ", about " + about(takes) + " on a phone"
}

func bits(work uint64) string {
	if work == 0 {
		return "nothing"
	}
	return number(math.Log2(float64(work))) + " bits"
}

// about writes a duration in as many digits as an estimate is worth.
func about(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return weir.Duration(d.Round(unit)).String()
}

// A point of a line.
type point struct{ x, y string }

// strokes returns the points of a series, parted where there was no sample for a while. Heights go from 0 to 1.
func strokes(h GateHistory, height func(Sample) float64) (all [][]point) {
	last := h.Last().At
	before := math.Inf(-1)
	for _, s := range h.Samples {
		x := plotWidth - last.Sub(s.At).Seconds()
		if x < 0 || x > plotWidth || x < before {
			continue
		}
		if x-before > plotGap {
			all = append(all, nil)
		}
		y := plotHeight * (1 - min(max(height(s), 0), 1))
		end := &all[len(all)-1]
		*end = append(*end, point{number(x), number(y)})
		before = x
	}
	return all
}

// draw returns the path of a series. With steps a value holds until the next.
func draw(h GateHistory, height func(Sample) float64, steps bool) string {
	var b strings.Builder
	for _, points := range strokes(h, height) {
		trace(&b, points, steps)
		if len(points) == 1 {
			b.WriteString("h0") // with round ends, a dot
		}
	}
	return b.String()
}

// fill returns the path around what lies under a series.
func fill(h GateHistory, height func(Sample) float64, steps bool) string {
	var b strings.Builder
	for _, points := range strokes(h, height) {
		trace(&b, points, steps)
		fmt.Fprintf(&b, "V%dH%sZ", plotHeight, points[0].x)
	}
	return b.String()
}

func trace(b *strings.Builder, points []point, steps bool) {
	b.WriteString("M" + points[0].x + " " + points[0].y)
	for i, p := range points {
		switch {
		case i == 0:
		case steps:
			b.WriteString("H" + p.x + "V" + p.y)
		default:
			b.WriteString("L" + p.x + " " + p.y)
		}
	}
}
