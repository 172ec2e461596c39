package simulate

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"weir/internal/plot"
)

//go:embed sheet.html
var sheetHTML string

var sheetPage = template.Must(template.Must(reportPage.Clone()).New("sheet").Parse(sheetHTML))

// A sheet is a report with the parts that every study has: the result in a sentence, key figures, plots with their
// data, and how to read them. Like that of a mail log it is one page of HTML that needs nothing else.
type sheet struct {
	Command  string // that wrote it
	Title    string
	About    []string // what was looked at
	Verdict  []string
	Tiles    []tile
	Sections []section
	Readings []string
	Names    string // what the page gives away
}

type section struct {
	ID, Title, Note string
	Text            []string
	Plots           []*plot.Plot
	Table           plot.Table
}

func (s sheet) write(w io.Writer) error {
	page := struct {
		sheet
		Style template.CSS
	}{s, template.CSS(plot.CSS + reportCSS)}
	if err := sheetPage.Execute(w, page); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// A ReachReport is a study of reach, and of what.
type ReachReport struct {
	*ReachStudy
	Log LogInfo
	// How the throttle was set, in a line.
	Rule string
}

// WriteReport writes the study as one page of HTML that needs nothing else: no network, no scripts, no fonts.
func (r ReachReport) WriteReport(w io.Writer) error {
	verdict := "Nobody would have been flagged for writing to too many new people."
	if r.Flags > 0 {
		verdict = fmt.Sprintf("%s of %s would have been flagged for writing to too many new people, %s in all.",
			count(r.FlaggedUsers), plural(r.Log.Users, "user"), plural(r.Flags, "time"))
	}
	s := sheet{
		Command: "simulate reach", Title: "Who would have been flagged in this mail",
		About: []string{fmt.Sprintf("%s of a log, %s, %s", r.Log.span(), plural(r.Log.Users, "user"),
			plural(r.Log.Mails, "message")), r.Rule},
		Verdict: []string{verdict},
		Tiles: []tile{
			{count(r.Flags), "flags", perMonth(r.FlagsMonthly, r.FlagsRange)},
			{count(r.FlaggedUsers), "users flagged", ofUsers(r.FlaggedUsers, r.Log.Users)},
			{count(r.Held), "recipients held or refused", "counted in every message"},
		},
		Sections: []section{
			{ID: "people", Title: "Who they write to", Note: "different people of each user", Plots: r.figures()},
			{ID: "thresholds", Title: "Other thresholds", Note: "the same log", Text: []string{InSample},
				Table: r.thresholds()},
		},
		Readings: []string{
			"Nothing is modelled. Every message of the log went through the throttle that would run, at the time it was " +
				"sent.",
			"A user is flagged for writing to too many new people within an hour, a day or a week. " +
				"Every flag is counted as " +
				"a false alarm: if an account of the log was misused, it is among those with flags.",
			ReachReading, IntervalReading, "A month has 30 days.",
		},
		Names: "This page holds names of users, and of no recipient.",
	}
	if when := r.Log.when(); when != "" {
		s.About = append(s.About, when)
	}
	if len(r.Stolen) > 0 {
		s.Sections = append(s.Sections, section{
			ID: "stolen", Title: "Stolen accounts", Note: "made to write to new people, to see when they are found",
			Text: []string{"None of that is in the other figures."}, Table: r.stolen(),
		})
	}
	return s.write(w)
}

// thresholds are the flags by threshold, and when thieves were found.
func (r *ReachStudy) thresholds() plot.Table {
	t := plot.Table{Head: []string{"threshold", "flags", "per 100 users and month", "95%"}}
	for _, s := range r.Stolen {
		t.Head = append(t.Head, decimal(s.PerHour)+" an hour: found after")
	}
	for _, th := range r.Thresholds {
		row := []string{th.Threshold, count(th.Flags), decimal(th.FlagsMonthly), th.FlagsRange.text(decimal)}
		for i := range r.Stolen {
			row = append(row, foundAfter(th.FoundAfter, i))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func foundAfter(found []int, i int) string {
	switch {
	case i >= len(found):
		return nobody
	case found[i] < 0:
		return "never"
	case found[i] == 0:
		return "flagged before"
	}
	return plural(found[i], "new recipient")
}

func (r *ReachStudy) stolen() plot.Table {
	t := plot.Table{Head: []string{"user", "new people an hour", "found after", "that is"}}
	for _, s := range r.Stolen {
		after, long := foundAfter([]int{s.FoundAfter}, 0), nobody
		if s.Problem != "" {
			after = s.Problem
		} else if s.FoundAfter > 0 {
			long = span(s.After)
		}
		t.Rows = append(t.Rows, []string{s.User, decimal(s.PerHour), after, long})
	}
	return t
}

// A VirusReport is what becomes of viruses under a mail throttle.
type VirusReport struct {
	Rule       string // how the throttle is set, in a line
	Recipients string // who each mail goes to
	Viruses    []VirusTried
	Table      []VirusRow // the document's, where that was asked for
}

// VirusTried is one that was let out.
type VirusTried struct {
	Rate float64 // mails a minute
	VirusRange
}

// WriteReport writes it as one page of HTML that needs nothing else.
func (r VirusReport) WriteReport(w io.Writer) error {
	s := sheet{
		Command: "simulate virus", Title: "What becomes of a virus under this throttle",
		About: []string{r.Rule, r.Recipients},
		Readings: []string{
			"Recipients are counted until the user is stopped, or a day is over.",
			"It matters in which phase of the user’s clock a virus begins, and whether a mail of the user has just " +
				"spent their credit: all are tried, and " +
				"the best and the worst are shown.",
			"The account has been quiet before. Passed and held together are the people the virus wrote to until it " +
				"was stopped; those held when it " +
				"is stopped are never sent.",
		},
	}
	worst := VirusTried{}
	grid := plot.Table{Head: []string{"messages a minute", "passed, at best", "at worst", "held", "stopped after, at best",
		"at worst"}}
	for i, v := range r.Viruses {
		if i == 0 || v.Worst.Passed > worst.Worst.Passed {
			worst = v
		}
		grid.Rows = append(grid.Rows, []string{
			decimal(v.Rate), count(v.Best.Passed), count(v.Worst.Passed), count(max(v.Best.Held, v.Worst.Held)),
			stoppedText(v.Best.StoppedAfter), stoppedText(v.Worst.StoppedAfter),
		})
	}
	if len(r.Viruses) > 0 {
		s.Verdict = []string{fmt.Sprintf("With %s messages a minute, a virus would reach %s at worst, and be stopped "+
			"after %s.",
			decimal(worst.Rate), plural(worst.Worst.Passed, "recipient"), stoppedText(worst.Worst.StoppedAfter))}
		if worst.Worst.StoppedAfter < 0 {
			s.Verdict = []string{fmt.Sprintf("A virus that sends %s messages a minute would never be stopped, and reach "+
				"%s in the time that was looked at.",
				decimal(worst.Rate), plural(worst.Worst.Passed, "recipient"))}
		}
		s.Tiles = []tile{
			{count(worst.Worst.Passed), "recipients reached at worst", "at " + decimal(worst.Rate) + " messages a minute"},
			{stoppedText(worst.Worst.StoppedAfter), "stopped after", "at the same rate"},
		}
		s.Sections = append(s.Sections, section{ID: "viruses", Title: "By how fast it sends", Plots: r.figures(),
			Table: grid})
	}
	if len(r.Table) > 0 {
		s.Sections = append(s.Sections, section{
			ID: "document", Title: "The document’s table", Note: "with the document’s parameters",
			Table: documentTable(r.Table),
			Text: []string{"The document tried two real viruses and one of its own; in front of the first, a mail " +
				"of the user had spent their slack."},
		})
	}
	return s.write(w)
}

func stoppedText(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return span(seconds)
}

// figures draws what passes, and when it ends, by how fast a virus sends.
func (r VirusReport) figures() []*plot.Plot {
	draw := func(id, title, unit string, whole bool, of func(VirusPoint) (float64, string)) *plot.Plot {
		p := &plot.Plot{
			ID: id, Title: title, X: plot.Axis{Title: "messages a minute, on a logarithmic scale", Log: true},
			Y:    plot.Axis{Title: unit, Whole: whole},
			Data: plot.Table{Head: []string{"messages a minute", "at best", "at worst"}},
		}
		best, worst := plot.Series{Name: "begun at the best moment"}, plot.Series{Name: "begun at the worst moment"}
		for _, v := range r.Viruses {
			b, bestText := of(v.Best)
			x, worstText := of(v.Worst)
			best.Points = append(best.Points,
				plot.Point{X: v.Rate, Y: b, Text: decimal(v.Rate) + " a minute, at best: " + bestText})
			worst.Points = append(worst.Points,
				plot.Point{X: v.Rate, Y: x, Text: decimal(v.Rate) + " a minute, at worst: " + worstText})
			p.Data.Rows = append(p.Data.Rows, []string{decimal(v.Rate), bestText, worstText})
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

func documentTable(rows []VirusRow) plot.Table {
	t := plot.Table{Head: []string{"messages a minute", "virus", "passed: document", "reference", "weir",
		"stopped: document", "reference", "weir"}}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{
			decimal(r.Rate), r.What, count(r.DocumentPassed),
			Between(count(r.ReferencePassed[0]), count(r.ReferencePassed[1])),
			Between(count(r.Ours.Best.Passed), count(r.Ours.Worst.Passed)), span(r.DocumentStopped),
			Between(span(r.ReferenceStopped[0]), span(r.ReferenceStopped[1])),
			Between(stoppedText(r.Ours.Best.StoppedAfter), stoppedText(r.Ours.Worst.StoppedAfter)),
		})
	}
	return t
}

// Between writes a range of figures, or one where both are the same.
func Between(from, to string) string {
	if from == to {
		return from
	}
	return from + " – " + to
}

// crowdNames are the names of crowds in reports.
var crowdNames = map[string]string{
	CrowdDesktop: "people", CrowdPhone: "people on phones", CrowdWithout: "people without scripts", CrowdFlood: "flood",
	CrowdPaying: "flood that pays",
}

// WriteReport writes the study as one page of HTML that needs nothing else: no network, no scripts, no fonts.
func (s *FloodStudy) WriteReport(w io.Writer, o FloodOptions) error {
	o = o.WithDefaults()
	flooded := o.Flood > 0 || o.Paying > 0 || o.Hashes > 0
	people, without := s.people(s.Crowds), s.people(s.Without)
	verdict := fmt.Sprintf("%s of the people were served with weir in front, after %s in the mean; with nothing but "+
		"a queue %s.",
		share(people.Share), span(people.MeanWait), share(without.Share))
	about := fmt.Sprintf("People and a flood from %s to %s of %s, in front of a service that can do %s requests a "+
		"second: %d at once, %s each.",
		span(s.From), span(s.Until), span(s.For), decimal(s.Capacity), s.Concurrent, span(s.Service))
	if !flooded {
		about = fmt.Sprintf("People and no flood for %s, in front of a service that can do %s requests a second: %d "+
			"at once, %s each.",
			span(s.For), decimal(s.Capacity), s.Concurrent, span(s.Service))
	}
	page := sheet{
		Command: "simulate flood", Title: "What people get of a service while it is flooded", About: []string{about},
		Verdict: []string{verdict},
		Tiles: []tile{
			{share(people.Share), "people served",
				fmt.Sprintf("%s of %s (95%%: %s)", count(people.Served), count(people.Offered),
					wilson(people.Served, people.Offered).text(share))},
			{span(people.MeanWait), "their mean wait", "of those served, with the time for stamps"},
			{share(without.Share), "served without weir",
				fmt.Sprintf("%s of %s", count(without.Served), count(without.Offered))},
			{span(s.PeakPhone), "a stamp takes a phone at most",
				fmt.Sprintf("stamps were asked for during %s", span(s.Asked))},
		},
		Sections: []section{
			{ID: "crowds", Title: "Who got what", Note: "of those who came while the flood lasted",
				Table: s.crowdTable(), Text: []string{
					"Served, refused and left are all who came, but for those whose fate was open when the time was " +
						"over. Shares of the work are of what the " +
						"service could do meanwhile; what is missing to 100% was idle, or went to those who came " +
						"before."}},
			{ID: "course", Title: "How it went", Note: "second by second", Plots: s.course()},
		},
		Readings: []string{
			"The lanes, the waiting room and the price of stamps are weir’s own. People, flood and service are made " +
				"up; chance comes from the seed, and the " +
				"same seed gives the same figures.",
			fmt.Sprintf("Without weir there is a queue with room for %s, in which a request may wait for %s.", count(o.Queue),
				span(o.Timeout.Seconds())),
			"Waits are those of requests that were served, including the time for stamps.",
			"The 95% interval is Wilson’s: it says how much of the share is the chance of one run.",
		},
	}
	if !flooded {
		page.Sections[0].Note = ""
	}
	return page.write(w)
}

// people adds up all crowds that are no flood.
func (s *FloodStudy) people(crowds []FloodCrowd) (all FloodCrowd) {
	waited := 0.0
	for _, c := range crowds {
		if c.Crowd != CrowdFlood && c.Crowd != CrowdPaying {
			all.Offered, all.Served = all.Offered+c.Offered, all.Served+c.Served
			waited += c.MeanWait * float64(c.Served)
		}
	}
	all.Share = ratio(all.Served, all.Offered)
	if all.Served > 0 {
		all.MeanWait = waited / float64(all.Served)
	}
	return all
}

func (s *FloodStudy) crowdTable() plot.Table {
	t := plot.Table{Head: []string{"", "came", "served", "share", "mean wait", "95% wait less than", "refused", "left",
		"open at the end", "stamps", "of the work", "without weir"}}
	for i, c := range s.Crowds {
		bare := nobody
		if i < len(s.Without) {
			bare = share(s.Without[i].Share)
		}
		t.Rows = append(t.Rows, []string{
			crowdNames[c.Crowd], count(c.Offered), count(c.Served), share(c.Share), span(c.MeanWait), span(c.P95Wait),
			count(c.Refused), count(c.Left),
			count(max(0, c.Offered-c.Served-c.Refused-c.Left)), count(c.Stamps), share(c.Capacity), bare,
		})
	}
	return t
}

// mostRows is about how many rows the data of a course has.
const mostRows = 60

// course draws the seconds of the play: who was served, with weir and without, and what was asked for.
func (s *FloodStudy) course() []*plot.Plot {
	draw := func(id, title, unit, says string, names []string, of func(FloodPoint) []float64) *plot.Plot {
		p := &plot.Plot{
			ID: id, Title: title, Says: says, X: plot.Axis{Title: "seconds from the start"}, Y: plot.Axis{Title: unit},
			Data: plot.Table{Head: append([]string{"second"}, names...)},
		}
		lines := make([]plot.Series, len(names))
		thin := (len(s.Points) + mostRows - 1) / mostRows
		for n, at := range s.Points {
			row := []string{count(at.Second)}
			for i, v := range of(at) {
				lines[i].Points = append(lines[i].Points, plot.Point{X: float64(at.Second), Y: v,
					Text: fmt.Sprintf("%s, second %d: %s", names[i], at.Second, decimal(v))})
				row = append(row, decimal(v))
			}
			if n%thin == 0 || n == len(s.Points)-1 {
				p.Data.Rows = append(p.Data.Rows, row)
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
