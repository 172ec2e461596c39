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
	"weir/internal/tabular"
	"weir/store"
	"weir/throttle/ban"
)

type banCommand struct {
	List   banListCommand   `cmd:"" help:"Show the block list." example:"weir ban list"`
	Add    banAddCommand    `cmd:"" help:"Ban a client or a network: no gate serves it." example:"weir ban add 192.0.2.0/24 --for 1d --reason scraping"`
	Remove banRemoveCommand `cmd:"" help:"Remove a client or a network from the block list." example:"weir ban remove 192.0.2.0/24"`

	Import banImportCommand `cmd:"" help:"Import a block list from a file. It replaces what was imported under its name before." example:"weir ban import drop.txt --name drop --for 7d"`
	Lists  banListsCommand  `cmd:"" help:"Show the block lists that were imported." example:"weir ban lists"`
}

type banListCommand struct {
	target
	Filter string `placeholder:"TEXT" help:"Show only entries with this text in the columns who, why or by. An address also finds networks that contain it; a network also finds what is inside it."`
	Limit  int    `placeholder:"N" help:"Show at most this many. Default: all."`
	JSON   bool   `name:"json" help:"Print them as JSON."`
}

func (c *banListCommand) Validate() error {
	if c.Limit < 0 {
		return errors.New("--limit: at least 1")
	}
	return nil
}

func (c *banListCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (all console.BanPage, err error) {
		q := console.BanQuery{Filter: c.Filter}
		all.Bans, err = pages(c.Limit, console.MaxBanPage, func(n int) ([]console.Ban, bool, error) {
			q.Limit = n
			page, err := console.BansCall.Ask(ctx, client, q)
			all.Total, q.After = page.Total, page.Next
			return page.Bans, page.Next != "", err
		})
		return all, err
	}, func(all *console.BanPage) { t.bans(all, c.Filter, time.Now()) })
}

func (t *terminal) bans(all *console.BanPage, filter string, now time.Time) {
	if len(all.Bans) == 0 {
		if filter == "" {
			fmt.Fprintln(t.out, "nobody is banned")
		} else {
			fmt.Fprintf(t.out, "nobody is banned that %q finds\n", filter)
		}
		return
	}
	rows := table{heads: []string{"who", "why", "by", "since", "until", "left"}}
	for _, b := range all.Bans {
		until := cmp.Or(moment(b.Until), "permanently")
		rows.row(text(b.Who), text(b.Reason), text(b.By), text(moment(b.Since)), text(until), text(left(b.Until, now)))
	}
	t.write(&rows)
	if n := all.Total - len(all.Bans); n > 0 {
		fmt.Fprintf(t.out, "and %d more\n", n)
	}
}

// left is the time that remains, in at most two units; empty for a ban without an end.
func left(until, now time.Time) string {
	if until.IsZero() {
		return ""
	}
	d := max(until.Sub(now), 0)
	switch {
	case d >= 48*time.Hour:
		d = d.Truncate(time.Hour)
	case d >= time.Hour:
		d = d.Truncate(time.Minute)
	default:
		d = d.Truncate(time.Second)
	}
	var b strings.Builder
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.of; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit.name)
			d -= n * unit.of
		}
	}
	return cmp.Or(b.String(), "0s")
}

type banWho struct {
	target
	JSON bool   `name:"json" help:"Print the ban as JSON."`
	Who  string `arg:"" help:"192.0.2.1, 192.0.2.0/24, 2001:db8::/32, or client:ID."`
}

func (c *banWho) Validate() error {
	_, err := store.ParseBanKey(c.Who)
	if errors.Is(err, store.ErrInvalid) {
		return fmt.Errorf("%.80q is not somebody to ban (write 192.0.2.1, 192.0.2.0/24, 2001:db8::/32, or client:ID)",
			c.Who)
	}
	return err
}

