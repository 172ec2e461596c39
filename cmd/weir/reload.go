package main

import (
	"context"
	"fmt"
	"weir/console"
)

type reloadCommand struct {
	target
	JSON bool `name:"json" help:"Print the result as JSON."`
}

func (c *reloadCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (map[string]bool, error) {
		return map[string]bool{"reloaded": true}, client.Reload(ctx)
	}, func(*map[string]bool) { fmt.Fprintln(t.out, "reloaded") })
}
