package flood

import (
	"fmt"
	"math"
	"strconv"

	"weir/internal/tabular"
	"weir/lab/sheet"
)

// Sheet shows the report.
func (r *Report) Sheet() *sheet.Sheet {
	s := &r.Settings
	page := &sheet.Sheet{Command: "bench flood", Title: "Who is served under a flood"}
	if len(r.Floods) > 0 {
		page.About = []string{fmt.Sprintf("A service of %s requests/s (%d at a time, %s each). Asked for: %s/s by people, "+
			"%s/s by people without JavaScript, %s/s by a flood (%s × the capacity).", number(s.Capacity), s.Concurrent,
			duration(s.WorkMS), number(s.People), number(s.Without), number(s.Flood), number(s.Flood/s.Capacity))}
		page.Verdict = r.said()
	}
	for i := range r.Floods {
		f := &r.Floods[i]
		page.Sections = append(page.Sections, sheet.Section{ID: "flood-" + string(f.Kind), Title: r.heading(f),
			Table: r.table(f), Plots: f.plots(s.Capacity)})
	}
	for i := range r.Scenes {
		p := &r.Scenes[i]
		page.Sections = append(page.Sections, sheet.Section{ID: string(p.Scene), Title: p.heading(),
			Text: []string{p.about()}, Table: p.table(s.Seconds)})
	}
	page.Sections = append(page.Sections, sheet.Section{ID: "run", Title: "How it was run", Text: r.notes()})
	return page
}

func (r *Report) heading(f *Flood) string {
	return fmt.Sprintf("Flood from %s sources, %s requests/s each", number(float64(f.Sources)),
		number(r.Settings.Flood/float64(f.Sources)))
}

func (r *Report) table(f *Flood) *tabular.Table {
	t := &tabular.Table{Columns: []tabular.Column{
		{Head: "in front"},
		{Head: "people", Right: true},
		{Head: "p50", Right: true, Rank: 3},
		{Head: "p95", Right: true, Rank: 2},
		{Head: "no JavaScript", Right: true},
		{Head: "p50", Right: true, Rank: 3},
		{Head: "p95", Right: true, Rank: 2},
		{Head: "flood served", Right: true, Rank: 1},
		{Head: "capacity used", Right: true, Rank: 4},
		{Head: "target"},
	}}
	for i := range f.Rounds {
		one := &f.Rounds[i]
		t.Rows = append(t.Rows, []tabular.Cell{
			tabular.Tinted(tabular.Head, one.name()),
			tabular.Tinted(tint(one.Target.People), percent(one.People.Share)), tabular.Text(one.People.Half()),
			tabular.Text(one.People.Most()),
			tabular.Tinted(tint(one.Target.Without), percent(one.Without.Share)), tabular.Text(one.Without.Half()),
			tabular.Text(one.Without.Most()),
			tabular.Text(number(float64(one.Flood.Served)/r.Settings.Seconds) + "/s"), tabular.Text(percent(one.Use)),
			tabular.Tinted(tint(one.Target.Met()), one.Target.String()),
		})
	}
	return t
}

// name is the front with its version. That of weir is left out: it is the one that runs.
func (r *Round) name() string { return frontName(r.Front, r.Title, r.Version) }

func frontName(front, title, version string) string {
	if version == "" || front == "weir" {
		return title
	}
	return title + " " + version
}

func (t Target) String() string { return metOrNot(t.Met()) }

// tint is the colour of a target.
func tint(is bool) tabular.Tint {
	if is {
		return tabular.Good
	}
	return tabular.Bad
}

func metOrNot(met bool) string {
	if met {
		return "met"
	}
	return "not met"
}

// Half writes the median time of those who were served, if there were any.
func (f Figures) Half() string { return f.within(f.P50) }

// Most writes the 95th percentile of their times.
func (f Figures) Most() string { return f.within(f.P95) }

func (f Figures) within(ms float64) string {
	if f.Served == 0 {
		return "–"
	}
	return duration(ms)
}

