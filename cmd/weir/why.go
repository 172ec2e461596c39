package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"weir"
	"weir/console"
	"weir/internal/tabular"
)

// whyCommand is weir why.
type whyCommand struct {
	target
	Gate    string `placeholder:"ADDRESS" help:"The gate that is asked, by its listen address. Needed when there are several."`
	Account string `placeholder:"NAME" help:"The account that is charged."`
	Plan    string `placeholder:"NAME" help:"The plan of the account, as a gate would tell it."`
	Source  string `placeholder:"IP" help:"The address that the request comes from."`
	Client  string `placeholder:"ID" help:"The id that weir gave to the client."`
	JSON    bool   `name:"json" help:"Print the explanation as JSON."`

	Method string `arg:"" help:"The method, as in GET."`
	URL    string `arg:"" name:"url" help:"The URL, or its path alone."`
}

// Validate is called by the parser.
func (c *whyCommand) Validate() error {
	_, err := c.question()
	return err
}

func (c *whyCommand) question() (console.Question, error) {
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
		Source: c.Source, Client: c.Client, Account: c.Account, Plan: c.Plan,
	}, nil
}

// Run asks and shows what every throttle would say.
func (c *whyCommand) Run(t *terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	q, err := c.question()
	if err != nil {
		return err
	}
	e, err := client.Why(context.Background(), q)
	if err != nil {
		return err
	}
	if c.JSON {
		return t.json(e)
	}
	fmt.Fprintf(t.out, "%s\n\n", t.paint(verdictTint(e.Verdict), e.Text))
	steps := table{heads: []string{"throttle", "mode", "verdict", "why"}}
	rules := ruleTable()
	for _, s := range e.Steps {
		steps.row(text(s.Throttle), mode(s.Shadow), cell{text: s.Verdict.String(), tint: verdictTint(s.Verdict)}, text(s.Text))
		rules.add(s.Throttle, s.Rules)
	}
	t.write(&steps)
	if len(rules.rows) > 0 {
		fmt.Fprintln(t.out)
		t.write(&rules.table)
	}
	return nil
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
