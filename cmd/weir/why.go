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
