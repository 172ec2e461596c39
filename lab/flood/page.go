package flood

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"weir/internal/plot"
	"weir/internal/tabular"
)

// pageText is a page without scripts that loads nothing.
//
//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": percent, "duration": duration, "number": number, "hue": hue, "title": title, "groups": groupBars,
	"plotCSS":   func() template.CSS { return template.CSS(plot.CSS) },
	"perSecond": func(n int64, seconds float64) string { return number(float64(n)/seconds) + "/s" },
}).Parse(pageText))

// hue is the class of a cell: good, bad or none.
func hue(c tabular.Cell) string {
	return map[tabular.Tint]string{tabular.Good: "good", tabular.Bad: "bad"}[c.Tint]
}

func title(head string) string { return head[:1] + strings.ToLower(head[1:]) }

type pageView struct {
	*Report
	Said   string
	Floods []floodView
	Scenes []sceneView
	Notes  []string
}

type sceneView struct {
	*tabular.Table
	Heading, About string
}

type floodView struct {
	*Flood
	Heading string
	Shares  *plot.Plot
	Rounds  []roundView
}

type roundView struct {
	*Round
	Name       string
	Served     *plot.Plot
	Load, Work *plot.Plot // nil where the front does not tell
}

// Page writes the report as a page that stands by itself.
func (r *Report) Page(w io.Writer) error {
	v := pageView{Report: r, Said: r.said(), Notes: r.notes()}
	for i := range r.Floods {
		f := &r.Floods[i]
		view := floodView{Flood: f, Heading: r.heading(f), Shares: sharePlot(f)}
		for j := range f.Rounds {
			one := &f.Rounds[j]
			shown := roundView{Round: one, Name: one.name(), Served: servedPlot(one, r.Settings.Capacity)}
			if len(one.Gauges) > 0 {
				shown.Load = gaugePlot(one, "Load", func(g Gauge) float64 { return g.Load },
					func(v float64) string { return number(v) + " ×" })
				shown.Work = gaugePlot(one, "Work asked for a stamp",
					func(g Gauge) float64 { return float64(g.Work) / 1000 },
					func(v float64) string { return number(v) + " k" })
			}
			view.Rounds = append(view.Rounds, shown)
		}
		v.Floods = append(v.Floods, view)
	}
	for i := range r.Scenes {
		p := &r.Scenes[i]
		v.Scenes = append(v.Scenes, sceneView{Table: p.table(r.Settings.Seconds), Heading: p.heading(),
			About: p.about()})
	}
	return pageTemplate.Execute(w, v)
}

// said sums up the first flood in a sentence.
func (r *Report) said() string {
	if len(r.Floods) == 0 || len(r.Floods[0].Rounds) == 0 {
		return ""
	}
	var all []string
	for _, one := range r.Floods[0].Rounds {
		all = append(all, fmt.Sprintf("%s with %s", percent(one.People.Share), one.Title))
	}
	return fmt.Sprintf("Under a flood from %s sources, so many people were served: %s.",
		number(float64(r.Floods[0].Sources)), strings.Join(all, ", "))
}

// signs are the signs of each front's points.
var signs = map[string]int{"weir": 1, "nginx": 2, "none": 3, "haproxy": 4}

// overTime makes a plot of some seconds, of values from 0 to most with ticks at some of them.
func overTime(says string, rounds []Round, most float64, text func(float64) string, at ...float64) *plot.Plot {
	from, to := span(rounds)
	to = max(to, from+1)
	p := &plot.Plot{
		Says: says, X: plot.Axis{Lo: float64(from), Hi: float64(to), Grid: true}, Y: plot.Axis{Hi: most},
	}
	if from < 0 {
		p.Bands = []plot.Band{{From: float64(from), To: float64(min(to, 0)), Text: "warm-up"}}
	}
	for _, v := range at {
		p.Y.Ticks = append(p.Y.Ticks, plot.Tick{Value: v, Text: text(v)})
	}
	for s := 0.0; s <= p.X.Hi; s += max(math.Ceil(p.X.Hi/6), 1) {
		p.X.Ticks = append(p.X.Ticks, plot.Tick{Value: s, Text: number(s)})
	}
	p.X.Ticks[0].Text = "0 s"
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
	p := overTime("Share of people served, over time: "+strings.Join(said, ", "), f.Rounds, 1, percent,
		0, 0.25, 0.5, 0.75, 1)
	for i := range f.Rounds {
		r := &f.Rounds[i]
		line := plot.Series{Name: r.name(), Class: r.Front, Sign: signs[r.Front]}
		for _, s := range r.Seconds {
			if s.People.Came > 0 {
				line.Points = append(line.Points,
					plot.Point{X: float64(s.At) + 0.5, Y: float64(s.People.Got) / float64(s.People.Came)})
			}
		}
		p.Series = append(p.Series, line)
	}
	return p.Draw()
}

// groupBars are the bars of servedPlot, one above the other.
func groupBars() []plot.Series {
	return []plot.Series{{Name: "people", Class: "people", Bars: true},
		{Name: "people without JavaScript", Class: "without", Bars: true}, {Name: "flood", Class: "flood", Bars: true}}
}

// servedPlot shows how many of each group were served in each second, for one front.
func servedPlot(r *Round, capacity float64) *plot.Plot {
	most, bars := capacity*1.1, groupBars()
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
	p := overTime(says, []Round{*r}, most, number, 0, capacity/2, capacity)
	p.Y.Ticks[2].Limit = true
	p.Series = bars
	return p.Draw()
}

// gaugePlot shows one figure that a front reports of itself.
func gaugePlot(r *Round, what string, value func(Gauge) float64, text func(float64) string) *plot.Plot {
	most := 0.0
	line := plot.Series{Class: r.Front, Sign: signs[r.Front]}
	for _, g := range r.Gauges {
		most = max(most, value(g))
		line.Points = append(line.Points, plot.Point{X: g.Second, Y: value(g)})
	}
	if most == 0 {
		most = 1
	}
	p := overTime(what+", over time", []Round{*r}, most*1.1, text, 0, most/2, most)
	p.Series = []plot.Series{line}
	return p.Draw()
}
