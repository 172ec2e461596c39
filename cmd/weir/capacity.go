package main

import (
	"fmt"

	"weir/console"
)

type capacityCommand struct {
	target
	Window string `default:"5m" enum:"5m,1h" placeholder:"TIME" help:"With --json: how much of the past, 5m or 1h (${default})."`
	Payers int    `placeholder:"N" default:"10" help:"Show at most this many payers of each gate. Default: 10."`
	JSON   bool   `name:"json" help:"Print all of it as JSON, with load, waiting, price and lanes over time."`
}

func (c *capacityCommand) Validate() error {
	if c.Payers < 1 || c.Payers > console.MaxTop {
		return fmt.Errorf("--payers: from 1 to %d", console.MaxTop)
	}
	return nil
}

func (c *capacityCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON,
		console.CapacityCall.With(console.CapacityQuery{Window: c.Window, Top: c.Payers}), t.capacity)
}

// capacity shows how full gates are, what a stamp costs, and who pays.
func (t *terminal) capacity(r *console.CapacityReport) {
	t.emergency(r.ShadowAll)
	if len(r.Gates) == 0 {
		fmt.Fprintln(t.out, "no gate has a limited capacity (capacity: below a gate in http: gives it one)")
		return
	}
	var status []console.GateStatus
	prices := table{heads: []string{"gate", "stamps", "mode", "price", "on a phone", "asked", "paid", "from the pool",
		"free", "not paying"}}
	holders := table{heads: []string{"places of", "who", "lane", "places", "waiting"}}
	payers := table{heads: []string{"payers of", "who", "requests lately", "in all", "since", "last"}}
	listed := map[string]bool{}
	for i := range r.Gates {
		g := &r.Gates[i]
		status = append(status, console.GateStatus{Gate: g.Gate, Capacity: &g.Capacity})
		for _, h := range g.Capacity.Holders {
			holders.row(text(g.Gate), text(h.Client), text(h.Lane), number(h.Places), number(h.Waiting))
		}
		s := g.Stamps
		if s == nil {
			continue
		}
		price := text("nothing")
		if s.Asks > 0 {
			price = cell{text: fmt.Sprint(s.Asks, " operations"), right: true}
		}
		prices.row(text(g.Gate), text(s.Throttle), mode(s.Shadow), price, lasting(s.AsksSeconds), number(s.Challenged),
			number(s.Paid), number(s.Called+s.Held), number(s.Free), number(s.NotPaying))
		if listed[s.Throttle] { // at several gates: its payers are of all of them
			continue
		}
		listed[s.Throttle] = true
		for _, p := range s.Payers {
			payers.row(text(s.Throttle), text(p.Name), number(p.Sure()), number(p.Total), text(moment(p.First)),
				text(moment(p.Last)))
		}
	}
	t.capacities(status)
	if len(holders.rows) > 0 {
		t.write(&holders)
		fmt.Fprintln(t.out)
	}
	if len(prices.rows) == 0 {
		fmt.Fprintln(t.out, "no throttle asks for stamps")
		return
	}
	t.write(&prices)
	fmt.Fprintln(t.out)
	if len(payers.rows) == 0 {
		fmt.Fprintln(t.out, "nobody pays now")
		return
	}
	t.write(&payers)
}
