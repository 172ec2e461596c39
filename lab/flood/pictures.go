package flood

import (
	"fmt"
	"math"
	"strings"

	"weir/internal/plot"
)

// said sums up the first flood in a sentence.
func (r *Report) said() []string {
	if len(r.Floods[0].Rounds) == 0 {
		return nil
	}
	var all []string
	for _, one := range r.Floods[0].Rounds {
		all = append(all, fmt.Sprintf("%s with %s", percent(one.People.Share), one.Title))
	}
	return []string{fmt.Sprintf("Under a flood from %s sources, so many people were served: %s.",
		number(float64(r.Floods[0].Sources)), strings.Join(all, ", "))}
}

// plots show the rounds of a flood over time.
func (f *Flood) plots(capacity float64) []*plot.Plot {
	all := []*plot.Plot{sharePlot(f)}
	for i := range f.Rounds {
		one := &f.Rounds[i]
		all = append(all, servedPlot(one, capacity))
		if len(one.Gauges) > 0 {
			all = append(all, gaugePlot(one, "Load", "load (1: as much as it can do)", func(g Gauge) float64 { return g.Load },
				func(v float64) string { return number(v) + " ×" }),
				gaugePlot(one, "Work", "operations for a stamp", func(g Gauge) float64 { return float64(g.Work) / 1000 },
					func(v float64) string { return number(v) + " k" }))
		}
	}
	for _, p := range all {
		p.ID = fmt.Sprint(p.ID, "-", f.Kind)
		p.Draw()
	}
	return all
}

// overTime makes a plot of some seconds, of values from 0 to most with ticks at some of them.
func overTime(id, title, unit, says string, rounds []Round, most float64, text func(float64) string,
	at ...float64) *plot.Plot {
	from, to := span(rounds)
	to = max(to, from+1)
	p := &plot.Plot{ID: id, Title: title, Says: says, Y: plot.Axis{Title: unit, Hi: most},
		X: plot.Axis{Title: "seconds", Lo: float64(from), Hi: float64(to), Grid: true}}
	if from < 0 {
		p.Bands = []plot.Band{{From: float64(from), To: float64(min(to, 0)), Text: "warm-up"}}
	}
	for _, v := range at {
		p.Y.Ticks = append(p.Y.Ticks, plot.Tick{Value: v, Text: text(v)})
	}
	for s := 0.0; s <= p.X.Hi; s += max(math.Ceil(p.X.Hi/6), 1) {
		p.X.Ticks = append(p.X.Ticks, plot.Tick{Value: s, Text: number(s)})
	}
	return p
}

func span(rounds []Round) (from, to int) {
	for _, r := range rounds {
		if n := len(r.Seconds); n > 0 {
			from, to = min(from, r.Seconds[0].At), max(to, r.Seconds[n-1].At+1)
		}
	}
	return from, to
}

// sharePlot shows for every front which share of the people who came in each second was served in the end.
func sharePlot(f *Flood) *plot.Plot {
	var said []string
	for i := range f.Rounds {
		said = append(said, f.Rounds[i].Title+" "+percent(f.Rounds[i].People.Share))
	}
	p := overTime("share", "People served, by the second in which they came", "share of the people",
		"Share of people served, over time: "+strings.Join(said, ", "), f.Rounds, 1, percent, 0, 0.25, 0.5, 0.75, 1)
	for i := range f.Rounds {
		r := &f.Rounds[i]
		line := plot.Series{Name: r.name()}
		for _, s := range r.Seconds {
			if s.People.Came > 0 {
				line.Points = append(line.Points,
					plot.Point{X: float64(s.At) + 0.5, Y: float64(s.People.Got) / float64(s.People.Came)})
			}
		}
		p.Series = append(p.Series, line)
	}
	return p
}

// servedPlot shows how many of each group were served in each second, for one front.
func servedPlot(r *Round, capacity float64) *plot.Plot {
	most := capacity * 1.1
	bars := []plot.Series{{Name: "people", Bars: true}, {Name: "people without JavaScript", Bars: true},
		{Name: "flood", Bars: true}}
	for _, s := range r.Seconds {
		below := 0.0
		for i, n := range []int64{s.People.Served, s.Without.Served, s.Flood.Served} {
			if n > 0 {
				top := below + float64(n)
				bars[i].Points = append(bars[i].Points, plot.Point{X: float64(s.At) + 0.5, Y: top, Base: below})
				below = top
			}
		}
		most = max(most, below)
	}
	says := fmt.Sprintf("Served by group, over time, with %s in front: %d people, %d people without JavaScript, "+
		"%d requests of the flood", r.Title, r.People.Served, r.Without.Served, r.Flood.Served)
	p := overTime("served-"+r.Front, "Served in each second with "+r.name()+" in front", "requests a second", says,
		[]Round{*r}, most, number, 0, capacity/2, capacity)
	p.Y.Ticks[2].Limit = true
	p.Series = bars
	return p
}

// gaugePlot shows one figure that a front reports of itself.
func gaugePlot(r *Round, what, unit string, value func(Gauge) float64, text func(float64) string) *plot.Plot {
	most := 0.0
	var line plot.Series
	for _, g := range r.Gauges {
		most = max(most, value(g))
		line.Points = append(line.Points, plot.Point{X: g.Second, Y: value(g)})
	}
	if most == 0 {
		most = 1
	}
	p := overTime(strings.ToLower(what)+"-"+r.Front, what+", as "+r.Title+" saw it", unit, what+", over time, at most "+
		text(most)+".", []Round{*r}, most*1.1, text, 0, most/2, most)
	p.Series = []plot.Series{line}
	return p
}
