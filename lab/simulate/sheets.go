package simulate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/plot"
	"weir/internal/tabular"
	"weir/lab/sheet"
)

// ofUsersAndNobody says what the pages of a mail log give away.
const ofUsersAndNobody = "This page holds names of users, and of no recipient."

// nothingModelled is how to read the figures of a log.
const nothingModelled = "Nothing is modelled. Every message of the log went through the throttle that would run, at " +
	"the time it was sent."

// Sheet shows the study, with so many of the users who would notice most.
func (s *Study) Sheet(users int) *sheet.Sheet {
	page := &sheet.Sheet{
		Command: "simulate mail", Title: "What a throttle would have done to this mail",
		About:   append(s.Log.about(), s.Params.line()+"."),
		Verdict: s.verdict(), Tiles: s.tiles(), Names: ofUsersAndNobody,
		Readings: []string{nothingModelled,
			"A message is delayed if at least one of its recipients had to wait. Nothing is lost: those who wait leave one " +
				"by one, at the rate.",
			"A user is stopped when more than stop of their recipients wait. In this replay they release all that is held at " +
				"once, and go on; delays are of those who left by the clock. Every stop is counted as a false alarm: if an " +
				"account of the log was misused, it is among those who would notice most.",
			"The working set are the latest recipients of single messages, who never wait. max_mslack is how many recipients " +
				"of messages to several go at once, and also what a virus has for free.",
			"A month has 30 days. Each user’s clock starts with their first message.",
			"Reach counts recipients new to a user’s own history. A user is flagged when there are too many of them in an " +
				"hour, a day or a week.",
			IntervalReading, ReachReading},
	}
	if users = min(users, len(s.Worst)); users > 0 {
		t := sheet.Grid([]string{"user", "messages", "delayed", "stops", "mean delay", "longest", "most waiting"})
		for _, u := range s.Worst[:users] {
			sheet.AddRow(t, u.User, count(u.Mails), count(u.Delayed), count(u.Stops), span(u.MeanDelay),
				span(u.MaxDelay), count(u.Most))
		}
		page.Sections = append(page.Sections, sheet.Section{ID: "users", Title: "Who would notice most", Table: t})
	}
	if s.Reach != nil {
		page.Sections = append(page.Sections, sheet.Section{ID: "reach-section", Title: "Reach",
			Note: "how many different people each user writes to", Plots: s.Reach.figures(),
			Text: []string{s.Reach.verdict(s.Users) + " weir simulate reach tells more."}})
	}
	for _, w := range s.Sweeps {
		page.Sections = append(page.Sections, s.sweep(w))
	}
	if len(s.Sweeps) > 0 {
		last := &page.Sections[len(page.Sections)-1]
		last.Text = append(last.Text, InSample)
	}
	page.Sections = append(page.Sections, sheet.Section{ID: "queue", Title: "Who waits", Note: "for how long, and when",
		Plots: append(s.queue(), s.delays())})
	if a := s.Advice; a != nil {
		page.Sections = append(page.Sections, sheet.Section{ID: "advice", Title: "Advice", Table: s.changes(),
			Text: append(slices.Clone(a.Text), InSample), Code: a.Config})
	}
	return page
}

