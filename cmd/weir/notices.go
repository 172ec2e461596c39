package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"weir/console"
)

type notifyCommand struct {
	List notifyListCommand `cmd:"" help:"Show who gets notices of attacks, stopped users and the like, and whether they could be delivered." example:"weir notify list"`
	Test notifyTestCommand `cmd:"" help:"Send a test notice to every target, and show what each answered." example:"weir notify test"`
}

type notifyListCommand struct {
	target
	JSON bool `name:"json" help:"Print the targets as JSON."`
}

func (c *notifyListCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.NotifyListCall.With(console.None{}), func(all *console.NotifyTargets) {
		if len(all.Targets) == 0 {
			fmt.Fprintln(t.out, "there are no targets for notices (notify: in the configuration lists them)")
			return
		}
		rows := table{heads: []string{"target", "sent", "waiting", "failed", "dropped", "last error"}}
		for _, s := range all.Targets {
			rows.row(text(s.Target), number(s.Sent), number(s.Waiting), number(s.Failed), number(s.Dropped),
				text(s.Error))
		}
		t.write(&rows)
	})
}

type notifyTestCommand struct {
	target
	JSON bool `name:"json" help:"Print the results as JSON."`
}

var errNotAccepted = errors.New("not everybody accepted the test")

func (c *notifyTestCommand) Run(t *terminal) error {
	bad := false
	try := func(client *console.Client, ctx context.Context) (console.NotifyResults, error) {
		all, err := console.NotifyTestCall.Ask(ctx, client, console.None{})
		for _, r := range all.Results {
			bad = bad || r.Error != ""
		}
		return all, err
	}
	err := ask(t, c.target, c.JSON, try, func(all *console.NotifyResults) {
		rows := table{heads: []string{"target", "result"}}
		for _, r := range all.Results {
			rows.row(text(r.Target), text(cmp.Or(r.Error, "accepted")))
		}
		t.write(&rows)
	})
	if err == nil && bad {
		return errNotAccepted
	}
	return err
}
