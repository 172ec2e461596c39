package plot

import (
	_ "embed"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// CSS has the rules of all plots. A page sets --soft (text), --line (grid), --paper (background; Canvas if unset) and
// --s1 to --s5 or a rule that sets --of for each class of a series.
//
//go:embed plot.css
var CSS string

//go:embed plot.html
var plotHTML string

var page = template.Must(template.New("plot").Parse(plotHTML))

// A Plot is one picture. Fill in the fields, call Draw, then use SVG in a page.
type Plot struct {
	ID     string // if set, the page has elements ID-title and ID-says, to which screen readers are referred
	Title  string
	Says   string // what it shows, in a sentence
	X, Y   Axis
	Series []Series
	Marks  []Mark
	Bands  []Band
	// Ends is when the horizontal axis ends, if that is a time in seconds: in milliseconds since 1970. A script can
	// then show the values of points at a time.
	Ends int64
}

// Seconds is how long the horizontal axis is.
func (p *Plot) Seconds() float64 { return p.X.Hi - p.X.Lo }

// An Axis with ticks is used as given, from Lo to Hi. Otherwise it is as long as the data needs and is divided at round
// numbers.
type Axis struct {
	Title  string // with the unit
	Ticks  []Tick
	Lo, Hi float64
	Log    bool
	Whole  bool // only whole numbers
	Grid   bool // of the horizontal axis: a line at each tick over the whole height
}

// A Tick is a value beside an axis.
type Tick struct {
	Value  float64
	Text   string
	Limit  bool   // a value that should not be passed
	Anchor string // of the text; middle if empty
	At     string // set by Draw
}

// A Series is a line through points, a row of bars, or signs alone.
type Series struct {
	Name   string // for the legend
	Class  string // s1, s2 and so on if empty
	Sign   int    // 1 to 5, the position in the plot if 0; None for none
	Bars   bool
	Area   bool    // shaded under the line
	Steps  bool    // a value holds until the next point
	Rises  bool    // the line begins at the foot, as an empirical distribution does
	Loose  bool    // signs without a line
	Gap    float64 // a greater distance between points is not bridged; 0 bridges all
	Points []Point
	Path   string // of the line, set by Draw
	Fill   string // of the area, set by Draw
	Values string // of the points of the line, set by Draw: joined by "|", and empty where the one before is the same
}

// None is the sign of a series without signs.
const None = -1

// A Point is a value, or the end of a bar that begins at Base.
type Point struct {
	X, Y, Base float64
	Name       string // of X, as the operator writes it
	Text       string // shown when the point is hovered over
	Value      string // of Y with its unit, for a script
	Signed     bool   // the line has a sign here; set by Draw, as the following are
	Tip        bool
	AtX, AtY   string
	Left       string // of a bar
	Wide, High string
}

// A Mark is a vertical line at a value that the reader looks for.
type Mark struct {
	Value      float64
	Text       string
	Class      string
	Row        int // set by Draw, as the following are
	At, Anchor string
}

// A Band is a shaded part of the horizontal axis.
type Band struct {
	From, To     float64
	Text         string
	At, Wide, In string // set by Draw
}

const (
	mostSigns  = 24 // of a line
	mostTips   = 60
	fewSigns   = 8    // of a line with more points than mostSigns
	widestBar  = 12   // in percent of the plot
	leastBar   = 0.4  // a bar of nothing can still be seen
	leastTop   = 0.01 // smaller values have too many digits for the axis
	mostNumber = 1e18
)

// Empty reports whether there is nothing to draw.
func (p *Plot) Empty() bool {
	return !slices.ContainsFunc(p.Series, func(s Series) bool { return len(s.Points) > 0 })
}

// Draw computes all positions. Points that are no finite numbers are dropped.
func (p *Plot) Draw() *Plot {
	for i := range p.Series {
		s := &p.Series[i]
		if s.Class == "" {
			s.Class = "s" + strconv.Itoa(i+1)
		}
		if s.Sign == 0 {
			s.Sign = i + 1
		}
		s.Points = slices.DeleteFunc(s.Points,
			func(q Point) bool { return !Finite(q.X) || !Finite(q.Y) || p.X.Log && q.X <= 0 })
	}
	if p.Empty() && (p.X.Ticks == nil || p.Y.Ticks == nil) {
		return p
	}
	p.scale()
	for i := range p.Series {
		p.Series[i].draw(p)
	}
	for i := range p.Marks {
		m := &p.Marks[i]
		at := p.X.position(m.Value)
		m.At, m.Anchor, m.Row = percents(at), anchor(at), i
	}
	for i := range p.Bands {
		b := &p.Bands[i]
		from, to := p.X.position(b.From), p.X.position(b.To)
		b.At, b.Wide, b.In = percents(from), percents(to-from), percents((from+to)/2)
	}
	for i := range p.X.Ticks {
		t := &p.X.Ticks[i]
		t.At = percents(p.X.position(t.Value))
		if t.Anchor == "" {
			t.Anchor = "middle"
		}
	}
	for i := range p.Y.Ticks {
		t := &p.Y.Ticks[i]
		t.At = percents(100 - p.Y.position(t.Value))
	}
	return p
}

func (p *Plot) SVG() (template.HTML, error) { return render("svg", p) }

// Key shows in a legend what the series looks like.
func (s Series) Key() (template.HTML, error) { return render("key", s) }

func render(name string, data any) (template.HTML, error) {
	var b strings.Builder
	err := page.ExecuteTemplate(&b, name, data)
	return template.HTML(b.String()), err
}

// scale makes the axes long enough for the data and the marks.
func (p *Plot) scale() {
	p.Marks = slices.DeleteFunc(p.Marks, func(m Mark) bool { return !Finite(m.Value) || p.X.Log && m.Value <= 0 })
	lo, hi, most := math.Inf(1), math.Inf(-1), 0.0
	for _, m := range p.Marks {
		lo, hi = min(lo, m.Value), max(hi, m.Value)
	}
	for _, s := range p.Series {
		beside := 0.0
		if s.Bars {
			beside = 0.5
		}
		for _, q := range s.Points {
			lo, hi, most = min(lo, q.X-beside), max(hi, q.X+beside), max(most, q.Y)
		}
	}
	if lo == hi && p.X.Log {
		lo, hi = lo/2, hi*2
	} else if lo == hi {
		lo, hi = max(lo-1, min(lo, 0)), hi+1
	}
	if p.X.Ticks == nil {
		p.X.Lo, p.X.Hi = lo, hi
		p.X.Ticks = ticks(p.X, 6)
	}
	if p.Y.Ticks != nil {
		return
	}
	if most <= 0 {
		most = 1
	}
	most = max(most, leastTop)
	p.Y.Lo, p.Y.Hi = 0, most
	p.Y.Hi = p.Y.Step(5) * math.Ceil(most/p.Y.Step(5)*(1-1e-9))
	p.Y.Ticks = ticks(p.Y, 5)
}

func (s *Series) draw(p *Plot) {
	every, tips := 1, (len(s.Points)+mostTips-1)/mostTips
	if len(s.Points) > mostSigns && !s.Loose {
		every = len(s.Points) / fewSigns
	}
	for i := range s.Points {
		q := &s.Points[i]
		x, y := p.X.position(q.X), p.Y.position(q.Y)
		q.AtX, q.AtY = percents(x), percents(100-y)
		q.Signed = !s.Bars && s.Sign != None && (i+every/2)%every == 0
		q.Tip = q.Text != "" && (s.Bars || i%tips == 0 || i == len(s.Points)-1)
		if s.Bars {
			wide := min(0.8*(p.X.position(q.X+0.5)-p.X.position(q.X-0.5)), widestBar)
			y = max(y, leastBar)
			q.Left, q.Wide, q.AtY = percents(x-wide/2), percents(wide), percents(100-y)
			q.High = percents(max(y-p.Y.position(q.Base), 0))
		}
	}
	if s.Bars || s.Loose {
		return
	}
	s.Values = values(s.Points)
	for _, stroke := range s.strokes() {
		path := s.trace(p, stroke)
		if s.Area {
			s.Fill += path + "V100H" + coordinate(p.X.position(stroke[0].X)) + "Z"
		}
		if len(stroke) == 1 {
			path += "h0" // round ends make it a dot
		}
		s.Path += path
	}
}

// values joins the values of points. A script finds where the points are in the path, which has one command for each.
func values(points []Point) string {
	if len(points) == 0 || points[0].Value == "" {
		return ""
	}
	var b strings.Builder
	for i, q := range points {
		if i > 0 {
			b.WriteByte('|')
		}
		if i == 0 || q.Value != points[i-1].Value {
			b.WriteString(q.Value)
		}
	}
	return b.String()
}

// strokes splits the points at gaps that are too wide.
func (s *Series) strokes() (all [][]Point) {
	for i, q := range s.Points {
		if i == 0 || s.Gap > 0 && q.X-s.Points[i-1].X > s.Gap {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], q)
	}
	return all
}

func (s *Series) trace(p *Plot, points []Point) string {
	var path strings.Builder
	for i, q := range points {
		x, y := coordinate(p.X.position(q.X)), coordinate(100-p.Y.position(q.Y))
		switch {
		case i == 0 && s.Rises:
			path.WriteString("M" + x + " 100V" + y)
		case i == 0:
			path.WriteString("M" + x + " " + y)
		case s.Steps:
			path.WriteString("H" + x + "V" + y)
		default:
			path.WriteString("L" + x + " " + y)
		}
	}
	return path.String()
}

// anchor keeps a text near an end of the axis inside the plot.
func anchor(at float64) string {
	const near = 20
	switch {
	case at < near:
		return "start"
	case at > 100-near:
		return "end"
	}
	return "middle"
}

// Finite reports whether a value can be drawn.
func Finite(v float64) bool { return !math.IsNaN(v) && math.Abs(v) <= mostNumber }

func coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

func percents(v float64) string { return coordinate(v) + "%" }
