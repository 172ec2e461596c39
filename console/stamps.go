package console

import (
	"cmp"

	"weir/admission"
)

// A Stamp is the state of a throttle that asks for stamps.
type Stamp struct {
	Algorithm  string            `json:"algorithm"`
	Work       map[string]uint64 `json:"work"` // asked for now, in operations, by gate; 0 while nothing is asked
	Issued     uint64            `json:"issued"`
	Accepted   uint64            `json:"accepted"`
	Paid       uint64            `json:"paid"`       // requests that went first
	Free       uint64            `json:"free"`       // requests of which nothing is asked
	Called     uint64            `json:"called"`     // requests of people who were called from the waiting room
	Held       uint64            `json:"held"`       // unpaid requests that the general pool took without a ticket
	Challenged uint64            `json:"challenged"` // requests that were asked to pay
	Forged     uint64            `json:"forged"`
	Replayed   uint64            `json:"replayed"`
	NotPaying  uint64            `json:"not_paying"`
	Spent      int               `json:"spent"` // stamps that are remembered
	Full       uint64            `json:"full"`  // stamps not taken, as no more can be remembered (max_spent)
	Gone       uint64            `json:"gone"`  // stamps of nodes of the farm that were not there to be asked
	Busy       uint64            `json:"busy"`  // stamps not taken, as too many questions to other nodes were open
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
	Concurrent int                `json:"concurrent"`     // how much the upstream does at once, as configured or learnt
	Here       int                `json:"here,omitempty"` // in a farm: how much of that is this node's
	InUse      int                `json:"in_use"`
	Load       float64            `json:"load"`        // what is asked of it, in proportion
	Delay      float64            `json:"delay_ms"`    // the longest that a client waited for its turn that paid, lately
	Longest    map[string]float64 `json:"longest_ms"`  // that a request waits now, by lane
	Holders    []admission.Holder `json:"holders"`     // who has most places
	Stamped    int                `json:"stamped"`     // waiting, paid
	Pool       int                `json:"pool"`        // waiting in the general pool, as held requests
	InLine     int                `json:"in_line"`     // waiting in the general pool, with tickets
	LetIn      map[string]uint64  `json:"let_in"`      // by lane
	Refused    map[string]uint64  `json:"refused"`     // by reason
	TurnedAway uint64             `json:"turned_away"` // asked to pay, or refused, for the load
	Shadow     bool               `json:"shadow"`
}