// notes explain the figures.
func (r *Report) notes() []string {
	s := &r.Settings
	var all []string
	if len(r.Floods) > 0 {
		all = append(all,
			fmt.Sprintf("Target: %s of the people served within %s; of those without JavaScript all within %s, or as "+
				"many as %s of the capacity.",
				percent(peopleTarget), duration(s.PatienceMS), duration(s.PatientMS), percent(withoutTarget)))
	}
	others := 0.0
	for i := range r.Floods {
		for j := range r.Floods[i].Rounds {
			one := &r.Floods[i].Rounds[j]
			if st := one.Stamps; st != nil {
				all = append(all,
					fmt.Sprintf("Flood from %s sources: people paid %s stamps, of %s operations as a rule and %s at "+
						"most; as a rule that took %s here, and would take about %s on a phone.",
						number(float64(r.Floods[i].Sources)), number(float64(st.Paid)), number(float64(st.Work)),
						number(float64(st.Most)), duration(st.HereMS), duration(st.PhoneMS)))
			}
			others = max(others, one.Others)
			if one.Flood.Unsent > 0 {
				all = append(all,
					fmt.Sprintf("%s, flood from %s sources: this machine sent only %s of what the flood asks for.",
						one.Title, number(float64(r.Floods[i].Sources)),
						percent(1-float64(one.Flood.Unsent)/float64(one.Flood.Offered))))
			}
		}
	}
	for i := range r.Scenes {
		all = append(all, r.Scenes[i].notes()...)
		for _, one := range r.Scenes[i].Rounds {
			others = max(others, one.Others)
		}
	}
	if others > disturbed {
		all = append(all,
			fmt.Sprintf("Other programs had up to %s of this machine meanwhile: the figures are not to be relied on.",
				percent(others)))
	}
	for _, l := range r.LeftOut {
		all = append(all, fmt.Sprintf("%s is left out: %s.", l.Front, l.Why))
	}
	return append(all, fmt.Sprintf("All of it ran on one machine: %s. In each round %s s were counted after %s s of "+
		"warm-up.", r.Machine, number(s.Seconds), number(s.WarmUp)))
}

// disturbed is the share of the machine that others may have before it is said.
const disturbed = 0.1

// percent writes a share. Only all is written as all, and only nothing as nothing.
func percent(share float64) string {
	p := math.Round(1000*share) / 10
	switch {
	case share < 1 && p == 100:
		p = 99.9
	case share > 0 && p == 0:
		p = 0.1
	}
	return strconv.FormatFloat(p, 'f', -1, 64) + " %"
}

// duration writes milliseconds with about three digits.
func duration(ms float64) string {
	switch {
	case ms < 9.95:
		return strconv.FormatFloat(math.Round(10*ms)/10, 'f', -1, 64) + " ms"
	case ms < 999.5:
		return strconv.FormatFloat(math.Round(ms), 'f', -1, 64) + " ms"
	}
	return strconv.FormatFloat(math.Round(ms/100)/10, 'f', -1, 64) + " s"
}

// number writes a number with about three digits, or all digits of a large one, in groups.
func number(n float64) string {
	if n < 9.95 {
		return strconv.FormatFloat(math.Round(10*n)/10, 'f', -1, 64)
	}
	return tabular.Grouped(int64(math.Round(n)))
}

func (p *Played) heading() string {
	switch p.Scene {
	case AfterFlood:
		return "After a flood: programs that neither pay nor keep tickets"
	case Keys:
		return "Invented keys: one client of an API beside them"
	case Turns:
		return "Turns: people beside addresses that pay for every request"
	case Shared:
		return "One address: people who share it, beside addresses that pay for every request"
	case Uploads:
		return "Slow uploads of one address: programs beside them"
	default:
		return "A payer: people beside an attacker who pays with one core"
	}
}

// about says how the scene is played, and what its target is.
func (p *Played) about() string {
	service := fmt.Sprintf("A service of %s requests/s.", number(sceneConcurrent/sceneWork.Seconds()))
	served := fmt.Sprintf("Target: %s served.", percent(sceneTarget))
	switch p.Scene {
	case AfterFlood:
		return fmt.Sprintf("%s A flood of %d/s lasts %s. Programs come at %d/s, each from a new address, and try up "+
			"to %d times, %s apart. Those are counted who came %s after its end or later. %s",
			service, burstRate, duration(milliseconds(burst)), callers, callTries, duration(milliseconds(callPause)),
			duration(milliseconds(calm)), served)
	case Keys:
		return fmt.Sprintf("%s %d requests/s come from one address, each with another key. One client with a key and "+
			"an address of its own asks once a second, and does not try again. %s",
			service, inventedRate, served)
	case Turns, Shared:
		who, target := "of their own", fmt.Sprintf("Target: %s of the pages whole, and %s of those within %g times what "+
			"equal turns give.", percent(sceneTarget), percent(sceneTarget), turnTarget)
		if p.Scene == Shared {
			who, target = "that they share", fmt.Sprintf("Target: %s of the pages whole.", percent(sceneTarget))
		}
		return fmt.Sprintf("A service that takes %s for a request. People with an address %s load a page of %d "+
			"requests; the time in which they make stamps does not count. One core makes stamps for payers with an "+
			"address each, who have one request at a time, and a new stamp for each. %s",
			duration(milliseconds(turnWork)), who, 1+pageParts, target)
	case Uploads:
		return fmt.Sprintf("A service with 8 places, that takes %s for a request. One address always sends 8 bodies of "+
			"1 MiB, at 1.2 KiB/s, or pays and sends a byte each %s. Programs come at %d/s, each from a new address, and "+
			"try up to %d times, %s apart. %s", duration(milliseconds(turnWork)), duration(milliseconds(uploadPause)),
			callers, callTries, duration(milliseconds(callPause)), served)
	default:
		return fmt.Sprintf("%s People load a page of %d requests. The attacker makes stamps as fast as one core can, "+
			"and uses them on %d connections. Target: half of the pages within %d times what they take without the "+
			"attacker, who has one address. Making a stamp does not count.",
			service, 1+pageParts, payerConnections, pageTarget)
	}
}

