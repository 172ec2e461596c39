package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/term"

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
	filterFlags
	All    bool `help:"All messages that match what is given. Only recipients that match are acted on."`
	DryRun bool `help:"With --all: show how many messages match, and change nothing."`
}

// check checks the flags of an act that needs a filter, or not.
func (c *allFlags) check(needs bool) error {
	given := c.filterFlags != filterFlags{}
	switch {
	case c.All == (len(c.IDs) > 0) || given && !c.All:
		return errors.New("name messages by their ids, or write --all with --user NAME, --sender TEXT or another filter")
	case c.All && needs && !given:
		return errors.New("which messages? (write --all with --user NAME, --sender TEXT, --state held or another filter)")
	case c.DryRun && !c.All:
		return errors.New("--dry-run goes with --all")
	}
	return cmp.Or(c.filterFlags.Validate(), c.mailFlags.Validate())
}

func (c *allFlags) Validate() error { return c.check(true) }

func (c *allFlags) order() console.MailOrder { return console.MailOrder{Mails: c.ids()} }

// act acts on messages by their ids, or on all that match.
func (c *allFlags) act(t *terminal, act, done string,
	do func(*console.Client, context.Context, console.MailOrder) (console.MailResult, error),
) error {
	if !c.All {
		return c.run(t, done, do, c.order())
	}
	o := console.BulkOrder{Act: act, MailFilter: c.filter()}
	if o.Dry = c.DryRun; o.Dry {
		done = "would be " + done
	}
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (console.BulkResult, error) {
		progress := func(so console.BulkResult) { fmt.Fprintf(t.err, "%s so far: %s\n", done, count(so.Mails, "message")) }
		if !term.IsTerminal(int(os.Stderr.Fd())) {
			progress = nil
		}
		return client.Bulk(ctx, o, progress)
	}, func(r *console.BulkResult) {
		fmt.Fprintf(t.out, "%s: %s to %s\n", done, count(r.Mails, "message"), count(r.Recipients, "recipient"))
	})
}

type queueReleaseCommand struct{ allFlags }

func (c *queueReleaseCommand) Run(t *terminal) error {
	return c.act(t, "release", "released", (*console.Client).Release)
}

type queueDeleteCommand struct {
	allFlags
	Yes bool `short:"y" help:"Do not ask for confirmation."`
}

func (c *queueDeleteCommand) Run(t *terminal) error {
	if !c.Yes && !c.DryRun {
		what := count(len(c.ids()), "message")
		if c.All {
			what = "all held and delayed mail that matches" // --dry-run says how much that is
		}
		if err := t.confirm("delete " + what + "? It cannot be brought back."); err != nil {
			return err
		}
	}
	return c.act(t, "delete", "deleted", (*console.Client).Delete)
}

type queueRetryCommand struct{ allFlags }

func (c *queueRetryCommand) Validate() error {
	if len(c.IDs) == 0 && !c.All {
		return errors.New("which mail? weir queue list shows them; --all tries everything that waits for another try")
	}
	return c.check(false)
}

func (c *queueRetryCommand) Run(t *terminal) error {
	return c.act(t, "retry", "to be tried now", (*console.Client).Retry)
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
