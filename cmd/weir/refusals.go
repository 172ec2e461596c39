package main

import (
	"fmt"

	"weir/console"
)

type refusalsCommand struct {
	target
	Throttle string `placeholder:"NAME" help:"Only those of this throttle."`
	ID       string `name:"id" placeholder:"ID" help:"Only the request with this id, as the answer and the access log show it."`
	Who      string `placeholder:"WHO" help:"Only those of this account (as the access log shows it), network, address or mail user."`
	Limit    int    `placeholder:"N" default:"50" help:"Show at most this many, the latest first; 0 for all that are kept. Default: 50."`
	JSON     bool   `name:"json" help:"Print the refusals as JSON."`
}

func (c *refusalsCommand) Validate() error { return checkLimit(c.Limit) }

func (c *refusalsCommand) Run(t *terminal) error {
	q := console.RefusalQuery{Throttle: c.Throttle, ID: c.ID, Who: c.Who, Limit: min(c.Limit, console.MaxRefusals)}
	return ask(t, c.target, c.JSON, console.RefusalsListCall.With(q), t.refusals)
}

func (t *terminal) refusals(p *console.RefusalPage) {
	if len(p.Refusals) == 0 {
		fmt.Fprintln(t.out, "nobody was refused lately")
		return
	}
	rows := table{heads: []string{"when", "gate", "who", "source", "what", "id"}}
	for _, r := range p.Refusals {
		what := r.Text
		if r.Shadow {
			what = "in shadow: " + what
		}
		rows.row(text(moment(r.At)), text(r.Gate), text(r.Name), text(r.Source), text(what), text(r.ID))
	}
	t.write(&rows)
	if p.Left > 0 {
		fmt.Fprintf(t.out, "%d more came too fast to be kept since the start (weir status counts all)\n", p.Left)
	}
}
