//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	floods "weir/flood" // flood is what B4 does
)

// underFlood is S9: what people get while a service of fixed capacity is flooded with ten times as much as it can do, with nothing in
// front of it, with nginx, with HAProxy and with weir. The peers are for comparison; one that is not installed is left out. With -write,
// the page with the plots is left in bench/s9.html. See docs/flood.md.
func underFlood(o options) ([]figure, error) {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // what was started is stopped first
	defer release()
	folder, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	run := floods.Options{Solver: filepath.Join(folder, "weir")}
	if out, err := exec.Command("go", "build", "-o", run.Solver, "weir/cmd/weir").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	if o.quick {
		run.For, run.WarmUp, run.Patient = 2*time.Second, 2*time.Second, 8*time.Second
	}
	r, err := floods.Run(ctx, run)
	if err != nil {
		return nil, err
	}
	var figures []figure
	for i := range r.Floods {
		f := &r.Floods[i]
		for j := range f.Rounds {
			one := &f.Rounds[j]
			what := fmt.Sprintf("10 × unstamped flood from %d sources, %s in front: people served / without JavaScript / flood", f.Sources, one.Title)
			got := fmt.Sprintf("%.1f %% (p95 %s) / %.1f %% (p95 %s) / %.0f/s", 100*one.People.Share, one.People.Most(), 100*one.Without.Share, one.Without.Most(),
				float64(one.Flood.Served)/r.Settings.Seconds)
			if one.Front == "weir" {
				figures = append(figures, figure{what, "≥ 95 % / ≥ 10 % of capacity, or all", got, one.Target.Met()})
				continue
			}
			figures = append(figures, figure{"for comparison, " + what, "–", got, true})
		}
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(os.Stderr, "S9: %s is left out: %s\n", l.Front, l.Why)
	}
	if !o.write {
		return figures, nil
	}
	page, err := os.Create("bench/s9.html")
	if err != nil {
		return nil, err
	}
	defer page.Close()
	return figures, r.Page(page)
}
