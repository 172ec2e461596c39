package main

import (
	"context"
	"errors"
	"fmt"
	"time"
	"weir/console"
)

type upgradeCommand struct {
	target
	Wait time.Duration `default:"2m" placeholder:"TIME" help:"How long to wait for the new weir (${default})."`
}

// errNotUpgraded is returned when no new weir answers in time.
var errNotUpgraded = errors.New("the new weir does not serve yet, or was not started; see the log")

// Run tells a running weir to let its binary, as it is now, take its place, and waits until the new one serves.
func (c *upgradeCommand) Run(t *terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if client.Remote() {
		return errors.New("an upgrade is for the machine that weir runs on")
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Wait)
	defer cancel()
	before, err := console.StatusCall.Ask(ctx, client, console.None{})
	if err != nil {
		return err
	}
	if err := signalUpgrade(client.Path()); err != nil {
		return err
	}
	for {
		after, err := console.StatusCall.Ask(ctx, client, console.None{})
		if err == nil && after.Started.After(before.Started) && after.State == "serving" {
			_, err := fmt.Fprintf(t.out, "%s serves in the place of %s\n", after.Version, before.Version)
			return err
		}
		failed := after.Upgrade != nil && (before.Upgrade == nil || after.Upgrade.Failed != before.Upgrade.Failed)
		if err == nil && failed {
			return fmt.Errorf("no upgrade, the old weir goes on: %s", after.Upgrade.Error)
		}
		if ctx.Err() != nil {
			return errNotUpgraded
		}
		select {
		case <-time.After(50 * time.Millisecond): // it answers nobody while it changes places
		case <-ctx.Done():
		}
	}
}
