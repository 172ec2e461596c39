package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"weir"
	"weir/console"
	"weir/internal/tabular"
)

type whyCommand struct {
	target
	Gate    string            `placeholder:"ADDRESS" help:"The gate to ask, by its listen address. Needed when there are several."`
	Account string            `placeholder:"NAME" help:"The account that is charged."`
	Plan    string            `placeholder:"NAME" help:"The plan of the account, as the gate would find it."`
	Source  string            `placeholder:"IP" help:"The address that the request comes from."`
	Client  string            `placeholder:"ID" help:"The id that weir gave to the client."`
	Parts   map[string]string `name:"part" mapsep:"none" placeholder:"PART=VALUE" help:"What else limits count by, as in header:X-Tenant=acme. May be repeated."`
	JSON    bool              `name:"json" help:"Print the explanation as JSON."`

	User   string   `group:"At a gate for mail" placeholder:"NAME" help:"The user who sends the message."`
	To     []string `group:"At a gate for mail" sep:"none" placeholder:"ADDRESS" help:"A recipient of the message. May be repeated."`
	Sender string   `group:"At a gate for mail" placeholder:"ADDRESS" help:"The sender address; <> for none. Default: an address of the user."`

	Method string `arg:"" optional:"" help:"The method, such as GET. Not used at a gate for mail."`
	URL    string `arg:"" optional:"" name:"url" help:"The URL, or only its path."`
}

func (c *whyCommand) Validate() error {
	_, err := c.question()
	return err
}

func (c *whyCommand) question() (console.Question, error) {
	if c.User != "" || len(c.To) > 0 || c.Sender != "" {
		switch {
		case c.Method != "":
			return console.Question{},
				errors.New("a mail has no method and no URL (leave them out, or --user, --to and --sender)")
		case c.User == "" || len(c.To) == 0:
			return console.Question{}, errors.New("name the user and the recipient (write --user ann --to bob@example.com)")
		}
		return console.Question{Gate: c.Gate, Source: c.Source, Plan: c.Plan, User: c.User, Sender: c.Sender, To: c.To},
			nil
	}
	if c.URL == "" {
		return console.Question{},
			errors.New("which request? (write GET /v1; at a gate for mail --user ann --to bob@example.com)")
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return console.Question{}, fmt.Errorf("%q is not a URL", c.URL)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	if !strings.HasPrefix(u.Path, "/") || u.Opaque != "" {
		return console.Question{}, fmt.Errorf("%q is not a URL; write https://example.com/v1 or /v1", c.URL)
	}
	return console.Question{
		Gate: c.Gate, Method: strings.ToUpper(c.Method), Host: strings.ToLower(u.Hostname()), Path: u.EscapedPath(),
		Source: c.Source, Client: c.Client, Account: c.Account, Plan: c.Plan, Parts: c.Parts,
	}, nil
}

func (c *whyCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (e console.Explanation,
		err error) {
		q, err := c.question()
		if err != nil {
			return e, err
		}
		return console.WhyAskCall.Ask(ctx, client, q)
	}, t.explanation)
}

func (t *terminal) explanation(e *console.Explanation) {
	fmt.Fprintf(t.out, "%s\n\n", t.paint(verdictTint(e.Verdict), e.Text))
	if e.Route != "" {
		fmt.Fprintf(t.out, "route: %s", printable(e.Route))
		if e.Ends != "" {
			fmt.Fprintf(t.out, " (%s)", e.Ends)
		}
		fmt.Fprint(t.out, "\n\n")
	}
	steps := table{heads: []string{"throttle", "mode", "verdict", "why"}}
	rules := ruleTable()
	for _, s := range e.Steps {
		steps.row(text(s.Throttle), mode(s.Shadow), cell{text: s.Verdict.String(), tint: verdictTint(s.Verdict)},
			text(s.Text))
		rules.add(s.Throttle, s.Rules)
	}
	t.write(&steps)
	for _, s := range e.Steps {
		if s.Key != "" {
			fmt.Fprintf(t.out, "%s counts it as %s\n", s.Throttle, printable(s.Key))
		}
	}
	if len(rules.rows) > 0 {
		fmt.Fprintln(t.out)
		t.write(&rules.table)
	}
	var own []console.AccountLimit
	for _, s := range e.Steps {
		own = append(own, s.Limits...)
	}
	t.ownLimits(own)
}

func verdictTint(v weir.Verdict) tabular.Tint {
	switch v {
	case weir.Admit:
		return tabular.Good
	case weir.Refuse:
		return tabular.Bad
	}
	return tabular.Warn
}

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

// rules is a table of limits and how much is left of them.
type rules struct{ table }

func ruleTable() *rules {
	return &rules{table{heads: []string{"throttle", "rule", "left", "limit", "unit", "per", "room again"}}}
}

func (r *rules) add(throttle string, all []console.Rule) {
	for _, rule := range all {
		left, limit, unit := number(rule.Remaining), number(rule.Limit), rule.Unit
		if unit == "bytes" {
			left.text, limit.text, unit = weir.Size(rule.Remaining).String(), weir.Size(rule.Limit).String(), ""
		}
		if rule.Remaining == 0 {
			left.tint = tabular.Bad
		}
		reset := ""
		if !rule.Reset.IsZero() {
			reset = rule.Reset.Local().Format("2006-01-02 15:04:05.000")
		}
		r.row(text(throttle), text(rule.Rule), left, limit, text(unit), text(rule.Per), text(reset))
	}
}