// about says what a log was like.
func (l LogInfo) about() []string {
	all := []string{fmt.Sprintf("%s of %s in %s.", plural(l.Mails, "message"), plural(l.Users, "user"), l.span())}
	if when := l.when(); when != "" {
		all[0] = strings.TrimSuffix(all[0], ".") + ", " + when + "."
	}
	const most = 5
	for _, r := range l.Reasons[:min(len(l.Reasons), most)] {
		all = append(all, fmt.Sprintf("Left out: %s %s, the first in line %s.", plural(r.Lines, "line"), r.Why,
			count(r.First)))
	}
	return all
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
	layout := time.DateOnly
	if l.To.Sub(l.From) < 48*time.Hour {
		layout = "2006-01-02 15:04"
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

func (s *Study) tiles() []sheet.Tile {
	left := "of those who left by the clock"
	if n := s.Waited - s.Left; n > 0 {
		left += "; " + count(n) + " more were released when their user was stopped"
	}
	together := "recipients of all users"
	if s.QueueEvery > 1 {
		together += "; looked at every " + span(float64(s.QueueEvery)) + " only"
	}
	return []sheet.Tile{
		{Value: share(s.DelayedShare), Name: "messages delayed", Note: count(s.Delayed) + " of " + count(s.Mails)},
		{Value: span(s.MeanDelay), Name: "mean delay", Note: "half wait less than " + span(s.MedianDelay)},
		{Value: span(s.MaxDelay), Name: "longest delay", Note: left},
		{Value: count(s.Waited), Name: "recipients who waited", Note: share(ratio(s.Waited, s.Recipients)) + " of " +
			count(s.Recipients)},
		{Value: count(s.DelayedUsers), Name: "users ever delayed", Note: ofUsers(s.DelayedUsers, s.Users)},
		{Value: count(s.Stops), Name: "stops", Note: "of " + plural(s.StoppedUsers, "user") + "; " +
			perMonth(100*s.StopsMonthly, s.StopsRange.times(100))},
		{Value: count(s.MostWaiting), Name: "most waiting at once", Note: together},
	}
}

// ofUsers is a share of users, with its interval.
func ofUsers(n, all int) string {
	return fmt.Sprintf("%s of %s (95%%: %s)", share(ratio(n, all)), count(all), wilson(n, all).text(share))
}

// perMonth is how often something happens, with its interval.
func perMonth(v float64, i Interval) string {
	return fmt.Sprintf("%s per 100 users and month (95%%: %s)", decimal(v), i.text(decimal))
}

// changes compares the advice with what was used, and says what viruses would get through.
func (s *Study) changes() *tabular.Table {
	p, a, f := s.Params, s.Advice.Params, s.Advice.Figures
	t := sheet.Grid([]string{"", "used", "advised"},
		[]string{"rate", p.Rate(), a.Rate()},
		[]string{"working_set", count(p.WorkingSet), count(a.WorkingSet)},
		[]string{"max_slack", count(p.MaxSlack), count(a.MaxSlack)},
		[]string{"max_mslack", count(p.MaxMSlack), count(a.MaxMSlack)},
		[]string{"stop", count(p.Stop), count(a.Stop)},
		[]string{"messages delayed", share(s.DelayedShare), share(f.DelayedShare)},
		[]string{"mean delay", span(s.MeanDelay), span(f.MeanDelay)},
		[]string{"stops", count(s.Stops), count(f.Stops)})
	return t
}

// Rate is how fast recipients leave, as an operator writes it.
func (p ParamsInfo) Rate() string { return RateText(p.Mail.Every) }

// line has all parameters of a mail throttle.
func (p ParamsInfo) line() string { return "R" + ParamsLine(p.Mail)[1:] }

// A ReachReport is a study of reach, and of what.
type ReachReport struct {
	*ReachStudy
	Log  LogInfo
	Rule string // how the throttle was set, in a line
}

// Sheet shows the study, with so many of the users who write to the most people.
func (r ReachReport) Sheet(users int) *sheet.Sheet {
	page := &sheet.Sheet{
		Command: "simulate reach", Title: "Who would have been flagged in this mail",
		About: append(r.Log.about(), r.Rule), Verdict: []string{r.verdict(r.Log.Users)}, Names: ofUsersAndNobody,
		Tiles: []sheet.Tile{
			{Value: count(r.Flags), Name: "flags", Note: perMonth(r.FlagsMonthly, r.FlagsRange)},
			{Value: count(r.FlaggedUsers), Name: "users flagged", Note: ofUsers(r.FlaggedUsers, r.Log.Users)},
			{Value: count(r.Held), Name: "recipients held or refused", Note: "counted in every message"},
		},
		Readings: []string{nothingModelled,
			"A user is flagged for writing to too many new people within an hour, a day or a week. Every flag is counted as " +
				"a false alarm: if an account of the log was misused, it is among those with flags.",
			ReachReading, "A month has 30 days."},
	}
	who := sheet.Section{ID: "people", Title: "Who writes to the most people", Plots: r.figures()}
	if users = min(users, len(r.Users)); users > 0 {
		who.Text = []string{ReachReading}
		who.Table = sheet.Grid([]string{"user", "messages", "different recipients", "new in an hour", "in a day", "flags",
			"held"})
		for _, u := range r.Users[:users] {
			sheet.AddRow(who.Table, u.User, count(u.Mails), whole(u.Recipients), whole(u.MostHour), whole(u.MostDay),
				count(u.Flags), count(u.Held))
		}
	}
	page.Sections = append(page.Sections, who)
	if len(r.Stolen) > 0 {
		page.Sections = append(page.Sections, sheet.Section{ID: "stolen", Title: "Stolen accounts", Table: r.stolen(),
			Note: "made to write to new people, to see when they are found",
			Text: []string{"None of that is in the other figures."}})
	}
	if len(r.Thresholds) > 0 {
		page.Sections = append(page.Sections, sheet.Section{ID: "thresholds", Title: "With another threshold",
			Text: []string{InSample, IntervalReading}, Table: r.thresholds()})
	}
	return page
}

func (r *ReachStudy) verdict(users int) string {
	if r.Flags == 0 {
		return "Nobody would have been flagged for writing to too many new people."
	}
	return fmt.Sprintf("%s of %s would have been flagged for writing to too many new people, %s in all.",
		count(r.FlaggedUsers), plural(users, "user"), plural(r.Flags, "time"))
}

// thresholds are the flags by threshold, and when thieves were found.
func (r *ReachStudy) thresholds() *tabular.Table {
	heads := []string{"threshold", "flags", "per 100 users and month", "95%"}
	for _, s := range r.Stolen {
		heads = append(heads, decimal(s.PerHour)+" an hour: found after")
	}
	t := sheet.Grid(heads)
	for _, th := range r.Thresholds {
		row := []string{th.Threshold, count(th.Flags), decimal(th.FlagsMonthly), th.FlagsRange.text(decimal)}
		for i := range r.Stolen {
			row = append(row, foundAfter(th.FoundAfter, i))
		}
		sheet.AddRow(t, row...)
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

func (r *ReachStudy) stolen() *tabular.Table {
	t := sheet.Grid([]string{"user", "new people an hour", "found after", "that is"})
	for _, s := range r.Stolen {
		after, long := foundAfter([]int{s.FoundAfter}, 0), nobody
		if s.Problem != "" {
			after = s.Problem
		} else if s.FoundAfter > 0 {
			long = span(s.After)
		}
		sheet.AddRow(t, s.User, decimal(s.PerHour), after, long)
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

// Sheet shows what became of the viruses.
func (r VirusReport) Sheet() *sheet.Sheet {
	page := &sheet.Sheet{
		Command: "simulate virus", Title: "What becomes of a virus under this throttle",
		Readings: []string{
			"Recipients are counted until the user is stopped, or a day is over.",
			"It matters in which phase of the user’s clock a virus begins, and whether a mail of the user has just " +
				"spent their credit: all are tried, and the best and the worst are shown.",
			"The account has been quiet before. Passed and held together are the people the virus wrote to until it " +
				"was stopped; those held when it is stopped are never sent.",
		},
	}
	for _, line := range []string{r.Rule, r.Recipients} {
		if line != "" {
			page.About = append(page.About, line)
		}
	}
	worst := VirusTried{}
	grid := sheet.Grid([]string{"messages a minute", "passed", "held", "stopped after"})
	grid.Columns[0].Right = true
	for i, v := range r.Viruses {
		if i == 0 || v.Worst.Passed > worst.Worst.Passed {
			worst = v
		}
		sheet.AddRow(grid, decimal(v.Rate), Between(count(v.Best.Passed), count(v.Worst.Passed)),
			Between(count(min(v.Best.Held, v.Worst.Held)), count(max(v.Best.Held, v.Worst.Held))),
			Between(stoppedText(v.Best.StoppedAfter), stoppedText(v.Worst.StoppedAfter)))
	}
	if len(r.Viruses) > 0 {
		page.Verdict = []string{fmt.Sprintf("With %s messages a minute, a virus would reach %s at worst, and be stopped "+
			"after %s.", decimal(worst.Rate), plural(worst.Worst.Passed, "recipient"), stoppedText(worst.Worst.StoppedAfter))}
		if worst.Worst.StoppedAfter < 0 {
			page.Verdict = []string{fmt.Sprintf("A virus that sends %s messages a minute would never be stopped, and reach "+
				"%s in the time that was looked at.", decimal(worst.Rate), plural(worst.Worst.Passed, "recipient"))}
		}
		page.Sections = append(page.Sections, sheet.Section{ID: "viruses", Title: "By how fast it sends", Table: grid,
			Text:  []string{"Recipients, from the best to the worst moment of the user's clock for it to begin."},
			Plots: r.figures()})
	}
	if len(r.Table) > 0 {
		page.Sections = append(page.Sections, sheet.Section{ID: "document", Title: "The document’s table",
			Note: "with the document’s parameters", Table: documentTable(r.Table),
			Text: []string{"With " + ParamsLine(DocumentParams()) + ". The document tried two real viruses and one of its own; " +
				"in front of the first, a mail of the user had spent their slack."}})
	}
	return page
}

func documentTable(rows []VirusRow) *tabular.Table {
	t := sheet.Grid([]string{"messages a minute", "virus", "passed", "reference", "weir", "stopped after", "reference",
		"weir", ""})
	t.Columns[0].Right, t.Columns[1].Right, t.Columns[8].Right = true, false, false
	for _, r := range rows {
		mark := tabular.Tinted(tabular.Good, "as it should be")
		if !r.Kept {
			mark = tabular.Tinted(tabular.Bad, "worse than the reference")
		}
		sheet.AddRow(t, decimal(r.Rate), r.What, count(r.DocumentPassed),
			Between(count(r.ReferencePassed[0]), count(r.ReferencePassed[1])),
			Between(count(r.Ours.Best.Passed), count(r.Ours.Worst.Passed)), span(r.DocumentStopped),
			Between(span(r.ReferenceStopped[0]), span(r.ReferenceStopped[1])),
			Between(stoppedText(r.Ours.Best.StoppedAfter), stoppedText(r.Ours.Worst.StoppedAfter)), "")
		last := t.Rows[len(t.Rows)-1]
		last[len(last)-1] = mark
	}
	return t
}

// crowdNames are the names of crowds in reports.
var crowdNames = map[string]string{
	CrowdDesktop: "people", CrowdPhone: "people on phones", CrowdWithout: "people without scripts", CrowdFlood: "flood",
	CrowdPaying: "flood that pays",
}

// Sheet shows what people got.
func (s *FloodStudy) Sheet(o FloodOptions) *sheet.Sheet {
	o = o.WithDefaults()
	people, without := s.people(s.Crowds), s.people(s.Without)
	about := fmt.Sprintf("People and a flood from %s to %s of %s", span(s.From), span(s.Until), span(s.For))
	note := "of those who came while the flood lasted"
	if o.Flood == 0 && o.Paying == 0 && o.Hashes == 0 {
		about, note = fmt.Sprintf("People and no flood for %s", span(s.For)), ""
	}
	asked := "No stamps were asked for."
	if s.Asked > 0 {
		asked = fmt.Sprintf("Stamps were asked for during %s, at most 2^%.1f hashes: %s on a phone. At the end they were "+
			"still asked for.", span(s.Asked), s.Peak.Bits(), span(s.PeakPhone))
		if s.Dormant >= 0 {
			asked = strings.Replace(asked, "At the end they were still asked for.",
				fmt.Sprintf("Nothing was asked any more %s after the flood.", span(s.Dormant)), 1)
		}
	}
	return &sheet.Sheet{
		Command: "simulate flood", Title: "What people get of a service while it is flooded",
		About: []string{fmt.Sprintf("%s, in front of a service that can do %s requests a second: %d at once, %s each.", about,
			decimal(s.Capacity), s.Concurrent, span(s.Service))},
		Verdict: []string{fmt.Sprintf("%s of the people were served with weir in front, after %s in the mean; with nothing "+
			"but a queue %s.", share(people.Share), span(people.MeanWait), share(without.Share)), asked},
		Tiles: []sheet.Tile{
			{Value: share(people.Share), Name: "people served", Note: fmt.Sprintf("%s of %s (95%%: %s)", count(people.Served),
				count(people.Offered), wilson(people.Served, people.Offered).text(share))},
			{Value: span(people.MeanWait), Name: "their mean wait", Note: "of those served, with the time for stamps"},
			{Value: share(without.Share), Name: "served without weir",
				Note: fmt.Sprintf("%s of %s", count(without.Served), count(without.Offered))},
			{Value: span(s.PeakPhone), Name: "a stamp takes a phone at most", Note: "asked for during " + span(s.Asked)},
		},
		Sections: []sheet.Section{
			{ID: "crowds", Title: "Who got what", Note: note, Table: s.crowdTable(), Text: []string{
				fmt.Sprintf("Waits are those of requests that were served, including the time for stamps. Without weir there is "+
					"a queue with room for %s, in which a request may wait for %s.", count(o.Queue), span(o.Timeout.Seconds()))}},
			{ID: "course", Title: "How it went", Note: "second by second", Plots: s.course()},
		},
		Readings: []string{
			"The lanes, the waiting room and the price of stamps are weir’s own. People, flood and service are made " +
				"up; chance comes from the seed, and the same seed gives the same figures.",
			"Served, refused and left are all who came, but for those whose fate was open when the time was over. Shares of " +
				"the work are of what the service could do meanwhile; what is missing to 100% was idle, or went to those who " +
				"came before.",
			"The 95% interval is Wilson’s: it says how much of the share is the chance of one run.",
		},
	}
}

// people adds up all crowds that are no flood.
func (s *FloodStudy) people(crowds []FloodCrowd) (all FloodCrowd) {
	waited := 0.0
	for _, c := range crowds {
		if !c.flood() {
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

func (c *FloodCrowd) flood() bool { return c.Crowd == CrowdFlood || c.Crowd == CrowdPaying }

func (s *FloodStudy) crowdTable() *tabular.Table {
	t := sheet.Grid([]string{"", "came", "served", "mean wait", "95% wait less than", "refused", "left",
		"open at the end", "stamps", "of the work", "without weir", "wait"})
	for i, c := range s.Crowds {
		bare, wait := nobody, nobody
		if i < len(s.Without) {
			bare, wait = share(s.Without[i].Share), span(s.Without[i].MeanWait)
		}
		sheet.AddRow(t, crowdNames[c.Crowd], count(c.Offered), share(c.Share), span(c.MeanWait), span(c.P95Wait),
			count(c.Refused), count(c.Left), count(max(0, c.Offered-c.Served-c.Refused-c.Left)), count(c.Stamps),
			share(c.Capacity), bare, wait)
		if served := &t.Rows[i][2]; !c.flood() && c.Share >= 0.95 {
			served.Tint = tabular.Good
		} else if !c.flood() && c.Share < 0.5 {
			served.Tint = tabular.Bad
		}
	}
	return t
}
