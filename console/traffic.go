package console

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/plot"
)

//go:embed traffic.html
var trafficHTML string

// trafficView is the part of the overview that says what passes, who is held back, and what happened lately.
type trafficView struct {
	At       time.Time
	Hour     bool   // the last hour is shown, and not the last five minutes
	Lead     string // the most important thing, in a sentence
	Alarm    bool   // more is held back than admitted
	Gates    []trafficPlots
	Active   []*gatePlot // of throttles that held something back
	Shadows  []shadowView
	Held     []HeldBack
	Refusals []Refusal
	Changes  []Change
}

// trafficPlots are the plots of one gate.
type trafficPlots struct {
	Name, Address, Kind string
	Plots               []*gatePlot
}

// A shadowView says what enforcing a throttle would have done.
type shadowView struct {
	Throttle, Unit string
	Would, Of      string
	Since          time.Time
	Most           []HeldBack
}

// mostHeld is how many names the page shows, of all throttles together.
const mostHeld = 15

func trafficOf(o *Overview, hour bool) trafficView {
	v := trafficView{At: o.At, Hour: hour, Refusals: o.Refusals, Changes: o.Changes}
	span := spanOf(hour)
	for i := range o.Gates {
		g := &o.Gates[i]
		t := trafficPlots{Name: g.Name, Address: g.Address, Kind: g.Kind, Plots: []*gatePlot{span.verdicts(&g.Series,
			capital(g.Unit), g.Name, Admitted, Delayed, Challenged, Refused, Would)}}
		if len(g.Columns[AddedMedian]) > 0 {
			t.Plots = append(t.Plots, span.added(&g.Series, g.Name))
		}
		v.Gates = append(v.Gates, t)
	}
	for i := range o.Throttles {
		t := &o.Throttles[i]
		v.Held = append(v.Held, t.Held...)
		measures := []Measure{Delayed, Challenged, Refused, WouldDelay, WouldChallenge, WouldRefuse}
		if slices.ContainsFunc(measures, func(m Measure) bool { return highestOf(t.Columns[m]) > 0 }) {
			v.Active = append(v.Active, span.verdicts(&t.Series, t.Name, t.Name, measures...))
		}
		if n, of := t.Hour.WouldRefuse(); t.Shadow && of > 0 {
			v.Shadows = append(v.Shadows, shadowView{Throttle: t.Name, Unit: t.Unit, Would: rate(n), Of: rate(of),
				Since: t.Hour.Since, Most: t.Would[:min(len(t.Would), 5)]})
		}
	}
	slices.SortStableFunc(v.Held, func(a, b HeldBack) int { return cmp.Compare(b.Recent-b.Over, a.Recent-a.Over) })
	v.Held = v.Held[:min(len(v.Held), mostHeld)]
	v.Lead, v.Alarm = lead(o)
	return v
}

// Sure is how often lately, of what certainly belongs to the name.
func (h HeldBack) Sure() uint64 { return h.Recent - h.Over }

// lead says in a sentence or two how things are: the gate that turns away most, or would, and the one at which most
// wait.
func lead(o *Overview) (text string, alarm bool) {
	if o.ShadowAll != nil {
		return letPass(o), true
	}
	waits, crowded := whoWaits(o)
	if text, alarm = whoIsTurnedAway(o); text != "" {
		return strings.TrimSpace(text + " " + waits), alarm || crowded
	}
	return strings.TrimSpace(waits + " Nothing is turned away now." + without(o, "shadow")), crowded
}

