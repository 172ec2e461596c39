//go:build linux

package main

import (
	"fmt"
	"os"
	"time"

	floods "weir/lab/flood" // flood is what B4 does
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
	run.Solver = buildWeir(t.folder())
	r, err := floods.Run(t.context(), run)
	for _, l := range r.LeftOut {
		fmt.Fprintf(os.Stderr, "%s: %s is left out: %s\n", row, l.Front, l.Why)
	}
	check(err)
	return r
}
