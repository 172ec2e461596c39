package main

import (
	"context"
	"errors"

	"weir/console"
)

// shadowCommand is weir shadow.
type shadowCommand struct {
	On  shadowOnCommand  `cmd:"" help:"Judge and count, but let everything pass."`
	Off shadowOffCommand `cmd:"" help:"Act on verdicts again."`
}

// shadowFlags are common to both.
type shadowFlags struct {
	target
	All       bool     `help:"All throttles: the emergency switch."`
	JSON      bool     `name:"json" help:"Print how the throttles stand as JSON."`
	Throttles []string `arg:"" optional:"" name:"throttle" help:"The throttles to switch."`
}

// Validate is called by the parser.
func (c *shadowFlags) Validate() error {
	if c.All == (len(c.Throttles) > 0) {
		return errors.New("name the throttles, or write --all")
	}
	return nil
}

type shadowOnCommand struct{ shadowFlags }

// Run takes throttles into shadow.
func (c *shadowOnCommand) Run(t *terminal) error { return c.run(t, true) }

type shadowOffCommand struct{ shadowFlags }

// Run takes throttles out of shadow.
func (c *shadowOffCommand) Run(t *terminal) error { return c.run(t, false) }

func (c *shadowFlags) run(t *terminal, on bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	states, err := client.SetShadow(context.Background(), console.Shadow{Throttles: c.Throttles, All: c.All, On: on})
	if err != nil {
		return err
	}
	if c.JSON {
		return t.json(console.ShadowResult{Throttles: states})
	}
	b := table{heads: []string{"throttle", "mode"}}
	for _, s := range states {
		b.row(text(s.Throttle), mode(s.Shadow))
	}
	t.write(&b)
	return nil
}
