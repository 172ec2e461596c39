package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir"
	"weir/internal/plot"
	"weir/lab/sheet"
)

// A measure is a figure of a sweep that is drawn.
type measure struct {
	id, title, unit string
	of              func(Figures) float64
	text            func(float64) string
}

var (
	delayedMails = measure{
		"delayed", "Messages delayed", "messages delayed (%)",
		func(f Figures) float64 { return 100 * f.DelayedShare }, func(v float64) string { return share(v / 100) },
	}
	falseStops = measure{
		"stops", "False alarms", "stops per 100 users and month",
		func(f Figures) float64 { return 100 * f.StopsMonthly }, decimal,
	}
)

// sweep shows what another value of a parameter would have done: the source's figures 5 to 8 and 13, of the log's own
// traffic.
func (s *Study) sweep(w Sweep) sheet.Section {
	t := sheet.Grid([]string{w.Parameter, "delayed", "share", "mean delay", "stops", "per 100 users and month", "95%",
		"most waiting"})
	t.Columns[0].Right = true
	for _, p := range w.Points {
		sheet.AddRow(t, p.Value, count(p.Delayed), share(p.DelayedShare), span(p.MeanDelay), count(p.Stops),
			decimal(100*p.StopsMonthly), p.StopsRange.times(100).text(decimal), count(p.MostWaiting))
	}
	shown := sheet.Section{ID: "sweep-" + w.Parameter, Title: "With another " + w.Parameter, Table: t,
		Note: "the others stay as used"}
	switch w.Parameter {
	case "rate":
		shown.Plots = []*plot.Plot{s.swept(w, delayedMails), s.swept(w, meanDelay(w))}
	case "stop":
		shown.Plots = []*plot.Plot{s.swept(w, falseStops)}
	default:
		shown.Plots = []*plot.Plot{s.swept(w, delayedMails)}
	}
	return shown
}

// meanDelay has the unit that keeps its numbers short.
func meanDelay(w Sweep) measure {
	most := 0.0
	for _, p := range w.Points {
		if plot.Finite(p.MeanDelay) {
			most = max(most, p.MeanDelay)
		}
	}
	name, size := "seconds", 1.0
	switch {
	case most >= 2*86400:
		name, size = "days", 86400
	case most >= 2*3600:
		name, size = "hours", 3600
	case most >= 120:
		name, size = "minutes", 60
	}
	return measure{"delay", "Mean delay of those who wait", "mean delay (" + name + ")",
		func(f Figures) float64 { return f.MeanDelay / size }, func(v float64) string { return span(v * size) }}
}

func (s *Study) swept(w Sweep, m measure) *plot.Plot {
	k, _ := sweepableOf(w.Parameter)
	p := &plot.Plot{
		ID: m.id + "-" + w.Parameter, Title: m.title + ", by " + w.Parameter,
		X: plot.Axis{Title: cmp.Or(k.title, w.Parameter), Log: k.rate, Whole: !k.rate}, Y: plot.Axis{Title: m.unit},
	}
	var line plot.Series
	for _, at := range slices.SortedFunc(slices.Values(w.Points),
		func(a, b SweepPoint) int { return cmp.Compare(a.X, b.X) }) {
		v := m.of(at.Figures)
		line.Points = append(line.Points,
			plot.Point{X: at.X, Y: v, Name: at.Value, Text: w.Parameter + " " + at.Value + ": " + m.text(v)})
	}
	line.Area = true
	p.Series = []plot.Series{line}
	p.Marks = s.marks(w, k)
	p.Draw()
	p.Says = saysSweep(p, m)
	return p
}

// marks are the value that was used, and the one that is advised.
func (s *Study) marks(w Sweep, k sweepable) []plot.Mark {
	text := func(v float64) string {
		for _, p := range w.Points {
			if p.X == v {
				return p.Value
			}
		}
		return decimal(v)
	}
	used := k.of(s.Params)
	marks := []plot.Mark{{Value: used, Text: "used: " + text(used), Class: "used"}}
	if s.Advice == nil {
		return marks
	}
	switch advised := k.of(s.Advice.Params); {
	case advised == used:
		marks[0].Text = "used and advised: " + text(used)
	case advised > 0 || !k.rate:
		marks = append(marks, plot.Mark{Value: advised, Text: "advised: " + text(advised), Class: "advised"})
	}
	return marks
}

