package demo

import (
	"time"

	"weir/console"
)

// A view is a scene at one moment, for the live table.
type view struct {
	scene, story   string
	on             bool          // the throttle is at work
	elapsed, total time.Duration // of the scene; a total of 0 is an open end
	left           time.Duration // of the half without the throttle
	rule           string        // the limit
	rows           []row
	bloom          *console.Bloom // when it was worst in this half, where there is one
}

// A row of the live table.
type row struct {
	name string
	role Role
	rates
	networks int64     // that it came from in this half; 0 where that does not matter
	p50, p99 float64   // milliseconds, of the half so far
	history  []float64 // served in each of the last seconds, oldest first
}

// view looks at the scene.
func (p *play) view(now time.Time) view {
	v := view{scene: p.scene.Name, story: p.scene.Story, on: p.on, elapsed: now.Sub(p.began), total: p.parts.total(),
		rule: p.scene.Rule, bloom: p.seen.bloom}
	if !p.on {
		v.left = max(p.parts.without-now.Sub(p.halved), 0)
	}
	for _, a := range p.cast {
		f, _ := a.tally.figures()
		v.rows = append(v.rows, row{name: a.Name, role: a.Role, rates: a.tally.rates(p.halved, now), networks: a.networks(p.stage).Half,
			p50: f.P50, p99: f.P99, history: a.tally.history(p.began, now)})
	}
	return v
}

// history returns how many were served in each of the last whole seconds since began, oldest first.
func (t *tally) history(began, now time.Time) []float64 {
	var h []float64
	for s := max(began.Unix(), now.Unix()-sparkMost); s < now.Unix(); s++ {
		h = append(h, float64(t.at(s).served))
	}
	return h
}
