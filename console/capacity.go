package console

import (
	"net/http"
	"time"

	"weir/console/access"
)

// A CapacityQuery says what of the past is wanted. The zero value asks for the last five minutes.
type CapacityQuery struct {
	Window string `json:"window,omitempty"` // 5m, in steps of a second, or 1h, in steps of ten seconds
	Top    int    `json:"top,omitempty"`    // how many payers of each gate, at most MaxTop; 0: 10
}

// A CapacityReport says how full the gates with a limited capacity are, and what a place costs.
type CapacityReport struct {
	At        time.Time      `json:"at"`
	Gates     []CapacityGate `json:"gates"`
	ShadowAll *ShadowAll     `json:"shadow_all,omitempty"` // the emergency switch is on
}

// A CapacityGate is a gate whose upstream has a limited capacity, or a route with one of its own.
type CapacityGate struct {
	Gate     string   `json:"gate"`    // as configured
	Address  string   `json:"address"` // as bound
	Upstream string   `json:"upstream,omitempty"`
	Capacity Capacity `json:"capacity"`
	Stamps   *StampAt `json:"stamps,omitempty"` // left out where nobody asks for stamps
	Past     Series   `json:"past"`             // with the measures of gates with a capacity
}

// A StampAt is the throttle that asks for stamps at a gate, and who pays. Its counters and payers are of all gates that
// it judges at.
type StampAt struct {
	Throttle string `json:"throttle"`
	Shadow   bool   `json:"shadow"`
	Asks     uint64 `json:"asks"` // what a stamp costs here now, in operations; 0 while none is asked for
	// AsksSeconds is how long a phone works on that.
	AsksSeconds float64 `json:"asks_seconds"`
	Stamp
	Payers []Payer `json:"payers"` // who paid most often lately, the most first
}

// lanesMeasures are the columns of a CapacityGate.
var lanesMeasures = []Measure{Load, Waiting, InLine, Stamped, Pooled, Crowded, Work, WorkSeconds}

var CapacityCall = define(Call{Method: http.MethodGet, Path: "/capacity", Role: access.View,
	Commands: []string{"capacity"},
	Summary:  "Shows how full gates with a limited capacity are, what a stamp costs, now and lately, and who pays."},
	func(q *Request, in *CapacityQuery) (CapacityReport, error) {
		look := OverviewQuery{Window: in.Window, Top: in.Top, Last: 1}
		if err := look.Validate(); err != nil {
			return CapacityReport{}, err
		}
		return capacityOf(q.backend.Status(), q.backend.Overview(look)), nil
	})

// capacityOf takes from two looks at weir what is about capacities.
func capacityOf(s Status, o Overview) CapacityReport {
	r := CapacityReport{At: o.At, Gates: []CapacityGate{}, ShadowAll: s.ShadowAll}
	stamps := map[string]*Stamp{}
	shadow := map[string]bool{}
	for _, t := range s.Throttles {
		stamps[t.Throttle], shadow[t.Throttle] = t.Stamp, t.Shadow
	}
	payers := map[string][]Payer{}
	for i := range o.Throttles {
		payers[o.Throttles[i].Name] = o.Throttles[i].Payers
	}
	past := map[string]*RouteWatch{}
	for _, w := range o.Gates {
		past[w.Address] = &RouteWatch{Series: w.Series, Address: w.Address, Stamps: w.Stamps}
	}
	for i := range o.Routes {
		past[o.Routes[i].Address] = &o.Routes[i]
	}
	for _, g := range WithRoutes(s.Gates) {
		if g.Capacity == nil {
			continue
		}
		c := CapacityGate{Gate: g.Gate, Address: g.Address, Upstream: g.Upstream, Capacity: *g.Capacity,
			Past: Series{Name: g.Gate, Kind: g.Kind, At: []int64{}, Columns: map[Measure]Values{}}}
		if w := past[g.Address]; w != nil { // else a reload came between the two looks
			c.Past = w.Series
			c.Past.Columns = map[Measure]Values{}
			for _, m := range lanesMeasures {
				c.Past.Columns[m] = w.Columns[m]
			}
			if st := stamps[w.Stamps]; st != nil {
				c.Stamps = &StampAt{Throttle: w.Stamps, Shadow: shadow[w.Stamps], Asks: st.Work[g.Gate],
					AsksSeconds: known(w.Last(WorkSeconds)), Stamp: *st, Payers: payers[w.Stamps]}
				if c.Stamps.Payers == nil {
					c.Stamps.Payers = []Payer{}
				}
			}
		}
		r.Gates = append(r.Gates, c)
	}
	return r
}
