package console

import (
	"cmp"

	"weir/admission"
)

// A Stamp is the state of a throttle that asks for stamps.
type Stamp struct {
	Algorithm string            `json:"algorithm"`
	Work      map[string]uint64 `json:"work" metric:"weir_stamp_work" label:"gate" help:"Work that a stamp must contain now, in operations; 0 while no stamps are asked for."`
	Issued    uint64            `json:"issued" metric:"weir_stamp_challenges_total" help:"Challenges issued."`
	Accepted  uint64            `json:"accepted" metric:"weir_stamp_accepted_total" help:"Uses of stamps that were accepted."`
	// Requests that went first.
	Paid uint64 `json:"paid" metric:"weir_stamp_requests_total" label:"result=paid" help:"Requests while stamps were asked for, by result."`
	// Requests of which nothing is asked.
	Free uint64 `json:"free" metric:"weir_stamp_requests_total" label:"result=free"`
	// Requests of people who were called from the waiting room.
	Called uint64 `json:"called" metric:"weir_stamp_requests_total" label:"result=called"`
	// Unpaid requests that the general pool took without a ticket.
	Held uint64 `json:"held" metric:"weir_stamp_requests_total" label:"result=held"`
	// Requests that were asked to pay.
	Challenged uint64 `json:"challenged" metric:"weir_stamp_requests_total" label:"result=challenged"`
	Forged     uint64 `json:"forged" metric:"weir_stamp_requests_total" label:"result=forged"`
	Replayed   uint64 `json:"replayed" metric:"weir_stamp_requests_total" label:"result=replayed"`
	NotPaying  uint64 `json:"not_paying" metric:"weir_stamp_requests_total" label:"result=not-paying"`
	Spent      int    `json:"spent" metric:"weir_stamp_spent" help:"Stamps that are remembered as used."`
	// Stamps not taken, as no more can be remembered (max_spent).
	Full uint64 `json:"full" metric:"weir_stamp_requests_total" label:"result=full"`
	// Stamps of nodes of the farm that were not there to be asked.
	Gone uint64 `json:"gone" metric:"weir_stamp_requests_total" label:"result=gone"`
	// Stamps not taken, as too many questions to other nodes were open.
	Busy uint64 `json:"busy" metric:"weir_stamp_requests_total" label:"result=busy"`
}

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
