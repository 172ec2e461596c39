package simulate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"weir/internal/plot"
	"weir/internal/tabular"

	"weir"
)

//go:embed report.html
var reportHTML string

//go:embed report.css
var reportCSS string

var reportPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"count": count, "share": share, "span": span, "decimal": decimal, "whole": whole, "plural": plural,
	"interval": func(i Interval) string { return i.text(decimal) },
}).Parse(reportHTML))

type tile struct{ Value, Name, Note string }

// shownUsers is how many of the worst users are shown at once; the others are a click away.
const shownUsers = 10

// WriteReport writes the study as one page of HTML that needs nothing else: no network, no scripts, no fonts. Programs
// use the JSON of the study instead.
func (s *Study) WriteReport(w io.Writer) error {
	page := struct {
		*Study
		Style       template.CSS
		Span        string
		When        string
		Verdict     []string
		Tiles       []tile
		Readings    []string
		Changes     []comparison
		Plots       []*plot.Plot
		ReachPlots  []*plot.Plot
		First, Rest []UserStudy
		InSample    string
		OtherLines  int // of the log, that are neither a mail nor skipped
	}{
		Study: s, Style: template.CSS(plot.CSS + reportCSS), Span: s.Log.span(), When: s.Log.when(),
		Verdict: s.verdict(), Tiles: s.tiles(), Changes: s.changes(), Plots: s.figures(),
		InSample: InSample, OtherLines: max(0, s.Log.Lines-s.Log.Mails-s.Log.Skipped),
		Readings: []string{IntervalReading, ReachReading},
		First:    s.Worst[:min(len(s.Worst), shownUsers)], Rest: s.Worst[min(len(s.Worst), shownUsers):],
	}
	if s.Reach != nil {
		page.ReachPlots = s.Reach.figures()
	}
	if err := reportPage.Execute(w, page); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// span is how long a log is, in words.
func (l LogInfo) span() string {
	switch d := l.To.Sub(l.From); {
	case d >= 48*time.Hour:
		return plural(int(math.Round(d.Hours()/24)), "day")
	case d >= 2*time.Hour:
		return plural(int(math.Round(d.Hours())), "hour")
	default:
		return plural(int(math.Ceil(max(d.Minutes(), 0))), "minute")
	}
}

// when is the time that a log is of, where it tells.
func (l LogInfo) when() string {
	if l.Relative || l.From.IsZero() || l.To.IsZero() {
		return ""
	}
	const day, minute = "2006-01-02", "2006-01-02 15:04"
	layout := day
	if l.To.Sub(l.From) < 48*time.Hour {
		layout = minute
	}
	return l.From.UTC().Format(layout) + " to " + l.To.UTC().Format(layout) + " UTC"
}

// verdict says in a sentence or two what people would have noticed.
func (s *Study) verdict() (said []string) {
	switch bound, within := s.mostWithin(); {
	case s.Mails == 0:
		return []string{"The log has no mail that could be replayed."}
	case s.Delayed == 0:
		said = append(said, fmt.Sprintf("None of the %s would have been delayed.", plural(s.Mails, "message")))
	case within > 0:
		said = append(said, fmt.Sprintf("%s of the messages would have been delayed, most of those for less than %s.",
			share(s.DelayedShare), spell(bound)))
	default:
		said = append(said, fmt.Sprintf("%s of the messages would have been delayed, for %s in the mean.",
			share(s.DelayedShare), spell(s.MeanDelay)))
	}
	if s.Stops == 0 {
		return append(said, fmt.Sprintf("Nobody would have been stopped in %s.", s.Log.span()))
	}
	stopped := fmt.Sprintf("%s of %s would have been stopped", count(s.StoppedUsers), plural(s.Users, "user"))
	if s.StopsMonthly > 0 && plot.Finite(1/s.StopsMonthly) {
		stopped += ": on average one false alarm per user in " + inMonths(1/s.StopsMonthly)
		if s.StopsRange[0] > 0 && plot.Finite(1/s.StopsRange[0]) {
			stopped += fmt.Sprintf(" (95%%: %s to %s)", inMonths(1/s.StopsRange[1]), inMonths(1/s.StopsRange[0]))
		}
	}
	return append(said, stopped+".")
}

func (s *Study) tiles() []tile {
	all := []tile{
		{share(s.DelayedShare), "messages delayed", count(s.Delayed) + " of " + count(s.Mails)},
		{span(s.MeanDelay), "mean delay", "of those who wait; half wait less than " + span(s.MedianDelay)},
		{span(s.MaxDelay), "longest delay", count(s.Waited) + " of " + plural(s.Recipients, "recipient") + " waited"},
		{count(s.DelayedUsers), "users ever delayed", ofUsers(s.DelayedUsers, s.Users)},
		{count(s.Stops), "stops", "of " + plural(s.StoppedUsers, "user") + "; " +
			perMonth(100*s.StopsMonthly, s.StopsRange.times(100))},
		{count(s.MostWaiting), "most waiting at once", "recipients of all users"},
	}
	if r := s.Reach; r != nil {
		all = append(all, tile{count(r.Flags), "reach flags",
			"of " + plural(r.FlaggedUsers, "user") + "; " + perMonth(r.FlagsMonthly, r.FlagsRange)},
			tile{count(r.Held), "recipients held by reach", "if new ones of flagged users are held"})
	}
	return all
}

// ofUsers is a share of users, with its interval.
func ofUsers(n, all int) string {
	return fmt.Sprintf("%s of %s (95%%: %s)", share(ratio(n, all)), count(all), wilson(n, all).text(share))
}

// perMonth is how often something happens, with its interval.
func perMonth(v float64, i Interval) string {
	return fmt.Sprintf("%s per 100 users and month (95%%: %s)", decimal(v), i.text(decimal))
}

// A comparison is what was used beside what is advised.
type comparison struct{ Name, Used, Advised string }

// changes compares the advice with what was used.
func (s *Study) changes() []comparison {
	if s.Advice == nil {
		return nil
	}
	p, a, f := s.Params, s.Advice.Params, s.Advice.Figures
	return []comparison{
		{"rate", p.Rate(), a.Rate()},
		{"working_set", count(p.WorkingSet), count(a.WorkingSet)},
		{"max_slack", count(p.MaxSlack), count(a.MaxSlack)},
		{"max_mslack", count(p.MaxMSlack), count(a.MaxMSlack)},
		{"stop", count(p.Stop), count(a.Stop)},
		{"messages delayed", share(s.DelayedShare), share(f.DelayedShare)},
		{"mean delay", span(s.MeanDelay), span(f.MeanDelay)},
		{"stops", count(s.Stops), count(f.Stops)},
	}
}

// Rate is how fast recipients leave, as an operator writes it.
func (p ParamsInfo) Rate() string {
	every, err := weir.ParseDuration(p.Period)
	if err != nil {
		return p.Period
	}
	return RateText(every.Std())
}

// EachTo is how many recipients each mail of a virus has.
func (a *Advice) EachTo(virus int) int {
	if len(a.Virus) == len(adviceViruses) {
		return adviceViruses[virus].WithDefaults().Recipients
	}
	return 1
}

// nobody stands in place of a figure that is no number.
const nobody = "–"

func count(n int) string { return tabular.Grouped(int64(n)) }

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return count(n) + " " + what
}

