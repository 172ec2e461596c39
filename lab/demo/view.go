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
	dials          []dial         // load and work, where stamps are asked for; what waits, where there is mail
	holds          bool           // something may be held
}

// A dial shows something that rises and falls.
type dial struct {
	name, value, unit string
	history           []float64 // in each of the last seconds, oldest first
}

type row struct {
	name string
	role Role
	rates
	held     int64     // in this half, and still
	networks int64     // that it came from in this half; 0 where that does not matter
	p50, p99 float64   // milliseconds, of the half so far
	history  []float64 // served in each of the last seconds, oldest first
}

func (p *play) view(now time.Time) view {
	v := view{scene: p.scene.Name, story: p.scene.Story, on: p.on, elapsed: now.Sub(p.began), total: p.parts.total(),
		rule: p.scene.Rule, bloom: p.seen.bloom,
		dials: append(p.strain.dials(p.on, p.began, now), p.mail.dials(p.began, now)...), holds: p.scene.holds()}
	if !p.on {
		v.left = max(p.parts.without-now.Sub(p.halved), 0)
	}
	for _, a := range p.cast {
		f := a.tally.figures()
		v.rows = append(v.rows, row{name: a.Name, role: a.Role, rates: a.tally.rates(p.halved, now),
			held: max(f.Held, 0), networks: a.networks(p.stage).Half,
			p50: f.P50, p99: f.P99, history: a.tally.history(p.began, now)})
	}
	return v
}

// dials shows how it is, with the throttle at work or in shadow.
func (s *strain) dials(on bool, began, now time.Time) []dial {
	if !s.known {
		return nil
	}
	load := dial{"LOAD", percent(s.load.now), "of what the service can do", s.load.history(began, now)}
	work := dial{"WORK", milliseconds(s.work.now), "of a phone, asked for a stamp", s.work.history(began, now)}
	switch {
	case s.work.now == 0:
		work.value, work.unit = "dormant", ""
	case !on:
		work.unit = "of a phone, would be asked"
	}
	return []dial{load, work}
}

// history returns how many were served in each of the last whole seconds since began, oldest first.
func (t *tally) history(began, now time.Time) []float64 {
	var h []float64
	for s := max(began.Unix(), now.Unix()-sparkMost); s < now.Unix(); s++ {
		h = append(h, float64(t.at(s).served))
	}
	return h
}