type banAddCommand struct {
	banWho
	For    *weir.Duration `placeholder:"TIME" help:"How long the ban lasts: 30m, 1d. Default: permanently."`
	Reason string         `placeholder:"TEXT" help:"The reason, for people who ask later."`
	Force  bool           `help:"Ban even the address that you are logged in from, or a large part of the Internet."`
}

func (c *banAddCommand) Validate() error {
	if c.For != nil && *c.For == 0 {
		return errors.New("--for: must be longer than zero; leave it out for a permanent ban")
	}
	return c.banWho.Validate()
}

func (c *banAddCommand) Run(t *terminal) error {
	if home := loggedInFrom(); !c.Force && c.has(home) {
		return fmt.Errorf("%s has the address that you are logged in from, %s: you might lock yourself out (--force "+
			"does it all the same)", c.Who, home)
	}
	if key, err := store.ParseBanKey(c.Who); err == nil && !c.Force && vast(key.Prefix) {
		return fmt.Errorf("%s is a large part of the Internet: hardly anybody could connect (--force does it all the same)", c.Who)
	}
	order := console.BanOrder{Who: c.Who, Reason: c.Reason}
	if c.For != nil {
		order.For = *c.For
	}
	return c.do(t, console.BanAddCall.With(order), func(b console.Ban) string {
		if b.Until.IsZero() {
			return "banned permanently"
		}
		return "banned until " + moment(b.Until)
	})
}

func (c *banWho) has(addr netip.Addr) bool {
	key, err := store.ParseBanKey(c.Who)
	return err == nil && addr.IsValid() && key.Prefix.IsValid() && key.Prefix.Contains(addr)
}

// vast reports whether a network is larger than any that one organization has: a slip of the finger bans it. Everybody
// is refused in any case.
func vast(p netip.Prefix) bool {
	return p.Bits() > 0 && (p.Addr().Is4() && p.Bits() < 8 || p.Addr().Is6() && p.Bits() < 16)
}

// loggedInFrom is the address that the operator came from by ssh; invalid where ssh does not say.
func loggedInFrom() netip.Addr {
	from, _, _ := strings.Cut(os.Getenv("SSH_CONNECTION"), " ")
	addr, _ := netip.ParseAddr(from)
	return addr.Unmap().WithZone("")
}

type banRemoveCommand struct{ banWho }

func (c *banRemoveCommand) Run(t *terminal) error {
	return c.do(t, console.BanRemoveCall.With(console.BanWho{Who: c.Who}), func(console.Ban) string { return "no longer banned" })
}

// do changes the list, prints the warnings and says what is now true of the ban.
func (c *banWho) do(t *terminal, call func(*console.Client, context.Context) (console.BanResult, error),
	now func(console.Ban) string) error {
	return ask(t, c.target, c.JSON, call, func(r *console.BanResult) {
		t.warn(r.Warnings)
		fmt.Fprintf(t.out, "%s is %s\n", printable(r.Ban.Who), now(r.Ban))
	})
}

// invalid is the part of the status about the block list, and about parts of the store that cannot be written.
func (t *terminal) invalid(s *console.Status) {
	b := s.Bans
	fmt.Fprintf(t.out, "bans: %s, %s", count(b.Clients, "client"), count(b.Networks, "network"))
	if b.Operators > 0 {
		fmt.Fprintf(t.out, " (%d by operators)", b.Operators)
	}
	switch b.Auto {
	case "shadow":
		fmt.Fprintf(t.out, "; automatic bans in shadow: %d would be banned since the start", b.AutoWould)
	case "enforce":
		fmt.Fprintf(t.out, "; automatic bans: %d since the start", b.AutoBanned)
	}
	fmt.Fprintln(t.out)
	for _, p := range s.Store.Parts {
		if p.Error != "" {
			fmt.Fprintln(t.out, t.paint(tabular.Bad,
				fmt.Sprintf("the store fails, %s: %s", p.Means(), printable(p.Error))))
		}
	}
}

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