// whole writes an estimate as the number of people that it is of.
func whole(v float64) string {
	if !plot.Finite(v) {
		return nobody
	}
	return count(int(math.Round(v)))
}

// decimal writes a figure in three digits.
func decimal(v float64) string {
	switch {
	case !plot.Finite(v):
		return nobody
	case math.Abs(v) >= 100:
		return whole(v)
	}
	text := strconv.FormatFloat(v, 'f', max(0, 2-int(math.Floor(math.Log10(math.Max(math.Abs(v), 0.001))))), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if text == "-0" {
		return "0"
	}
	return text
}

// share writes a share of something in percent.
func share(v float64) string {
	if !plot.Finite(v) {
		return nobody
	}
	return shareText(v)
}

func ratio(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// span writes a number of seconds, as exact as anybody wants it.
func span(seconds float64) string {
	switch {
	case !plot.Finite(seconds):
		return nobody
	case math.Abs(seconds) < 3600:
		return spanText(seconds)
	case math.Abs(seconds) < 48*3600:
		return weir.Duration(time.Duration(math.Round(seconds/60)) * time.Minute).String()
	}
	return decimal(math.Round(seconds/8640)/10) + "d"
}

// spell writes a number of seconds in a sentence.
func spell(seconds float64) string {
	for _, unit := range []struct {
		name string
		size float64
	}{{"hour", 3600}, {"minute", 60}, {"second", 1}} {
		if n := seconds / unit.size; plot.Finite(n) && n >= 1 && n < 100 && n == math.Trunc(n) {
			return plural(int(n), unit.name)
		}
	}
	return span(seconds)
}

// inMonths writes a number of months, or of years where it is many.
func inMonths(n float64) string {
	if n >= 24 {
		return whole(n/12) + " years"
	}
	if text := decimal(math.Round(n*10) / 10); text != "1" {
		return text + " months"
	}
	return "1 month"
}

// short cuts a name that is too long for a picture. The table has it in full.
func short(name string) string {
	const most = 16
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return name
}
