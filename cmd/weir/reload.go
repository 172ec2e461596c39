package main

import (
	"context"
	"fmt"
)

// reloadCommand is weir reload.
type reloadCommand struct {
	target
	JSON bool `name:"json" help:"Print the result as JSON."`
}

// Run reloads; what is wrong with the configuration is told as weir check does.
func (c *reloadCommand) Run(t *terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := client.Reload(context.Background()); err != nil {
		return err
	}
	if c.JSON {
		return t.json(map[string]bool{"reloaded": true})
	}
	_, err = fmt.Fprintln(t.out, "reloaded")
	return err
}
