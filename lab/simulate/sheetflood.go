package simulate

import (
	"fmt"
	"io"
	"weir/internal/plot"
)

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
			fmt.Sprintf("Without weir there is a queue with room for %s, in which one may wait for %s.", count(o.Queue),
				span(o.Timeout.Seconds())),
			"Waits are those of who was served, with the time for stamps.",
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
