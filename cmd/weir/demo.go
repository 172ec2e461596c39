package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"weir/console"
	"weir/lab/demo"
)

type demoCommand struct {
	Play  demoPlayCommand  `cmd:"" default:"withargs" help:"Watch weir work: people and floods in front of a small service, in the terminal and on a page. The same as weir demo." example:"weir demo --for 20s"`
	Show  demoShowCommand  `cmd:"" help:"Show the scenes of a running demo." example:"weir demo show --control /tmp/weir-demo-1/weir.sock"`
	Flood demoFloodCommand `cmd:"" help:"Bring people and a flood to a scene of a running demo." example:"weir demo flood quota --control /tmp/weir-demo-1/weir.sock"`
	Pay   demoPayCommand   `cmd:"" help:"Make the people in a scene of a running demo pay for stamps." example:"weir demo pay stamps --control /tmp/weir-demo-1/weir.sock"`
	Stop  demoStopCommand  `cmd:"" help:"End the flood in a scene of a running demo, or send the people home." example:"weir demo stop quota --control /tmp/weir-demo-1/weir.sock"`
}

type demoPlayCommand struct {
	For  time.Duration `placeholder:"TIME" help:"How long to run. Default: until Ctrl-C on a terminal, else 29s."`
	Hold bool          `help:"Keep the page open when the scenes are over, until Ctrl-C or for an hour."`
	JSON bool          `name:"json" help:"Print only the report, as JSON."`
}

func (c *demoPlayCommand) Validate() error {
	if c.For < 0 {
		return errors.New("--for: it must not be negative")
	}
	if c.Hold && c.JSON {
		return errors.New("--hold is for a page, and --json shows none")
	}
	return nil
}

// Run plays the demo. A first signal brings it to its end, with a report; a second one ends it at once.
func (c *demoPlayCommand) Run(t *terminal) error {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer release()
	defer context.AfterFunc(ctx, release)()
	// The reader of the output may close it. That ends the demo too, and its files are removed. The signal for it tells
	// nothing: it also comes when one side of a connection resets it, which floods do all the time.
	signal.Ignore(syscall.SIGPIPE)
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	o := demo.Options{For: c.For, Hold: c.Hold, JSON: c.JSON, Out: &watchedWriter{t.out, quit}, Err: t.err,
		Colour: t.colour, Version: versionOf().Version}
	if t.outTTY {
		o.Terminal = true
		o.Width = func() int { return cmp.Or(widthOf(t.out), 80) }
	}
	_, err := demo.Run(ctx, o)
	return err
}

// A watchedWriter calls failed when something could not be written.
type watchedWriter struct {
	io.Writer
	failed func()
}

func (w *watchedWriter) Write(text []byte) (int, error) {
	n, err := w.Writer.Write(text)
	if err != nil {
		w.failed()
	}
	return n, err
}

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
