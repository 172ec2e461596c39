//go:build linux

package main

import (
	"fmt"
	"time"

	floods "weir/lab/flood"
)

// afterFlood is S10: what clients get that a throttle may shut out by mistake. Programs that neither pay nor keep
// tickets, when a flood is over; a client of an API beside invented keys; people beside an attacker who pays. The peers
// are for comparison. See docs/flood.md.
func afterFlood(t *trial) (figures []figure) {
	run := floods.Options{Scenes: []floods.Scene{floods.AfterFlood, floods.Keys, floods.Payer}}
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
	switch s {
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
