package main

import (
	"fmt"

	"weir/console"
)

type reloadCommand struct {
	target
	Farm bool `help:"Reload all nodes of the farm, this one first. If it fails here, no other node reloads."`
	JSON bool `name:"json" help:"Print the result as JSON."`
}

func (c *reloadCommand) Run(t *terminal) error {
	if c.Farm {
		return toAll(t, c.target, c.JSON, console.FarmReloadCall.With(console.None{}))
	}
	return ask(t, c.target, c.JSON, console.ReloadCall.With(console.None{}),
		func(*console.Reloaded) { fmt.Fprintln(t.out, "reloaded") })
}
