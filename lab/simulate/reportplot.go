package simulate

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A plot is one picture of the report. Where things stand in it is written in percent of its width and height, so that
// the browser stretches it to the room that there is, while what is written keeps its size.
type plot struct {
	ID     string
	Title  string
	Says   string // what it shows, in a sentence, for those who do not see it and those in a hurry
	X, Y   axis
	Series []series // differing in more than their color
	Marks  []mark
	Data   table
}

// An axis of a plot. With ticks of its own it is given, otherwise it becomes as long as the data and is divided at
// round numbers.
type axis struct {
	Title  string // with the unit
	Ticks  []tick
	lo, hi float64
	log    bool
	whole  bool // nothing between two numbers
}

// A tick is a value beside an axis.
type tick struct {
	at   float64
	At   string
	Text string
}

// A series is a line through points with a sign at each, or a row of bars.
type series struct {
	Name   string // for the legend, where there are several
	N      int    // which of the plot's, from 1: its color, dashes and sign
	Bars   bool
	Area   bool // shaded under the line
	Steps  bool // it stays where it is until the next point
	Points []point
	Path   string // of the line
	Fill   string // of the area
}

// A point is a value and what is told about it.
type point struct {
	x, y float64
	name string // of x, as the operator writes it
	Text string
	Sign bool // or the line is dense enough to have none here
	Tip  bool // its text comes up when it is pointed at
	X, Y string
	Left string // of a bar
	Wide string
	High string
}

// A mark is a value on the horizontal axis that the reader looks for.
type mark struct {
	at    float64
	Text  string
	Class string
	Row   int
	At    string
	Where string
}

// A table is the data of a plot.
type table struct {
	Head []string
	Rows [][]string
}

const (
	mostSigns  = 24 // of a line
	mostTips   = 60
	fewSigns   = 8    // of a line with more points than that
	widestBar  = 12   // in percent of the plot
	leastBar   = 0.4  // one of nothing can be seen, too
	leastTop   = 0.01 // what is less has no room for its digits
	mostNumber = 1e18
)

// Empty reports whether there is nothing to draw.
func (p *plot) Empty() bool {
	return !slices.ContainsFunc(p.Series, func(s series) bool { return len(s.Points) > 0 })
}

// draw finds the place of everything.
func (p *plot) draw() *plot {
	for i := range p.Series {
		s := &p.Series[i]
		s.N = i + 1
		s.Points = slices.DeleteFunc(s.Points,
			func(q point) bool { return !finite(q.x) || !finite(q.y) || p.X.log && q.x <= 0 })
	}
	if p.Empty() {
		return p
	}
	p.scale()
	for i := range p.Series {
		p.Series[i].draw(p)
	}
	for i := range p.Marks {
		m := &p.Marks[i]
		at := p.X.place(m.at)
		m.At, m.Where, m.Row = percents(at), side(at), i
	}
	for i := range p.X.Ticks {
		p.X.Ticks[i].At = percents(p.X.place(p.X.Ticks[i].at))
	}
	for i := range p.Y.Ticks {
		p.Y.Ticks[i].At = percents(100 - p.Y.place(p.Y.Ticks[i].at))
	}
	return p
}

// scale makes the axes long enough for the data and the marks.
func (p *plot) scale() {
	p.Marks = slices.DeleteFunc(p.Marks, func(m mark) bool { return !finite(m.at) || p.X.log && m.at <= 0 })
	lo, hi, most := math.Inf(1), math.Inf(-1), 0.0
	for _, m := range p.Marks {
		lo, hi = min(lo, m.at), max(hi, m.at)
	}
	for _, s := range p.Series {
		beside := 0.0
		if s.Bars {
			beside = 0.5
		}
		for _, q := range s.Points {
			lo, hi, most = min(lo, q.x-beside), max(hi, q.x+beside), max(most, q.y)
		}
	}
	if lo == hi && p.X.log {
		lo, hi = lo/2, hi*2
	} else if lo == hi {
		lo, hi = max(lo-1, min(lo, 0)), hi+1
	}
	if p.X.Ticks == nil {
		p.X.lo, p.X.hi = lo, hi
		p.X.Ticks = ticks(p.X, 6)
	}
	if most <= 0 {
		most = 1
	}
	most = max(most, leastTop)
	p.Y.lo, p.Y.hi = 0, most
	p.Y.hi = step(p.Y, 5) * math.Ceil(most/step(p.Y, 5)*(1-1e-9))
	p.Y.Ticks = ticks(p.Y, 5)
}

