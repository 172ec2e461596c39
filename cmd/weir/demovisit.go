package main

import (
	"context"
	"fmt"

	"weir/console"
)

// demoFlags are of commands that ask a running demo. It prints its control socket with each scene.
type demoFlags struct {
	target
	JSON bool `name:"json" help:"Print the scenes as JSON."`
}

type demoSceneFlags struct {
	demoFlags
	Scene string `arg:"" help:"The scene, as in quota."`
}

type demoShowCommand struct{ demoFlags }

func (c *demoShowCommand) Run(t *terminal) error {
	return c.act(t, nil)
}

type demoFloodCommand struct{ demoSceneFlags }

func (c *demoFloodCommand) Run(t *terminal) error {
	return c.act(t, console.DemoFloodCall.With(console.DemoWhich{Scene: c.Scene}))
}

type demoPayCommand struct {
	demoSceneFlags
	Off bool `help:"They wait in line instead."`
}

func (c *demoPayCommand) Run(t *terminal) error {
	return c.act(t, console.DemoPayCall.With(console.DemoPay{Scene: c.Scene, On: !c.Off}))
}

type demoStopCommand struct{ demoSceneFlags }

func (c *demoStopCommand) Run(t *terminal) error {
	return c.act(t, console.DemoStopCall.With(console.DemoWhich{Scene: c.Scene}))
}

// act does something in a running demo, unless act is nil, and shows how its scenes stand.
func (c *demoFlags) act(t *terminal, act func(*console.Client, context.Context) (console.None, error)) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (console.DemoScenes, error) {
		if act != nil {
			if _, err := act(client, ctx); err != nil {
				return console.DemoScenes{}, err
			}
		}
		return console.DemoShowCall.Ask(ctx, client, console.None{})
	}, func(all *console.DemoScenes) {
		rows := table{heads: []string{"scene", "playing", "throttle", "people served", "flood passed"}}
		of := func(r console.DemoRole) cell { return text(fmt.Sprintf("%d of %d", r.Served, r.Sent)) }
		for _, s := range all.Scenes {
			rows.row(text(s.Name), text(s.Playing), text("without"), of(s.Without.People), of(s.Without.Flood))
			rows.row(text(""), text(""), text("with"), of(s.With.People), of(s.With.Flood))
		}
		t.write(&rows)
	})
}
