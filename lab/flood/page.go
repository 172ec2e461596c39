package flood

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"weir/internal/plot"
	"weir/internal/tabular"
)

// pageText is the page: it needs nothing from elsewhere and runs no scripts.
//
//go:embed page.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": percent, "duration": duration, "number": number, "hue": hue, "title": title, "groups": groupBars,
	"plotCSS":   func() template.CSS { return template.CSS(plot.CSS) },
	"perSecond": func(n int64, seconds float64) string { return number(float64(n)/seconds) + "/s" },
}).Parse(pageText))

// hue is the class of a cell that says whether something is as it should be.
func hue(c tabular.Cell) string {
	return map[tabular.Tint]string{tabular.Good: "good", tabular.Bad: "bad"}[c.Tint]
}

// title writes the head of a column as pages do.
func title(head string) string { return head[:1] + strings.ToLower(head[1:]) }

// A pageView is what the page shows.
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

// said sums the first flood up in a sentence.
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
