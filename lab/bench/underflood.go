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
// installed is left out. See docs/flood.md.
func underFlood(t *trial) (figures []figure) {
	run := floods.Options{Scenes: []floods.Scene{floods.UnderFlood}}
	if t.quick {
		run.For, run.WarmUp, run.Patient = time.Second, time.Second, 4*time.Second
	}
	r := t.runFlood("S9", run)
	for _, f := range r.Floods {
		for _, one := range f.Rounds {
			got := value{text: fmt.Sprintf("%.1f %% (p95 %s) / %.1f %% (p95 %s) / %.0f/s", 100*one.People.Share,
				one.People.Most(), 100*one.Without.Share, one.Without.Most(),
				float64(one.Flood.Served)/r.Settings.Seconds)}
			if one.Front == "weir" {
				got.target, got.met = "≥ 95 % / ≥ 10 % of capacity, or all", one.Target.Met()
			}
			figures = append(figures, figure{fmt.Sprintf("10 × unstamped flood from %d sources, %s in front: people served / "+
				"without JavaScript / flood", f.Sources, one.Title), []value{got}, ""})
		}
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
			what, target := sceneMeasure(p.Scene)
			got := value{text: sceneGot(p.Scene, &one)}
			if one.Front == "weir" {
				got.target, got.met = target, one.Met
			}
			figures = append(figures, figure{fmt.Sprintf(what, one.Title), []value{got}, ""})
		}
	}
	return figures
}

// sceneMeasure is what is measured in a scene, with a verb for what stands in front, and its target.
func sceneMeasure(s floods.Scene) (what, target string) {
	switch s {
	case floods.Turns:
		return "beside addresses with one request at a time and a new stamp for each, from one core, %s in front: " +
			"pages of 5 requests whole", "≥ 95 %, p95 ≤ 1.5 × what equal turns give"
	case floods.Shared:
		return "people behind one address, beside addresses with one request at a time and a new stamp for each, " +
			"%s in front: pages of 5 requests whole", "≥ 95 %"
	case floods.Uploads:
		return "beside slow uploads of one address on all places, %s in front: clients that neither pay nor keep " +
			"tickets served", "≥ 95 %"
	case floods.AfterFlood:
		return "from 10 s after a flood of 8 × the capacity, %s in front: clients at 44 %% load " +
			"that neither pay nor keep tickets served", "≥ 95 %"
	case floods.Keys:
		return "200/s of invented keys from one address, %s in front: a client at 1/s with a key of its own served", "≥ 95 %"
	default:
		return "beside one paying core, %s in front: the median of a page of 5 requests, against without it (the core on " +
			"50 addresses)", "≤ 2 ×"
	}
}

// sceneGot is what clients got in a scene.
func sceneGot(s floods.Scene, one *floods.SceneRound) string {
	if s == floods.Payer {
		payer, spread := &one.Parts[1], &one.Parts[2]
		return fmt.Sprintf("%s (%s against %s; %s)", payer.Ratio(), payer.Median(), one.Parts[0].Median(), spread.Ratio())
	}
	var all []string
	for _, p := range one.Parts {
		text := fmt.Sprintf("%.1f %% (p95 %s", 100*p.Clients.Share, p.Clients.Most())
		if p.Beside != "" {
			text = p.Beside + ": " + text
		}
		if p.TurnsMS > 0 {
			text += fmt.Sprintf(", equal turns %.2f s", p.TurnsMS/1000)
		}
		all = append(all, text+")")
	}
	return strings.Join(all, "; ")
}
