package console

import (
	"cmp"

	"weir/admission"
	"weir/throttle/stamp"
)

// A Stamp is the state of a throttle that asks for stamps.
type Stamp struct{ stamp.Stats }

// Most is the highest work that any gate asks for.
func (s *Stamp) Most() (most uint64) {
	for _, w := range s.Work {
		most = max(most, w)
	}
	return most
}

// Places is how much this node lets through at once.
func (c *Capacity) Places() int { return cmp.Or(c.Here, c.Concurrent) }

// A Capacity is the state of the lanes in front of an upstream.
type Capacity struct {
	Concurrent int     `json:"concurrent" metric:"weir_capacity_limit" help:"Requests that the upstream can work on at once, as configured or learnt."`
	Here       int     `json:"here,omitempty"` // in a farm: how much of that is this node's
	InUse      int     `json:"in_use" metric:"weir_capacity_in_use" help:"Requests that the upstream works on now."`
	Load       float64 `json:"load" metric:"weir_capacity_load_ratio" help:"Demand on the upstream, in proportion to what it can do."`
	// The longest that a client waited for its turn that paid, lately.
	Delay float64 `json:"delay_ms" metric:"weir_capacity_delay_seconds" per:"1000" help:"How long requests with a stamp wait."`
	// That a request waits now, by lane.
	Longest map[string]float64 `json:"longest_ms"`
	// Who has most places.
	Holders []admission.Holder `json:"holders"`
	// Waiting, paid.
	Stamped int `json:"stamped" metric:"weir_capacity_waiting" label:"lane=stamped" help:"Requests that wait, by lane; line counts tickets of the waiting room."`
	// Waiting in the general pool, as held requests.
	Pool int `json:"pool" metric:"weir_capacity_waiting" label:"lane=pool"`
	// Waiting in the general pool, with tickets.
	InLine     int               `json:"in_line" metric:"weir_capacity_waiting" label:"lane=line"`
	LetIn      map[string]uint64 `json:"let_in" metric:"weir_capacity_admitted_total" label:"lane" help:"Requests that were given a place at the upstream, by lane."`
	Refused    map[string]uint64 `json:"refused" metric:"weir_capacity_refused_total" label:"reason" help:"Requests that a lane did not take, by reason."`
	TurnedAway uint64            `json:"turned_away" metric:"weir_capacity_turned_away_total" help:"Requests that were challenged or refused before they reached the lanes."`
	Shadow     bool              `json:"shadow"`
}
