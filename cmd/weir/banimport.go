package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"weir"
	"weir/console"
	"weir/throttle/ban"
)

type banImportCommand struct {
	target
	Name   string         `required:"" placeholder:"NAME" help:"The name of the list. What was imported under this name before is replaced."`
	For    *weir.Duration `placeholder:"TIME" help:"How long it holds unless it is imported again: 7d. Default: until it is replaced."`
	Reason string         `placeholder:"TEXT" help:"The reason, for people who ask later."`
	DryRun bool           `help:"Show what would change, and change nothing."`
	Remove bool           `help:"Remove the list: its networks are no longer banned. Without a file."`
	Force  bool           `help:"Import it even if it has the address that you are logged in from, or a large part of the Internet."`
	JSON   bool           `name:"json" help:"Print the result as JSON."`
	File   string         `arg:"" optional:"" help:"The file: an address or a network in each line, comments behind # or ;. A single - is standard input."`
}

func (c *banImportCommand) Validate() error {
	switch {
	case ban.CheckListName(c.Name) != nil:
		return fmt.Errorf("--name: %w", ban.ErrListName)
	case c.For != nil && *c.For <= 0:
		return errors.New("--for: must be longer than zero; leave it out for a list that holds until it is replaced")
	case c.Remove == (c.File != ""):
		return errors.New("name a file, or write --remove")
	}
	return nil
}

func (c *banImportCommand) Run(t *terminal) error {
	order := console.ListOrder{Name: c.Name, Reason: c.Reason, Remove: c.Remove, Dry: c.DryRun}
	if c.For != nil {
		order.For = *c.For
	}
	if !c.Remove {
		text, err := readList(c.File)
		if err != nil {
			return err
		}
		// What is wrong is said before anybody is asked, with the name of the file.
		all, err := ban.ParseList(strings.NewReader(text), math.MaxInt/4)
		if err != nil {
			return fmt.Errorf("%s is not imported:\n%w", c.File, err)
		}
		home := loggedInFrom()
		own := func(p netip.Prefix) bool { return home.IsValid() && p.Contains(home) }
		if i := slices.IndexFunc(all, own); i >= 0 && !c.Force {
			return fmt.Errorf("%s has the address that you are logged in from, %s: you might lock yourself out (--force "+
				"does it all the same)", all[i], home)
		}
		order.Text = text
	}
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (console.ListResult, error) {
		return client.ImportList(ctx, order)
	}, func(r *console.ListResult) {
		t.warn(r.Warnings)
		is := "is imported"
		switch {
		case c.DryRun:
			is = "would be imported"
		case c.Remove:
			is = "is removed"
		}
		fmt.Fprintf(t.out, "%s %s: %s, %d added, %d removed", c.Name, is, count(r.Entries, "network"), r.Added, r.Removed)
		if r.ByOthers > 0 {
			fmt.Fprintf(t.out, ", %d also banned by others", r.ByOthers)
		}
		fmt.Fprintln(t.out)
	})
}

// readList reads a block list as a whole: it is checked before anything is sent.
func readList(path string) (string, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, ban.MaxListFile+1))
	if err == nil && len(text) > ban.MaxListFile {
		err = fmt.Errorf("%s is larger than %s", path, weir.Size(ban.MaxListFile))
	}
	return string(text), err
}

type banListsCommand struct {
	target
	JSON bool `name:"json" help:"Print them as JSON."`
}

func (c *banListsCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, console.BlockListsCall.With(console.None{}), func(all *console.BlockListPage) {
		if len(all.Lists) == 0 {
			fmt.Fprintln(t.out, "no block list was imported")
			return
		}
		rows := table{heads: []string{"name", "networks", "banned", "why", "by", "since", "left"}}
		for _, l := range all.Lists {
			rows.row(text(l.Name), number(int64(l.Entries)), number(int64(l.Banned)), text(l.Reason),
				text(cmp.Or(l.By, "")), text(moment(l.At)), text(left(l.Until, time.Now())))
		}
		t.write(&rows)
	})
}