// whoWaits says where most wait; nothing where nobody does. crowded means that more than half of what is asked there
// has to wait.
func whoWaits(o *Overview) (text string, crowded bool) {
	var worst *GateWatch
	var most, people, load float64
	for i := range o.Gates {
		g := &o.Gates[i]
		line, at := known(g.Last(InLine)), known(g.Last(Load))
		for j := range o.Routes {
			if r := &o.Routes[j]; strings.HasPrefix(r.Address, g.Address+" ") {
				line, at = line+known(r.Last(InLine)), max(at, known(r.Last(Load)))
			}
		}
		if n := known(g.Last(Waiting)) + line; n > most {
			worst, most, people, load = g, n, line, at
		}
	}
	if worst == nil {
		return "", false
	}
	var who []string
	if held := int(known(worst.Last(Waiting))); held > 0 {
		who = append(who, several(held, strings.TrimSuffix(worst.Unit, "s")))
	}
	if people > 0 {
		who = append(who, strings.Replace(several(int(people), "person"), "persons", "people", 1)+" in the waiting room")
	}
	text = fmt.Sprintf("Waiting at %s: %s.", worst.Name, strings.Join(who, ", "))
	if load > 0 {
		text += fmt.Sprintf(" The load is %s.", percent(load))
	}
	return text, load > 2
}

// whoIsTurnedAway says where most are turned away, at a gate or at its door; nothing where nobody is. alarm means more
// than are let in.
func whoIsTurnedAway(o *Overview) (text string, alarm bool) {
	var away, passed float64
	for i := range o.Gates {
		g := &o.Gates[i]
		if n := known(g.Last(Refused)) + known(g.Last(Challenged)); n > away {
			away, passed = n, known(g.Last(Admitted))
			text = fmt.Sprintf("%s of %s %s a second are turned away at %s", rate(n), rate(n+passed), g.Unit, g.Name)
		}
		if n := known(g.Last(TurnedAway)); n > away {
			away, passed = n, known(g.Last(Connections))-n
			text = fmt.Sprintf("%s of %s connections a second are turned away at the door of %s", rate(n), rate(n+passed),
				g.Name)
		}
	}
	if text == "" {
		return "", false
	}
	var by *ThrottleWatch
	var most float64
	for i := range o.Throttles {
		t := &o.Throttles[i]
		n := known(t.Last(Refused)) + known(t.Last(Challenged))
		if n > most {
			by, most = t, n
		}
	}
	if by != nil {
		text += fmt.Sprintf(", most by %s", by.Name)
		if len(by.Held) > 0 {
			text += fmt.Sprintf(", most often %s %s", by.Held[0].Kind, by.Held[0].Name)
		}
	}
	return text + ".", away > passed
}

// letPass says what is let pass as the emergency switch is on.
func letPass(o *Overview) string {
	const all = "Everything is let pass: the emergency switch is on."
	if would := without(o, "it"); would != "" {
		return all + would
	}
	return all + " Nothing would be held back now."
}

// without says where most would be held back but for shadow; nothing where nobody would.
func without(o *Overview, shadow string) string {
	var worst *GateWatch
	for i := range o.Gates {
		if g := &o.Gates[i]; known(g.Last(Would)) > 0 && (worst == nil || g.Last(Would) > worst.Last(Would)) {
			worst = g
		}
	}
	if worst == nil {
		return ""
	}
	n := worst.Last(Would) // counted when it is decided, and what is admitted at its end
	return fmt.Sprintf(" Without %s, %s of %s %s a second would be held back at %s.", shadow, rate(n),
		rate(max(n, known(worst.Last(Admitted)))), worst.Unit, worst.Name)
}

