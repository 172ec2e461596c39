//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	floods "weir/lab/flood" // flood is what B4 does
)

// underFlood is S9: what people get while a service of fixed capacity is flooded with ten times as much as it can do,
// with nothing in front of it, with nginx, with HAProxy and with weir. The peers are for comparison; one that is not
// installed is left out. With -write, the page with the plots is left in lab/bench/underflood.html. See docs/flood.md.
func underFlood(o options) ([]figure, error) {
	run := floods.Options{Scenes: []floods.Scene{floods.UnderFlood}}
	if o.quick {
		run.For, run.WarmUp, run.Patient = 2*time.Second, 2*time.Second, 8*time.Second
	}
	r, err := runFlood("S9", run)
	if err != nil {
		return nil, err
	}
	var figures []figure
	for i := range r.Floods {
		f := &r.Floods[i]
		for j := range f.Rounds {
			one := &f.Rounds[j]
			what := fmt.Sprintf("10 × unstamped flood from %d sources, %s in front: people served / without "+
				"JavaScript / flood", f.Sources, one.Title)
			got := fmt.Sprintf("%.1f %% (p95 %s) / %.1f %% (p95 %s) / %.0f/s", 100*one.People.Share, one.People.Most(),
				100*one.Without.Share, one.Without.Most(), float64(one.Flood.Served)/r.Settings.Seconds)
			if one.Front == "weir" {
				figures = append(figures, figure{what, "≥ 95 % / ≥ 10 % of capacity, or all", got, one.Target.Met()})
				continue
			}
			figures = append(figures, figure{"for comparison, " + what, "–", got, true})
		}
	}
	if !o.write {
		return figures, nil
	}
	page, err := os.Create("lab/bench/underflood.html")
	if err != nil {
		return nil, err
	}
	defer page.Close()
	return figures, r.Page(page)
}

// runFlood runs scenes with a weir that was built for it, and names the peers that are left out.
func runFlood(row string, run floods.Options) (r floods.Report, err error) {
	// what was started is stopped first
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	folder, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(folder)
	if run.Solver, err = buildWeir(folder); err != nil {
		return r, err
	}
	r, err = floods.Run(ctx, run)
	for _, l := range r.LeftOut {
		fmt.Fprintf(os.Stderr, "%s: %s is left out: %s\n", row, l.Front, l.Why)
	}
	return r, err
}