// saysSweep describes a sweep in a sentence: both ends, and what was used.
func saysSweep(p *plot.Plot, m measure) string {
	if p.Empty() {
		return ""
	}
	points := p.Series[0].Points
	first, last := points[0], points[len(points)-1]
	says := fmt.Sprintf("%s with %s", m.text(first.Y), first.Name)
	if len(points) > 1 {
		says = fmt.Sprintf("from %s to %s with %s", says, m.text(last.Y), last.Name)
	}
	for _, mark := range p.Marks {
		for _, q := range points {
			if q.X == mark.Value && len(points) > 2 {
				says += fmt.Sprintf("; %s with %s, as %s", m.text(q.Y), q.Name, mark.Class)
			}
		}
	}
	unit, _, _ := strings.Cut(m.unit, " (")
	return strings.ToUpper(unit[:1]) + unit[1:] + ": " + says + "."
}

// delays draws the distribution of delays of recipients who left by the clock.
func (s *Study) delays() *plot.Plot {
	p := &plot.Plot{
		ID: "delays", Title: "How long they wait",
		X: plot.Axis{Title: "delay, on a logarithmic scale (s, m, h or d)", Log: true},
		Y: plot.Axis{Title: "recipients who waited no longer (%)"},
	}
	line := plot.Series{Steps: true, Rises: true, Area: true}
	last := 0.0
	for _, d := range s.Delays {
		at := max(d.Seconds, 1)
		if plot.Finite(at) && d.Share > 0 && d.Share <= 1 {
			line.Points = append(line.Points,
				plot.Point{X: at, Y: 100 * d.Share, Text: share(d.Share) + " within " + span(at)})
			last = max(last, at)
		}
	}
	p.Series = []plot.Series{line}
	if len(line.Points) > 0 {
		p.X.Lo, p.X.Hi = line.Points[0].X, last
		if p.X.Lo == p.X.Hi {
			p.X.Lo, p.X.Hi = p.X.Lo/2, p.X.Hi*2
		}
		p.X.Ticks = timeTicks(p.X)
	}
	released := ""
	if n := s.Waited - s.Left; n > 0 {
		released = fmt.Sprintf(" Of the %s who waited, the other %s were released when their user was stopped, and "+
			"are not in the picture.",
			plural(s.Waited, "recipient"), count(n))
	}
	if bound, within := s.mostWithin(); within > 0 {
		p.Says = fmt.Sprintf("Of %s who left by the clock, %s waited %s or less; the longest wait was %s.%s",
			plural(s.Left, "recipient"), share(within), span(bound), span(s.MaxDelay), released)
	} else {
		p.Says = fmt.Sprintf("%s left by the clock, after %s at most.%s", plural(s.Left, "recipient"), span(s.MaxDelay),
			released)
	}
	return p.Draw()
}

// timeTicks divides a logarithmic axis of seconds at round times.
func timeTicks(a plot.Axis) []plot.Tick {
	all := []plot.Tick{}
	for _, v := range []float64{1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400, 30 * 86400, 365 * 86400} {
		if v >= a.Lo*(1-1e-9) && v <= a.Hi*(1+1e-9) {
			all = append(all, plot.Tick{Value: v, Text: weir.Duration(v * float64(time.Second)).String()})
		}
	}
	if len(all) < 3 && a.Hi < 100*a.Lo { // a short axis: at its ends, and in its middle
		all = []plot.Tick{}
		for _, v := range []float64{a.Lo, math.Sqrt(a.Lo * a.Hi), a.Hi} {
			all = append(all, plot.Tick{Value: v, Text: span(max(math.Round(v), 1))})
		}
	}
	return all
}

// mostWithin returns a delay that most of those delayed stayed below, and how many of them did; 0 where that is not
// known.
func (s *Study) mostWithin() (bound, within float64) {
	for _, bound := range []float64{60, 120, 300, 600, 1200, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, 24 * 3600} {
		for _, d := range s.Delays {
			if d.Seconds <= bound && d.Share <= 1 {
				within = max(within, d.Share)
			}
		}
		if within >= 0.75 {
			return bound, within
		}
	}
	return 0, 0
}

// The day is drawn in parts of half an hour.
const (
	dayParts = 48
	partLong = 24 * 60 / dayParts
)