// known is a value, or 0 where there is none.
func known(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

func capital(word string) string {
	if word == "" {
		return word
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

// labels are what measures are called beside their lines.
var labels = map[Measure]string{Admitted: "admitted", Delayed: "delayed", Challenged: "asked to pay",
	Refused: "refused", Would: "would be held back", WouldDelay: "would be delayed",
	WouldChallenge: "would be asked to pay", WouldRefuse: "would be refused"}

// verdicts draws events a second by verdict: those that occurred. At a gate, admitted and refused ones are always
// there.
func (sp span) verdicts(s *Series, title, name string, measures ...Measure) *gatePlot {
	var lines []plot.Series
	var each, says []string
	most := 0.0
	for _, m := range measures {
		column := s.Columns[m]
		high := highestOf(column)
		if high == 0 && !(measures[0] == Admitted && (m == Admitted || m == Refused)) {
			continue
		}
		most = max(most, high)
		l := sp.line(s, m, string(m), perSecond)
		l.Name, l.Area = labels[m], m == Admitted || m == Refused
		now := rate(known(s.Last(m)))
		lines, each = append(lines, l), append(each, now)
		says = append(says, now+" "+l.Name)
	}
	top := rateTop(most)
	p := sp.draw(title, s.Unit+" a second", fmt.Sprintf("%s of %s a second since %s: now %s.", capital(s.Unit), name,
		sp.ago, strings.Join(says, ", ")), s.ends(), top, rateTicks(top), lines...)
	p.Each = each
	if len(s.At) == 0 {
		p.Each, p.Now, p.Says = nil, "no figures yet", title+" at "+name+": no figures yet."
	}
	return p
}

// added draws what an HTTP gate adds to requests.
func (sp span) added(s *Series, name string) *gatePlot {
	median, most := sp.line(s, AddedMedian, "added", seconds), sp.line(s, AddedMost, "most", seconds)
	median.Name, most.Name, most.Area = "median", "99 of 100 under", false
	top := max(plot.RoundUp(highestOf(s.Columns[AddedMost])), 1e-4)
	ticks := []plot.Tick{{Value: top, Text: seconds(top)}, {Value: top / 2, Text: seconds(top / 2)}, {Text: "0"}}
	now := []string{seconds(s.Last(AddedMedian)), seconds(s.Last(AddedMost))}
	p := sp.draw("Time added", "by weir, waits included", fmt.Sprintf("Time that weir adds to a request at %s since %s: "+
		"now %s for half of them, at most %s for 99 of 100.", name, sp.ago, now[0], now[1]), s.ends(), top, ticks, median,
		most)
	p.Each = now
	return p
}

// seconds writes a time that is given in seconds; a dash where there is none.
func seconds(v float64) string {
	if math.IsNaN(v) {
		return "–"
	}
	return about(time.Duration(v * float64(time.Second)))
}

func highestOf(v Values) (most float64) {
	for _, x := range v {
		most = max(most, known(float64(x)))
	}
	return most
}

// perSecond writes a rate.
func perSecond(v float64) string { return rate(v) + "/s" }

// ends is the time of the latest sample; zero where there is none.
func (s *Series) ends() (t time.Time) {
	if n := len(s.At); n > 0 {
		t = s.Time(n - 1)
	}
	return t
}

// line is a series of a plot. words writes a value for those who ask what it was. Values that are not known are left
// out.
func (sp span) line(s *Series, m Measure, class string, words func(float64) string) plot.Series {
	l := plot.Series{Class: class, Sign: plot.None, Area: true, Gap: sp.gap}
	if len(s.At) == 0 {
		return l
	}
	last, before := s.At[len(s.At)-1], math.Inf(-1)
	for i, at := range s.At {
		if i >= len(s.Columns[m]) || math.IsNaN(float64(s.Columns[m][i])) {
			continue
		}
		if x := float64(at-last) / 1000; x >= -sp.seconds && x <= 0 && x >= before {
			y := float64(s.Columns[m][i])
			l.Points = append(l.Points, plot.Point{X: x, Y: y, Value: words(y)})
			before = x
		}
	}
	return l
}

// moment writes a time, without the date where that is today's.
func moment(now, t time.Time) string {
	if now, t = now.UTC(), t.UTC(); now.Year() == t.Year() && now.YearDay() == t.YearDay() {
		return t.Format("15:04:05 UTC")
	}
	return t.Format("2006-01-02 15:04:05 UTC")
}

// Line is a change in a line.
func (c Change) Line() string {
	return strings.Join(slices.DeleteFunc([]string{strings.ReplaceAll(c.What, "-", " "), c.On, c.Text},
		func(s string) bool { return s == "" }), " · ")
}
