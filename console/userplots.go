package console

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/plot"
)

// A userPast is the last hour of a mail user as their page draws it.
type userPast struct {
	At, Since time.Time
	Whole     bool // it is a whole hour
	New       bool // it begins now
	Throttles []userPlots
}

type userPlots struct {
	Name, Kind string
	Plots      []*gatePlot
}

const hourLong = HourEvery * HourLength

func userPastOf(h UserHistory) userPast {
	v := userPast{At: h.At, Since: h.Since, Whole: h.At.Sub(h.Since) >= hourLong, New: h.At.Sub(h.Since) < 2*HourEvery}
	for i := range h.Throttles {
		s := &h.Throttles[i]
		of := userPlots{Name: s.Name, Kind: s.Kind}
		switch s.Kind {
		case "mail":
			of.Plots = []*gatePlot{
				userPlot(s, h.User, "Queue", "recipients that wait", StopAbove,
					userLine{Waiting, "waiting", "delayed"}),
				userPlot(s, h.User, "Slack", "new recipients that would pass now", "",
					userLine{Slack, "of messages to one", "admitted"}, userLine{MSlack, "to several", "pool"}),
				userPlot(s, h.User, "Working set", "recipients that always pass", "",
					userLine{WorkingSet, "recipients", "load"}),
			}
		case "reach":
			for _, w := range []struct {
				new, limit  Measure
				title, says string
			}{
				{NewInHour, HourLimit, "Reach in an hour", "new recipients in the hour before"},
				{NewInDay, DayLimit, "Reach in a day", "new recipients in the 24 hours before"},
				{NewInWeek, WeekLimit, "Reach in a week", "new recipients in the 7 days before"},
			} {
				if len(s.Columns[w.new]) > 0 {
					of.Plots = append(of.Plots, userPlot(s, h.User, w.title, w.says, w.limit,
						userLine{w.new, "new recipients", "away"}))
				}
			}
		}
		v.Throttles = append(v.Throttles, of)
	}
	return v
}

// A userLine is a measure, what it is called beside its line, and the class that colours it.
type userLine struct {
	of          Measure
	name, class string
}

// userPlot draws figures that hold until they change. limit, if it is known, is a line that should not be passed.
func userPlot(s *Series, user, title, unit string, limit Measure, of ...userLine) *gatePlot {
	sp := spanOf(true)
	var lines []plot.Series
	var now, says []string
	most := 0.0
	for _, o := range of {
		l := sp.line(s, o.of, o.class, number)
		l.Name, l.Steps, l.Area, l.Gap = o.name, true, len(of) == 1, 0
		l.Points = fromEdge(l.Points, s, o.of, sp)
		lines = append(lines, l)
		most = max(most, highestOf(s.Columns[o.of]))
		now = append(now, number(known(s.Last(o.of))))
		says = append(says, now[len(now)-1]+" "+o.name)
	}
	bound := known(s.Last(limit))
	top := max(plot.RoundUp(most), bound*1.25, 1)
	ticks := []plot.Tick{{Text: "0"}}
	if bound > 0 {
		ticks = append(ticks, plot.Tick{Value: bound, Text: number(bound), Limit: true})
	}
	if top > bound*1.25 { // else it would overlap that of the limit
		ticks = append(ticks, plot.Tick{Value: top, Text: number(top)})
	}
	text := fmt.Sprintf("%s of %s at %s over the last hour, %s: now %s, at most %s", title, user, s.Name, unit,
		strings.Join(says, ", "), number(most))
	if bound > 0 {
		text += ", limit " + number(bound)
	}
	p := sp.draw(title, unit, text+".", s.ends(), top, ticks, lines...)
	if len(of) > 1 {
		p.Each = now
	} else {
		p.Now, p.Most = now[0], number(most)
	}
	if bound > 0 {
		p.Now += " of " + number(bound)
	}
	return p
}

// fromEdge begins a line at the edge of the plot if its first value is from before. line leaves that one out.
func fromEdge(points []plot.Point, s *Series, m Measure, sp span) []plot.Point {
	column, n := s.Columns[m], len(s.At)
	if n == 0 || len(column) != n {
		return points
	}
	edge, from := s.At[n-1]-int64(sp.seconds*1000), -1
	for i, at := range s.At {
		if at < edge {
			from = i
		}
	}
	if from < 0 {
		return points
	}
	y := float64(column[from])
	return append([]plot.Point{{X: -sp.seconds, Y: y, Value: number(y)}}, points...)
}
