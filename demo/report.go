package demo

import (
	"time"

	"weir/console"
)

// A Report is what was seen.
type Report struct {
	Scenes []SceneReport `json:"scenes"`
}

// A SceneReport is what was seen in one scene. The figures beside the name are those of the half with the throttle at work.
type SceneReport struct {
	Name string `json:"name"`
	Half
	LimitPerSecond float64 `json:"limit_per_second"`         // of one account or network
	FloodLimit     int64   `json:"flood_limit"`              // the most that the limits let the flood have
	FloodNetworks  int64   `json:"flood_networks,omitempty"` // that the flood came from, in both halves
	Without        Half    `json:"without"`                  // the half in shadow
	Skipped        string  `json:"skipped,omitempty"`        // why the scene was not played
}

// skipped is the report of a scene that could not be played.
func skipped(scene *Scene, why error) SceneReport {
	none := Half{Actors: []ActorReport{}}
	return SceneReport{Name: scene.Name, Half: none, Without: none, Skipped: why.Error()}
}

// A Half is what was seen in one half of a scene.
type Half struct {
	People  Figures       `json:"people"`
	Flood   Figures       `json:"flood"`
	Seconds float64       `json:"seconds"` // until the last answer
	Delayed int64         `json:"delayed"` // how many weir let wait for their turn
	Actors  []ActorReport `json:"actors"`
	// Bloom is the Bloom limiter when it was worst, where there is one.
	Bloom *console.Bloom `json:"bloom,omitempty"`
}

// An ActorReport is what one actor saw.
type ActorReport struct {
	Name     string `json:"name"`
	Role     Role   `json:"role"`
	Networks int64  `json:"networks,omitempty"` // that it came from
	Figures
}

// Figures are what became of requests. Sent is the sum of the others. The latencies are of those that were served.
type Figures struct {
	Sent    int64   `json:"sent"`
	Served  int64   `json:"served"`
	Refused int64   `json:"refused"`
	Failed  int64   `json:"failed"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
}

func figuresOf(c counts, latency *histogram) Figures {
	return Figures{
		Sent: c.sent, Served: c.served, Refused: c.refused, Failed: c.failed,
		P50: inMilliseconds(latency.quantile(0.5)), P99: inMilliseconds(latency.quantile(0.99)),
	}
}

// inMilliseconds keeps two decimals: the histogram knows no more.
func inMilliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// halfOf sums a half up: each actor, and all of each role.
func halfOf(cast []*player, stage *Stage, took time.Duration) Half {
	h := Half{Seconds: float64(took.Milliseconds()) / 1000}
	for role, into := range map[Role]*Figures{People: &h.People, Flood: &h.Flood} {
		var sum counts
		var latency histogram
		for _, p := range cast {
			if p.Role != role {
				continue
			}
			f, l := p.tally.figures()
			sum.sent += f.Sent
			sum.served += f.Served
			sum.refused += f.Refused
			sum.failed += f.Failed
			latency.merge(&l)
		}
		*into = figuresOf(sum, &latency)
	}
	for _, p := range cast {
		f, _ := p.tally.figures()
		h.Actors = append(h.Actors, ActorReport{p.Name, p.Role, p.networks(stage).Half, f})
	}
	return h
}
