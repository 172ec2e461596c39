package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weir/console"
	"weir/lab/machine"
)

// A Report is the result of a demo.
type Report struct {
	Scenes []SceneReport `json:"scenes"`
}

// A SceneReport is the result of one scene. The figures beside the name are those of the half with the throttle at
// work.
type SceneReport struct {
	Name string `json:"name"`
	Half
	LimitPerSecond float64 `json:"limit_per_second,omitempty"` // of one account or network, where there is such a limit
	FloodLimit     int64   `json:"flood_limit,omitempty"`      // the most that the limits let the flood have
	FloodNetworks  int64   `json:"flood_networks,omitempty"`   // that the flood came from, in both halves
	Without        Half    `json:"without"`                    // the half in shadow
	Skipped        string  `json:"skipped,omitempty"`          // why the scene was not played
	Checks         []Check `json:"checks,omitempty"`           // what must be so, and whether it was
}

// A Check is something that must be so.
type Check struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
}

// ErrNotSo is what Run returns when something that must be so was not.
var ErrNotSo = errors.New("not so")

// write writes the report where it is wanted as JSON, and returns the failed checks.
func (r *Report) write(o Options) error {
	if !o.JSON {
		return r.notSo()
	}
	e := json.NewEncoder(o.Out)
	e.SetIndent("", "  ")
	return errors.Join(e.Encode(r), r.notSo())
}

// notSo returns the failed checks, or nil.
func (r *Report) notSo() error {
	var all []error
	for _, s := range r.Scenes {
		for _, c := range s.Checks {
			if !c.OK {
				all = append(all, fmt.Errorf("scene %s: %w: %s", s.Name, ErrNotSo, c.What))
			}
		}
	}
	return errors.Join(all...)
}

func skipped(scene *Scene, why error) SceneReport {
	none := Half{Actors: []ActorReport{}}
	return SceneReport{Name: scene.Name, Half: none, Without: none, Skipped: why.Error()}
}

// A Half is the result of one half of a scene.
type Half struct {
	People  Figures       `json:"people"`
	Flood   Figures       `json:"flood"`
	Seconds float64       `json:"seconds"` // until the last answer
	Delayed int64         `json:"delayed"` // how many a throttle let wait for their turn
	Actors  []ActorReport `json:"actors"`
	// Bloom is the Bloom limiter when it was worst, where there is one.
	Bloom *console.Bloom `json:"bloom,omitempty"`
	// Stamps is how weir followed the load, where stamps are asked for.
	Stamps *Stamps `json:"stamps,omitempty"`
	// Mail is what became of a stolen account, where there is mail.
	Mail *Mail `json:"mail,omitempty"`
	// Farm is what became of copied stamps and of forgers, where there are several weirs.
	Farm *Farm `json:"farm,omitempty"`
}

// Stamps are how load and work went, by weir's status some times a second.
type Stamps struct {
	PeakLoad  float64 `json:"peak_load"`      // what was asked of the service, in proportion to what it can do
	PeakDelay float64 `json:"peak_delay_ms"`  // how long those waited who paid
	LeastWork uint64  `json:"least_work"`     // that was asked for, in operations; 0: nothing was
	PeakWork  uint64  `json:"peak_work"`      // the most that was
	EndWork   uint64  `json:"end_work"`       // and at the end; 0: nothing any more
	LeastMS   float64 `json:"least_work_ms"`  // how long a phone works on that
	PeakMS    float64 `json:"peak_work_ms"`   // and on that
	EndMS     float64 `json:"end_work_ms"`    // and on that
	Asked     int64   `json:"asked"`          // requests that were asked to pay
	Paid      int64   `json:"let_in_stamped"` // requests let in because they paid
	// and from the general pool, of those who waited and while nothing was asked
	Pool int64   `json:"let_in_pool"`
	Calm float64 `json:"calm_s"` // how long the flood had been gone at the end
	// how long after the flood nothing was asked any more; null: not by the end
	Dormant *float64 `json:"dormant_after_s"`
}

// An ActorReport is the result of one actor.
type ActorReport struct {
	Name     string `json:"name"`
	Role     Role   `json:"role"`
	Networks int64  `json:"networks,omitempty"` // that it came from
	Figures
	Work float64 `json:"work_s,omitempty"` // how long a phone would have worked on what it paid
}

// Figures are what became of requests. Sent is the sum of the others. The latencies are of those that were served.
type Figures struct {
	Sent    int64   `json:"sent"`
	Served  int64   `json:"served"`
	Refused int64   `json:"refused"`
	Failed  int64   `json:"failed"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Held    int64   `json:"held,omitempty"` // taken over, and not handed on by the end, or deleted
}

func figuresOf(c counts, latency *machine.Times) Figures {
	return Figures{
		Sent: c.sent, Served: c.served, Refused: c.refused, Failed: c.failed,
		P50: inMilliseconds(latency.Quantile(0.5)), P99: inMilliseconds(latency.Quantile(0.99)), Held: c.held,
	}
}

// inMilliseconds keeps two decimals: its quantiles have no more.
func inMilliseconds(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

// halfOf sums up a half: each actor, and all of each role.
func halfOf(cast []*player, stage *Stage, took time.Duration) Half {
	h := Half{Seconds: float64(took.Milliseconds()) / 1000}
	h.People, h.Flood = figuresOfRole(cast, People), figuresOfRole(cast, Flood)
	for _, p := range cast {
		f := p.tally.figures()
		one := ActorReport{Name: p.Name, Role: p.Role, Networks: p.networks(stage).Half, Figures: f}
		if p.Actor.Work != nil {
			one.Work = tenths(p.Actor.Work(stage))
		}
		h.Actors = append(h.Actors, one)
	}
	return h
}

// figuresOfRole sums up all who have a role.
func figuresOfRole(cast []*player, role Role) Figures {
	var sum counts
	var latency machine.Times
	for _, p := range cast {
		if p.Role == role {
			c, l := p.tally.sums()
			sum.plus(c)
			latency.Merge(&l)
		}
	}
	return figuresOf(sum, &latency)
}
