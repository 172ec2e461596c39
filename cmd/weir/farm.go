package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weir/console"
	"weir/internal/tabular"
)

type farmCommand struct {
	Leave  farmLeaveCommand  `cmd:"" help:"Leave the farm. This node goes on alone until it is restarted." example:"weir farm leave"`
	Forget farmForgetCommand `cmd:"" help:"Make all nodes forget a lost node that will not come back." example:"weir farm forget edge-2"`
}

type farmLeaveCommand struct {
	target
	JSON bool `name:"json" help:"Print the result as JSON."`
}

func (c *farmLeaveCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (map[string]bool, error) {
		_, err := console.FarmLeaveCall.Ask(ctx, client, console.None{})
		return map[string]bool{"left": true}, err
	}, func(*map[string]bool) { fmt.Fprintln(t.out, "left; this node serves alone until it is restarted") })
}

type farmForgetCommand struct {
	target
	Node string `arg:"" help:"The name of the node, as weir status shows it."`
	JSON bool   `name:"json" help:"Print the result as JSON."`
}

func (c *farmForgetCommand) Run(t *terminal) error {
	return toAll(t, c.target, c.JSON, console.FarmForgetCall.With(console.FarmNode{Node: c.Node}))
}

// toAll gives an order to all nodes of a farm, and shows what became of it. It fails where a node did.
func toAll(t *terminal, at target, asJSON bool,
	order func(*console.Client, context.Context) (console.FarmResult, error)) error {
	failed := 0
	err := ask(t, at, asJSON, func(client *console.Client, ctx context.Context) (console.FarmResult, error) {
		r, err := order(client, ctx)
		for _, n := range r.Nodes {
			if n.Error != "" {
				failed++
			}
		}
		return r, err
	}, func(r *console.FarmResult) {
		b := table{heads: []string{"node", "result"}}
		for _, n := range r.Nodes {
			result := cell{text: "done", tint: tabular.Good}
			if n.Error != "" {
				result = cell{text: printable(n.Error), tint: tabular.Bad}
			}
			b.row(text(n.Node), result)
		}
		t.write(&b)
	})
	if err == nil && failed > 0 {
		return fmt.Errorf("%s did not do it", count(failed, "node"))
	}
	return err
}

// farm shows the farm of a node.
func (t *terminal) farm(f *console.FarmStatus) {
	if f == nil {
		return
	}
	rows := table{heads: []string{"node", "state", "version", "clock ahead", "lag", "configuration"}}
	for _, n := range f.Nodes {
		state, differs := cell{text: n.State}, cell{text: n.Config}
		switch n.State {
		case "up":
			state.tint = tabular.Good
		case "lost", "refused", "unheard":
			state.tint = tabular.Bad
		}
		if n.Differs {
			differs = cell{text: printable(n.Config) + ", another than here", tint: tabular.Warn}
		}
		rows.row(text(n.Name), state, text(n.Version), cell{text: fmt.Sprintf("%.0f ms", n.OffsetMS), right: true},
			cell{text: fmt.Sprintf("%.1f ms", n.LagMS), right: true}, differs)
	}
	t.write(&rows)
	for _, n := range f.Nodes {
		if n.Why != "" {
			fmt.Fprintf(t.out, "%s: %s\n", printable(n.Name), t.paint(tabular.Bad, printable(n.Why)))
		}
	}
	if f.Parts == 0 {
		fmt.Fprintln(t.out, t.paint(tabular.Bad, "nobody here has a part of the limits: until other nodes are heard, policies "+
			"with on_loss: share and closed grant nothing"))
	}
	if !f.Knows && !f.Left {
		fmt.Fprintln(t.out, t.paint(tabular.Bad, "this node does not know what accounts used before it started: policies "+
			"with on_loss: share and closed grant nothing in periods that had begun before"))
	}
	for _, o := range f.Others {
		fmt.Fprintf(t.out, "%s: %s\n", printable(o.Address), t.paint(tabular.Bad, printable(o.Why)))
	}
	fmt.Fprintln(t.out)
	t.counters(f.Counters)
}

// counters shows the engine in which exact limits are counted.
func (t *terminal) counters(c *console.CounterStatus) {
	if c == nil {
		return
	}
	rows := table{heads: []string{"exact limits at", "state", "calls", "failed", "not made", "p50", "p99"}}
	state := cell{text: c.State}
	switch c.State {
	case "up":
		state.tint = tabular.Good
	case "stalled":
		state.tint = tabular.Bad
	}
	ms := func(n float64) cell { return cell{text: fmt.Sprintf("%.1f ms", n), right: true} }
	rows.row(text(c.Address), state, number(c.Calls), number(c.Failures), number(c.Refused), ms(c.Latency.P50),
		ms(c.Latency.P99))
	t.write(&rows)
	if c.State == "stalled" {
		fmt.Fprintf(t.out, "lost since %s: %s\n", moment(c.Since),
			t.paint(tabular.Bad, printable(c.Error)))
	}
	if len(c.Waiting) > 0 {
		fmt.Fprintf(t.out, "limits are closed until these nodes tell what they have granted: %s\n"+
			"start them again; one that will not come back: weir farm forget NAME\n",
			t.paint(tabular.Bad, printable(strings.Join(c.Waiting, ", "))))
	}
	fmt.Fprintln(t.out)
}

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