// queue draws how many wait over the day: the most on any day, and the mean, which is so much less that it has a plot
// of its own.
func (s *Study) queue() []*plot.Plot {
	var sum, n, most [dayParts]float64
	for _, q := range s.Queue {
		if i := q.Minute / partLong; i >= 0 && i < dayParts && plot.Finite(q.Mean) {
			sum[i], n[i], most[i] = sum[i]+q.Mean, n[i]+1, max(most[i], float64(q.Most))
		}
	}
	var mean [dayParts]float64
	for i := range mean {
		mean[i] = sum[i] / max(n[i], 1)
	}
	day := func(id, title, unit string, of [dayParts]float64, says string) *plot.Plot {
		p := &plot.Plot{
			ID: id, Title: title, X: plot.Axis{Title: "time of day (hours)", Hi: dayParts}, Y: plot.Axis{Title: unit},
		}
		if s.Log.Relative {
			p.X.Title = "time of day (hours, from the log's start)"
		}
		for h := 0; h <= 24; h += 4 {
			p.X.Ticks = append(p.X.Ticks, plot.Tick{Value: float64(h * dayParts / 24), Text: strconv.Itoa(h)})
		}
		bars, top := plot.Series{Bars: true}, 0
		for i, v := range of {
			if n[i] == 0 {
				continue
			}
			bars.Points = append(bars.Points,
				plot.Point{X: float64(i) + 0.5, Y: v, Text: halfHour(i) + ": " + decimal(v)})
			if v > of[top] {
				top = i
			}
		}
		p.Series = []plot.Series{bars}
		p.Says = "Nobody waits at any time of the day."
		if of[top] > 0 {
			p.Says = fmt.Sprintf(says, decimal(of[top]), halfHour(top))
			if s.QueueEvery > 1 {
				p.Says += fmt.Sprintf(" So much happens in this log that it was looked at every %s only.",
					span(float64(s.QueueEvery)))
			}
		}
		return p.Draw()
	}
	return []*plot.Plot{
		day("queue-most", "The queue over the day, at most", "most recipients waiting, all users", most,
			"On no day did more than %s recipients of all users wait at once; that was at about %s."),
		day("queue-mean", "The queue over the day, in the mean", "mean recipients waiting, all users", mean,
			"In the mean of all days at most %s recipients of all users wait; that is at about %s."),
	}
}

// halfHour is when a part of the day begins.
func halfHour(part int) string { return fmt.Sprintf("%d:%02d", part*partLong/60, part*partLong%60) }

// mostCurves is how many users the growth plot shows, each with a sign of its own.
const mostCurves = 5

// figures draws how many different people users write to.
func (r *ReachStudy) figures() []*plot.Plot {
	return []*plot.Plot{r.perUser(), r.growth()}
}

func (r *ReachStudy) perUser() *plot.Plot {
	p := &plot.Plot{
		ID: "reach", Title: "Different recipients per user",
		X: plot.Axis{Title: "users, the one with the most first (rank)", Whole: true},
		Y: plot.Axis{Title: "different recipients", Whole: true},
	}
	calm, flagged := plot.Series{Name: "never flagged", Bars: true}, plot.Series{Name: "flagged", Bars: true}
	users := slices.SortedStableFunc(slices.Values(r.Users),
		func(a, b ReachUser) int { return cmp.Compare(b.Recipients, a.Recipients) })
	for i, u := range users {
		q := plot.Point{X: float64(i + 1), Y: u.Recipients, Text: short(u.User) + ": " + whole(u.Recipients)}
		if u.Flags > 0 {
			flagged.Points = append(flagged.Points, q)
		} else {
			calm.Points = append(calm.Points, q)
		}
	}
	p.Series = []plot.Series{calm, flagged}
	if len(users) > 0 {
		p.X.Lo, p.X.Hi = 0.5, float64(len(users))+0.5
		p.X.Ticks = rankTicks(len(users))
		p.Says = fmt.Sprintf("Of the %s shown, %s wrote to the most different people, %s; half of them wrote to %s "+
			"or fewer.",
			plural(len(users), "user"), short(users[0].User), whole(users[0].Recipients),
			whole(users[len(users)/2].Recipients))
	}
	return p.Draw()
}

// rankTicks divides an axis of ranks, which begins with 1.
func rankTicks(n int) []plot.Tick {
	all := []plot.Tick{{Value: 1, Text: "1"}}
	by := plot.Axis{Hi: float64(n), Whole: true}.Step(6)
	for v := by; v <= float64(n); v += by {
		if v > 1 {
			all = append(all, plot.Tick{Value: v, Text: plot.TickText(v, by)})
		}
	}
	return all
}

func (r *ReachStudy) growth() *plot.Plot {
	p := &plot.Plot{
		ID: "growth", Title: "How reach grows",
		X: plot.Axis{Title: "days from the start of the log"}, Y: plot.Axis{Title: "different recipients", Whole: true},
	}
	curves := r.Growth[:min(len(r.Growth), mostCurves)]
	rises := ""
	for i, c := range curves {
		line := plot.Series{Name: short(c.User)}
		for j := range min(len(c.Day), len(c.Sum)) {
			text := fmt.Sprintf("%s, day %s: %s", short(c.User), decimal(c.Day[j]), whole(c.Sum[j]))
			line.Points = append(line.Points, plot.Point{X: c.Day[j], Y: c.Sum[j], Text: text})
		}
		p.Series = append(p.Series, line)
		if n := len(c.Sum); n > 0 && i < 2 {
			rises += fmt.Sprintf(" %s reaches %s.", short(c.User), whole(c.Sum[n-1]))
		}
	}
	p.Says = "The curve of a person flattens, that of a stolen account suddenly rises." + rises
	return p.Draw()
}