// table shows the figures of so many seconds. The scene Payer is about medians, the others about who is served in time.
func (p *Played) table(seconds float64) *tabular.Table {
	measure, ofMedian, ofServed := "equal turns", 3, 0
	if p.Scene == Payer {
		measure, ofMedian, ofServed = "times", 0, 3
	}
	t := &tabular.Table{Columns: []tabular.Column{
		{Head: "in front"},
		{Head: "beside"},
		{Head: "served", Right: true, Rank: ofServed},
		{Head: "median", Right: true, Rank: ofMedian},
		{Head: "p95", Right: true, Rank: ofServed},
		{Head: measure, Right: true, Rank: ofMedian / 3},
		{Head: "attack served", Right: true, Rank: 2},
		{Head: "target"},
	}}
	measured := false
	for i := range p.Rounds {
		one := &p.Rounds[i]
		for j := range one.Parts {
			part := &one.Parts[j]
			c, median, met := &part.Clients, part.Clients.Half(), part.met()
			against, attack, judged := "–", "–", true
			if p.Scene == Payer {
				median, met, judged = part.Median(), one.Met, j == judgedPart
				if j > 0 {
					against = part.Ratio()
				}
			} else if part.TurnsMS > 0 {
				against = duration(part.TurnsMS)
			}
			measured = measured || against != "–"
			switch {
			case p.Scene == AfterFlood || p.Scene == Keys:
				attack = percent(part.Attack.Share)
			case part.Attack.Offered > 0:
				attack = number(float64(part.Attack.Served)/seconds) + "/s"
			}
			hue, target := tabular.Plain, ""
			if judged {
				hue, target = tint(met), metOrNot(met)
			}
			t.Rows = append(t.Rows, []tabular.Cell{
				tabular.Tinted(tabular.Head, frontName(one.Front, one.Title, one.Version)), tabular.Text(part.Beside),
				tabular.Tinted(hue, percent(c.Share)), tabular.Text(median), tabular.Text(c.Most()),
				tabular.Tinted(hue, against), tabular.Text(attack), tabular.Tinted(hue, target),
			})
		}
	}
	if !measured {
		t.Drop(measure)
	}
	return t
}

// Median writes the median. Where half of the pages never came, it is more than the patience of people.
func (p *Part) Median() string {
	if p.Clients.Offered == 0 {
		return "–"
	}
	return p.atLeast() + duration(p.MedianMS)
}

// Ratio writes how many times as long that is as without the attack.
func (p *Part) Ratio() string { return p.atLeast() + number(p.Times) + " ×" }

func (p *Part) atLeast() string {
	if 2*p.Clients.Served <= p.Clients.Offered {
		return "> "
	}
	return ""
}

// notes explain the figures of a scene.
func (p *Played) notes() (all []string) {
	for i := range p.Rounds {
		one := &p.Rounds[i]
		for j := range one.Parts {
			part := &one.Parts[j]
			where := fmt.Sprintf("%s, %s", one.Title, part.Beside)
			if st := part.Stamps; st != nil {
				all = append(all,
					fmt.Sprintf("%s: people paid %s stamps, of %s operations as a rule; as a rule that took %s here.",
						where, number(float64(st.Paid)), number(float64(st.Work)), duration(st.HereMS)))
			}
			if st := part.AttackPaid; st != nil {
				all = append(all, fmt.Sprintf("%s: the attacker paid %s stamps, of %s operations as a rule.", where,
					number(float64(st.Paid)), number(float64(st.Work))))
			}
			if f := &part.Attack; f.Unsent > 0 {
				all = append(all, fmt.Sprintf("%s: this machine sent only %s of what the attack asks for.", where,
					percent(1-float64(f.Unsent)/float64(f.Offered))))
			}
		}
	}
	return all
}
