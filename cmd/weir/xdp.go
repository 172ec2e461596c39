package main

import (
	"errors"
	"fmt"
	"slices"

	"weir/gate/xdpgate"
	"weir/internal/tabular"
)

// xdpCommand is weir xdp. It talks to the kernel directly: the limits stay there when no weir runs.
type xdpCommand struct {
	Status xdpStatusCommand `cmd:"" help:"Show which interfaces have packet limits, whether or not weir runs." example:"weir xdp status"`
	Detach xdpDetachCommand `cmd:"" help:"Stop limiting packets on interfaces, and remove everything from the kernel." example:"weir xdp detach eth0"`
}

type xdpPin struct {
	Pin string `default:"/sys/fs/bpf/weir" placeholder:"PATH" help:"The folder where programs and maps are pinned, as in the configuration. Default ${default}."`
}

type xdpStatusCommand struct {
	xdpPin
	JSON bool `name:"json" help:"Print it as JSON."`
}

func (c *xdpStatusCommand) Run(t *terminal) error {
	all, err := xdpgate.List(c.Pin)
	if err != nil {
		return err
	}
	if c.JSON {
		return t.json(all)
	}
	if len(all) == 0 {
		fmt.Fprintln(t.out, "no packets are limited")
		return nil
	}
	rows := table{heads: []string{"interface", "runs", "mode", "passed", "limited", "banned", "allowed", "exempt",
		"malformed", "bans", "memory"}}
	for _, p := range all {
		runs := text(string(p.Attach))
		switch {
		case !p.Attached:
			runs = cell{text: "not at all", tint: tabular.Bad}
		case p.Elsewhere:
			runs = cell{text: "elsewhere", tint: tabular.Warn}
		}
		n := p.Counters
		rows.row(text(p.Interface), runs, mode(p.Shadow), number(n.Passed), number(n.Limited), number(n.Banned),
			number(n.Allowed), number(n.Exempt), number(n.Malformed), number(p.Bans), size(p.Bytes))
	}
	t.write(&rows)
	return nil
}

type xdpDetachCommand struct {
	xdpPin
	Interfaces []string `arg:"" optional:"" name:"interface" help:"The interfaces, as weir xdp status shows them."`
	All        bool     `help:"All interfaces."`
	JSON       bool     `name:"json" help:"Print what was detached as JSON."`
}

func (c *xdpDetachCommand) Validate() error {
	switch {
	case c.All && len(c.Interfaces) > 0:
		return errors.New("name interfaces, or all of them, not both")
	case !c.All && len(c.Interfaces) == 0:
		return errors.New("which interface? Name it, or --all")
	}
	return nil
}

// Run detaches as many as it can and reports the others.
func (c *xdpDetachCommand) Run(t *terminal) error {
	names := c.Interfaces
	if c.All {
		all, err := xdpgate.List(c.Pin)
		if err != nil {
			return err
		}
		for _, p := range all {
			names = append(names, p.Interface)
		}
	}
	detached, errs := []string{}, []error{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		switch err := xdpgate.Detach(c.Pin, name); {
		case errors.Is(err, xdpgate.ErrNotPinned):
			errs = append(errs, fmt.Errorf("the packets of %s are not limited (weir xdp status lists those that are)",
				name))
		case err != nil:
			errs = append(errs, err)
		case c.JSON:
			detached = append(detached, name)
		default:
			fmt.Fprintf(t.out, "the packets of %s are no longer limited\n", name)
		}
	}
	if c.JSON {
		errs = append(errs, t.json(map[string][]string{"detached": detached}))
	}
	return errors.Join(errs...)
}
