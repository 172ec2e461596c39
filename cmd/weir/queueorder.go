package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"weir/console"
	"weir/store"
)

type mailFlags struct {
	target
	JSON bool     `name:"json" help:"Print what was done as JSON."`
	IDs  []string `arg:"" optional:"" name:"id" help:"The ids of the messages, as weir queue list shows them."`
}

func (c *mailFlags) Validate() error {
	for _, text := range c.IDs {
		if _, err := mailID(text); err != nil {
			return err
		}
	}
	return nil
}

func (c *mailFlags) ids() (ids []store.MailID) {
	for _, text := range c.IDs {
		if id, _ := mailID(text); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

type allFlags struct {
	mailFlags
	User string `placeholder:"NAME" help:"With --all: the user whose messages are meant."`
	All  bool   `help:"All held and delayed messages of the user."`
}

func (c *allFlags) Validate() error {
	if c.All != (c.User != "") || c.All == (len(c.IDs) > 0) {
		return errors.New("name messages by their ids, or write --user NAME --all")
	}
	return c.mailFlags.Validate()
}

func (c *allFlags) order() console.MailOrder {
	return console.MailOrder{Mails: c.ids(), User: c.User, All: c.All}
}

type queueReleaseCommand struct{ allFlags }

func (c *queueReleaseCommand) Run(t *terminal) error {
	return c.run(t, "released", (*console.Client).Release, c.order())
}

type queueDeleteCommand struct {
	allFlags
	Yes bool `short:"y" help:"Do not ask for confirmation."`
}

func (c *queueDeleteCommand) Run(t *terminal) error {
	if !c.Yes {
		what := count(len(c.ids()), "message")
		if c.All {
			what = "all held and delayed mail of " + printable(c.User)
		}
		if err := t.confirm("delete " + what + "? It cannot be brought back."); err != nil {
			return err
		}
	}
	return c.run(t, "deleted", (*console.Client).Delete, c.order())
}

type queueRetryCommand struct{ mailFlags }

func (c *queueRetryCommand) Validate() error {
	if len(c.IDs) == 0 {
		return errors.New("which mail? weir queue list shows them")
	}
	return c.mailFlags.Validate()
}

func (c *queueRetryCommand) Run(t *terminal) error {
	return c.run(t, "to be tried now", (*console.Client).Retry, console.MailOrder{Mails: c.ids()})
}

// run gives an order and prints what was done. Messages that are missing are listed, and make the command fail.
func (c *mailFlags) run(t *terminal, done string,
	do func(*console.Client, context.Context, console.MailOrder) (console.MailResult, error),
	o console.MailOrder) error {
	var missing []store.MailID
	err := ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (console.MailResult, error) {
		r, err := do(client, ctx, o)
		missing = r.Missing
		return r, err
	}, func(r *console.MailResult) {
		fmt.Fprintf(t.out, "%s: %s to %s\n", done, count(r.Mails, "message"), count(r.Recipients, "recipient"))
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	for _, id := range missing {
		fmt.Fprintf(t.err, "weir: %s is not in the queue, or there is nothing of it to which this could be done\n", id)
	}
	return errTold
}