// figures draws what passes, and when it ends, by how fast a virus sends.
func (r VirusReport) figures() []*plot.Plot {
	draw := func(id, title, unit string, whole bool, of func(VirusPoint) (float64, string)) *plot.Plot {
		p := &plot.Plot{
			ID: id, Title: title, X: plot.Axis{Title: "messages a minute, on a logarithmic scale", Log: true},
			Y: plot.Axis{Title: unit, Whole: whole},
		}
		best, worst := plot.Series{Name: "begun at the best moment"}, plot.Series{Name: "begun at the worst moment"}
		for _, v := range r.Viruses {
			b, bestText := of(v.Best)
			x, worstText := of(v.Worst)
			best.Points = append(best.Points,
				plot.Point{X: v.Rate, Y: b, Text: decimal(v.Rate) + " a minute, at best: " + bestText})
			worst.Points = append(worst.Points,
				plot.Point{X: v.Rate, Y: x, Text: decimal(v.Rate) + " a minute, at worst: " + worstText})
		}
		for _, points := range [][]plot.Point{best.Points, worst.Points} {
			slices.SortFunc(points, func(a, b plot.Point) int { return cmp.Compare(a.X, b.X) })
		}
		p.Series = []plot.Series{best, worst}
		return p.Draw()
	}
	passed := draw("passed", "How many it reaches", "recipients passed", true,
		func(v VirusPoint) (float64, string) { return float64(v.Passed), count(v.Passed) })
	stopped := draw("stopped", "When it is stopped", "minutes until it is stopped", false,
		func(v VirusPoint) (float64, string) {
			if v.StoppedAfter < 0 {
				return math.NaN(), "never"
			}
			return v.StoppedAfter / 60, span(v.StoppedAfter)
		})
	passed.Says = "How many recipients a virus reaches until it is stopped, by how many messages it sends in a minute."
	stopped.Says = "How long it takes until it is stopped. Where it never is, there is no point."
	return []*plot.Plot{passed, stopped}
}

// course draws the seconds of the play: who was served, with weir and without, and what was asked for.
func (s *FloodStudy) course() []*plot.Plot {
	draw := func(id, title, unit, says string, names []string, of func(FloodPoint) []float64) *plot.Plot {
		p := &plot.Plot{
			ID: id, Title: title, Says: says, X: plot.Axis{Title: "seconds from the start"}, Y: plot.Axis{Title: unit},
		}
		lines := make([]plot.Series, len(names))
		for _, at := range s.Points {
			for i, v := range of(at) {
				lines[i].Points = append(lines[i].Points, plot.Point{X: float64(at.Second), Y: v,
					Text: fmt.Sprintf("%s, second %d: %s", names[i], at.Second, decimal(v))})
			}
		}
		for i := range lines {
			lines[i].Name = names[i]
		}
		p.Series = lines
		return p.Draw()
	}
	served := func(by map[string]int) (people float64) {
		return float64(by[CrowdDesktop] + by[CrowdPhone] + by[CrowdWithout])
	}
	return []*plot.Plot{
		draw("served", "People who are served", "people served in a second",
			"People served in each second, with weir and with nothing but a queue.", []string{"with weir", "without"},
			func(p FloodPoint) []float64 { return []float64{served(p.Served), served(p.Without)} }),
		draw("price", "What a stamp takes", "seconds for a stamp",
			"How long a stamp takes on a phone and on another computer; nothing is asked where it is 0.",
			[]string{"on a phone", "on a desktop"},
			func(p FloodPoint) []float64 { return []float64{p.Phone, p.Desktop} }),
		draw("load", "Load", "load (1: as much as it can do)",
			"How much is asked of the service, for all that it can do.",
			[]string{"load"}, func(p FloodPoint) []float64 { return []float64{p.Load} }),
		draw("waiting", "Who waits", "requests waiting",
			"Who waits after paying, in the pool, and in the waiting room.", []string{"paid", "pool", "waiting room"},
			func(p FloodPoint) []float64 { return []float64{float64(p.Stamped), float64(p.Pool), float64(p.InLine)} }),
	}
}
