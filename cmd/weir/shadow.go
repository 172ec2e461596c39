package main

import (
	"errors"

	"weir/console"
)

type shadowCommand struct {
	On  shadowOnCommand  `cmd:"" help:"Judge and count, but let everything pass." example:"weir shadow on plans"`
	Off shadowOffCommand `cmd:"" help:"Act on verdicts again." example:"weir shadow off --all"`
}

type shadowFlags struct {
	target
	All       bool     `help:"All throttles: the emergency switch."`
	Farm      bool     `help:"On all nodes of the farm."`
	Note      string   `placeholder:"TEXT" help:"With --all: the reason, for people who ask later."`
	JSON      bool     `name:"json" help:"Print the state of the throttles as JSON."`
	Throttles []string `arg:"" optional:"" name:"throttle" help:"The throttles to switch."`
}

func (c *shadowFlags) Validate() error {
	if c.All == (len(c.Throttles) > 0) {
		return errors.New("name the throttles, or write --all")
	}
	if c.Note != "" && !c.All {
		return errors.New("--note goes with --all")
	}
	return nil
}

type shadowOnCommand struct{ shadowFlags }

func (c *shadowOnCommand) Run(t *terminal) error { return c.run(t, true) }

type shadowOffCommand struct{ shadowFlags }

func (c *shadowOffCommand) Run(t *terminal) error { return c.run(t, false) }

func (c *shadowFlags) run(t *terminal, on bool) error {
	order := console.Shadow{Throttles: c.Throttles, All: c.All, On: on, Note: c.Note}
	if c.Farm {
		return toAll(t, c.target, c.JSON, console.FarmShadowCall.With(order))
	}
	return ask(t, c.target, c.JSON, console.ShadowCall.With(order), func(r *console.ShadowResult) {
		t.warn(r.Warnings)
		b := table{heads: []string{"throttle", "mode"}}
		for _, s := range r.Throttles {
			b.row(text(s.Throttle), mode(s.Shadow))
		}
		t.write(&b)
	})
}
