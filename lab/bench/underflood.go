//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	floods "weir/lab/flood" // flood is what B4 does
	"weir/throttle/stamp"
)

// underFlood is S9: what people get while a service of fixed capacity is flooded with ten times as much as it can do,
// with nothing in front of it, with nginx, with HAProxy and with weir. The peers are for comparison. A peer that is not
// installed is left out. With -write, the page with the plots goes to lab/bench/underflood.html. See docs/flood.md.
func underFlood(t *trial) (figures []figure) {
	run := floods.Options{Scenes: []floods.Scene{floods.UnderFlood}}
	if t.quick {
		run.For, run.WarmUp, run.Patient = 2*time.Second, 2*time.Second, 8*time.Second
	}
	r := t.runFlood("S9", run)
	for _, f := range r.Floods {
		for _, one := range f.Rounds {
			what := fmt.Sprintf("10 × unstamped flood from %d sources, %s in front: people served / without "+
				"JavaScript / flood", f.Sources, one.Title)
			got := fmt.Sprintf("%.1f %% (p95 %s) / %.1f %% (p95 %s) / %.0f/s", 100*one.People.Share, one.People.Most(),
				100*one.Without.Share, one.Without.Most(), float64(one.Flood.Served)/r.Settings.Seconds)
			if one.Front == "weir" {
				figures = append(figures, figure{what, "≥ 95 % / ≥ 10 % of capacity, or all", got, one.Target.Met()})
			} else {
				figures = append(figures, figure{"for comparison, " + what, "–", got, true})
			}
		}
	}
	if t.write {
		page := try(os.Create("lab/bench/underflood.html"))
		defer page.Close()
		check(r.Page(page))
	}
	return figures
}

// runFlood runs scenes with a weir that is built for them, and names the peers that are left out.
func (t *trial) runFlood(row string, run floods.Options) floods.Report {
	run.Solver, run.Algorithm = buildWeir(t.folder()), t.algorithm
	if t.algorithm != stamp.SHA256K {
		run.Fronts = []string{"weir"} // what the others do does not depend on the puzzle, and takes ten minutes
	}
	run.Watch = told(row)
	r, err := floods.Run(t.context(), run)
	for _, l := range r.LeftOut {
		fmt.Fprintf(os.Stderr, "%s: %s is left out: %s\n", row, l.Front, l.Why)
	}
	check(err)
	return r
}

// told says on standard error which round begins, as each takes up to 80 seconds.
func told(row string) func(floods.Progress) {
	last := 0
	return func(p floods.Progress) {
		if p.Round != last {
			last = p.Round
			fmt.Fprintf(os.Stderr, "%s: round %d of %d, %s %s, %s\n", row, p.Round, p.Rounds, p.Scene, p.Kind, p.Front)
		}
	}
}

// afterFlood is S10: what clients get that a throttle may shut out by mistake. Programs that neither pay nor keep
// tickets, when a flood is over; a client of an API beside invented keys; people beside an attacker who pays, and
// beside many who pay for every request, also where they share an address; programs beside slow uploads. The peers are
// for comparison. See docs/flood.md.
func afterFlood(t *trial) (figures []figure) {
	run := floods.Options{Scenes: floods.Scenes[1:]}
	if t.quick {
		run.For, run.WarmUp, run.Haste = 150*time.Millisecond, 50*time.Millisecond, 100
	}
	for _, p := range t.runFlood("S10", run).Scenes {
		for _, one := range p.Rounds {
			f := sceneFigure(p.Scene, &one)
			if one.Front != "weir" {
				f.what, f.target, f.met = "for comparison, "+f.what, "–", true
			}
			figures = append(figures, f)
		}
	}
	return figures
}

func sceneFigure(s floods.Scene, one *floods.SceneRound) figure {
	c := &one.Parts[0].Clients
	served := fmt.Sprintf("%.1f %% (p95 %s)", 100*c.Share, c.Most())
	several := func(what, target string) figure {
		var got []string
		for _, p := range one.Parts {
			c := &p.Clients
			text := fmt.Sprintf("%s: %.1f %% (p95 %s", p.Beside, 100*c.Share, c.Most())
			if p.TurnsMS > 0 {
				text += fmt.Sprintf(", equal turns %.2f s", p.TurnsMS/1000)
			}
			got = append(got, text+")")
		}
		return figure{fmt.Sprintf(what, one.Title), target, strings.Join(got, "; "), one.Met}
	}
	switch s {
	case floods.Turns:
		return several("beside addresses with one request at a time and a new stamp for each, from one core, %s in front: "+
			"pages of 5 requests whole", "≥ 95 %, p95 ≤ 1.5 × what equal turns give")
	case floods.Shared:
		return several("people behind one address, beside addresses with one request at a time and a new stamp for each, "+
			"%s in front: pages of 5 requests whole", "≥ 95 %")
	case floods.Uploads:
		return several("beside slow uploads of one address on all places, %s in front: clients that neither pay nor keep "+
			"tickets served", "≥ 95 %")
	case floods.AfterFlood:
		return figure{fmt.Sprintf("from 10 s after a flood of 8 × the capacity, %s in front: clients at 44 %% load "+
			"that neither pay nor keep tickets served", one.Title), "≥ 95 %", served, one.Met}
	case floods.Keys:
		return figure{fmt.Sprintf("200/s of invented keys from one address, %s in front: a client at 1/s with a key "+
			"of its own served", one.Title), "≥ 95 %", served, one.Met}
	default:
		payer, spread := &one.Parts[1], &one.Parts[2]
		return figure{fmt.Sprintf("beside one paying core, %s in front: the median of a page of 5 requests, against "+
			"without it (the core on 50 addresses)", one.Title),
			"≤ 2 ×", fmt.Sprintf("%s (%s against %s; %s)", payer.Ratio(), payer.Median(), one.Parts[0].Median(),
				spread.Ratio()), one.Met}
	}
}