// draw finds the place of one series.
func (s *series) draw(p *plot) {
	every, tips := 1, (len(s.Points)+mostTips-1)/mostTips
	if len(s.Points) > mostSigns {
		every = len(s.Points) / fewSigns
	}
	var path strings.Builder
	for i := range s.Points {
		q := &s.Points[i]
		x, y := p.X.place(q.x), p.Y.place(q.y)
		q.X, q.Y = percents(x), percents(100-y)
		q.Sign, q.Tip = (i+every/2)%every == 0, s.Bars || i%tips == 0 || i == len(s.Points)-1
		if s.Bars {
			wide := min(0.8*(p.X.place(q.x+0.5)-p.X.place(q.x-0.5)), widestBar)
			y = max(y, leastBar)
			q.Left, q.Wide, q.High, q.Y = percents(x-wide/2), percents(wide), percents(y), percents(100-y)
			continue
		}
		switch {
		case s.Steps && i == 0:
			path.WriteString("M" + coordinate(x) + " 100V" + coordinate(100-y))
		case s.Steps:
			path.WriteString("H" + coordinate(x) + "V" + coordinate(100-y))
		default:
			path.WriteString(letter(i) + coordinate(x) + " " + coordinate(100-y))
		}
	}
	if s.Bars || len(s.Points) == 0 {
		return
	}
	s.Path = path.String()
	if s.Area {
		s.Fill = s.Path + "V100H" + coordinate(p.X.place(s.Points[0].x)) + "Z"
	}
}

func letter(i int) string {
	if i == 0 {
		return "M"
	}
	return "L"
}

// place says how far along an axis a value stands, in percent.
func (a axis) place(v float64) float64 {
	lo, hi := a.lo, a.hi
	if a.log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	return min(max((v-lo)/(hi-lo)*100, 0), 100)
}

// step is the round distance between the ticks of an axis: 1, 2 or 5, 10, 20 and so on.
func step(a axis, most int) float64 {
	least := (a.hi - a.lo) / float64(most)
	if a.whole {
		least = max(least, 1)
	}
	tens := math.Pow(10, math.Floor(math.Log10(least)+1e-9))
	for _, n := range []float64{1, 2, 5} {
		if least <= n*tens*(1+1e-9) {
			return n * tens
		}
	}
	return 10 * tens
}

// ticks divides an axis at round numbers.
func ticks(a axis, most int) (all []tick) {
	if a.log {
		for _, of := range [][]float64{{1, 2, 5}, {1}} {
			if all = decades(a, of); len(all) > 1 && len(all) <= most+1 {
				return all
			}
		}
		if len(all) < 2 { // too short for decades
			a.log = false
			return ticks(a, most)
		}
		thin := max(1, (len(all)+most-1)/most)
		kept := all[:0]
		for i := 0; i < len(all); i += thin {
			kept = append(kept, all[i])
		}
		return kept
	}
	by := step(a, most)
	for i := math.Ceil(a.lo/by - 1e-9); i*by <= a.hi*(1+1e-9); i++ {
		v := i * by
		all = append(all, tick{at: v, Text: tickText(v, by)})
	}
	return all
}

// decades divides a logarithmic axis.
func decades(a axis, of []float64) (all []tick) {
	for e := math.Floor(math.Log10(a.lo)); e <= math.Ceil(math.Log10(a.hi)); e++ {
		for _, n := range of {
			v := n * math.Pow(10, e)
			if v >= a.lo*(1-1e-9) && v <= a.hi*(1+1e-9) {
				all = append(all, tick{at: v, Text: tickText(v, math.Pow(10, e))})
			}
		}
	}
	return all
}

// tickText writes a value in as many digits as the distance to the next one needs.
func tickText(v, by float64) string {
	if v == 0 {
		return "0"
	}
	for _, unit := range []struct {
		size float64
		sign string
	}{{1e18, "E"}, {1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= max(unit.size, 1e4) {
			return strconv.FormatFloat(v/unit.size, 'f', digits(by/unit.size), 64) + unit.sign
		}
	}
	return strconv.FormatFloat(v, 'f', digits(by), 64)
}

// digits is how many there must be behind the point for numbers that are so far apart.
func digits(by float64) int { return int(max(0, min(9, math.Ceil(-math.Log10(by)-1e-9)))) }

// side says on which side of a place a text has room: near an end it stays inside.
func side(at float64) string {
	const near = 20
	switch {
	case at < near:
		return "start"
	case at > 100-near:
		return "end"
	}
	return "middle"
}

func finite(v float64) bool { return !math.IsNaN(v) && math.Abs(v) <= mostNumber }

func coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

func percents(v float64) string { return coordinate(v) + "%" }
