package flood

import (
	"fmt"

	"weir/internal/tabular"
)

func (p *Played) heading() string {
	switch p.Scene {
	case AfterFlood:
		return "After a flood: programs that neither pay nor keep tickets"
	case Keys:
		return "Invented keys: one client of an API beside them"
	default:
		return "A payer: people beside an attacker who pays with one core"
	}
}

// about says how it is played, and what should come of it.
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
	default:
		return fmt.Sprintf("%s People load a page of %d requests. The attacker makes stamps as fast as one core can, "+
			"and uses them on %d connections. Target: half of the pages within %d times what they take without the "+
			"attacker, who has one address.",
			service, 1+pageParts, payerConnections, pageTarget)
	}
}

// table shows the figures. So many seconds were counted.
func (p *Played) table(seconds float64) *tabular.Table {
	t := &tabular.Table{Columns: []tabular.Column{
		{Head: "IN FRONT"},
		{Head: "SERVED", Right: true},
		{Head: "P50", Right: true, Rank: 2},
		{Head: "P95", Right: true, Rank: 3},
		{Head: "ATTACK SERVED", Right: true, Rank: 1},
		{Head: "TARGET"},
	}}
	if p.Scene == Payer {
		t.Columns = []tabular.Column{
			{Head: "IN FRONT"},
			{Head: "BESIDE"},
			{Head: "PAGES SERVED", Right: true, Rank: 2},
			{Head: "MEDIAN", Right: true},
			{Head: "TIMES", Right: true},
			{Head: "PAYER SERVED", Right: true, Rank: 1},
			{Head: "TARGET"},
		}
	}
	for i := range p.Rounds {
		one := &p.Rounds[i]
		hue := tabular.Bad
		if one.Met {
			hue = tabular.Good
		}
		name, target := tabular.Tinted(tabular.Head, frontName(one.Front, one.Title, one.Version)),
			tabular.Tinted(hue, metOrNot(one.Met))
		if p.Scene != Payer {
			c := &one.Parts[0].Clients
			t.Rows = append(t.Rows, []tabular.Cell{
				name, tabular.Tinted(hue, percent(c.Share)), tabular.Text(c.Half()), tabular.Text(c.Most()),
				tabular.Text(percent(one.Parts[0].Attack.Share)), target,
			})
			continue
		}
		for j := range one.Parts {
			part, times, payer, judged := &one.Parts[j], tabular.Text("–"), tabular.Text("–"), tabular.Text("")
			if j > 0 {
				times, payer = tabular.Text(part.Ratio()),
					tabular.Text(number(float64(part.Attack.Served)/seconds)+"/s")
			}
			if j == judgedPart {
				times.Tint, judged = hue, target
			}
			t.Rows = append(t.Rows, []tabular.Cell{
				name, tabular.Text(part.Beside), tabular.Text(percent(part.Clients.Share)), tabular.Text(part.Median()),
				times, payer, judged,
			})
		}
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

// notes are what has to be said about the figures of a scene.
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
