package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"weir"
	"weir/console"
)

type accountCommand struct {
	Get   accountGetCommand   `cmd:"" help:"Show what an account has used." example:"weir account get acme"`
	Reset accountResetCommand `cmd:"" help:"Reset what an account has used. Its waiting requests may go; requests under way still count." example:"weir account reset acme"`

	Limit  accountLimitCommand  `cmd:"" help:"Give one account a limit of its own, at once, without a reload." example:"weir account limit acme --policy per-minute --limit 50 --for 2h"`
	Limits accountLimitsCommand `cmd:"" help:"Show the limits of single accounts: those of the file, and those that operators have set." example:"weir account limits"`
}

type accountFlags struct {
	target
	JSON bool   `name:"json" help:"Print the account as JSON."`
	Name string `arg:"" help:"The account, or the source address where requests are counted by it, or a whole key, as in acme,GET."`
}

type accountGetCommand struct{ accountFlags }

func (c *accountGetCommand) Run(t *terminal) error {
	return c.run(t, console.AccountGetCall)
}

type accountResetCommand struct{ accountFlags }

func (c *accountResetCommand) Run(t *terminal) error {
	return c.run(t, console.AccountResetCall)
}

func (c *accountFlags) run(t *terminal, call *console.CallOf[console.Name, console.Account]) error {
	return ask(t, c.target, c.JSON, call.With(console.Name{Name: c.Name}), t.account)
}

func (t *terminal) account(a *console.Account) {
	fmt.Fprintf(t.out, "in the access log: account=%s\n", a.Logged)
	rules := ruleTable()
	for _, h := range a.Throttles {
		name := h.Throttle
		if h.Key != "" {
			name += " " + printable(h.Key)
		}
		line := fmt.Sprintf("%s: %d waiting", name, h.Waiting)
		if h.Plan != "" {
			line += ", plan " + printable(h.Plan)
		}
		fmt.Fprintln(t.out, line)
		rules.add(name, h.Rules)
	}
	fmt.Fprintln(t.out)
	if len(rules.rows) > 0 {
		t.write(&rules.table)
	}
	t.ownLimits(a.Limits)
}

// ownLimits shows the limits that an account has of its own, if there are any.
func (t *terminal) ownLimits(all []console.AccountLimit) {
	if len(all) > 0 {
		fmt.Fprintln(t.out)
		t.limits(all)
	}
}

type accountLimitCommand struct {
	target
	Throttle string         `placeholder:"NAME" help:"The quota. May be left out when there is one."`
	Policy   string         `placeholder:"NAME" help:"The policy of the quota. May be left out when there is one."`
	Limit    string         `placeholder:"N" help:"The limit of this account: 50, or 10MB for a volume."`
	Burst    string         `placeholder:"N" help:"The burst of this account, with window gcra."`
	Gap      *weir.Duration `placeholder:"TIME" help:"The gap of this account, with kind idle: 50ms."`
	Exempt   bool           `help:"This account has no limit by this policy."`
	For      *weir.Duration `placeholder:"TIME" help:"How long it holds: 2h, 7d. Default: until it is removed."`
	Note     string         `placeholder:"TEXT" help:"The reason, for people who ask later."`
	Remove   bool           `help:"Remove the limit again. What the configuration says holds then."`
	JSON     bool           `name:"json" help:"Print the limit as JSON."`
	Name     string         `arg:"" help:"The account, as in the configuration's overrides."`
}

func (c *accountLimitCommand) order() console.LimitOrder {
	o := console.LimitOrder{Account: c.Name, Throttle: c.Throttle, Policy: c.Policy, Note: c.Note,
		Limit: c.Limit, Burst: c.Burst, Exempt: c.Exempt}
	if c.Gap != nil {
		o.Gap = *c.Gap
	}
	if c.For != nil {
		o.For = *c.For
	}
	return o
}

func (c *accountLimitCommand) Validate() error {
	o := c.order()
	given := o.Figures() != console.Figures{}
	switch {
	case c.Remove && (given || c.For != nil || c.Note != ""):
		return errors.New("--remove goes with no figure, --for or --note")
	case !c.Remove && !given:
		return errors.New("which limit? (write --limit 50, or --remove)")
	case c.For != nil && *c.For <= 0:
		return errors.New("--for: must be longer than zero; leave it out for a limit without an end")
	case c.Gap != nil && *c.Gap <= 0:
		return errors.New("--gap: must be longer than zero; --exempt takes the limit away")
	}
	return nil
}

func (c *accountLimitCommand) Run(t *terminal) error {
	call := console.LimitSetCall.With(c.order())
	if c.Remove {
		call = console.LimitRemoveCall.With(console.LimitOf{Account: c.Name, Throttle: c.Throttle, Policy: c.Policy})
	}
	return ask(t, c.target, c.JSON, call, func(r *console.LimitResult) {
		t.warn(r.Warnings)
		l := &r.Limit
		fmt.Fprintf(t.out, "%s has in %s/%s: %s", printable(l.Account), l.Throttle, l.Policy,
			cmp.Or(l.Figures.String(), "nothing of its own"))
		switch {
		case !l.Live:
			fmt.Fprint(t.out, ", as the configuration says")
		case !l.Until.IsZero():
			fmt.Fprint(t.out, ", until "+moment(l.Until))
		}
		fmt.Fprintln(t.out)
	})
}

type accountLimitsCommand struct {
	target
	Filter string `placeholder:"TEXT" help:"Show only accounts with this text in their name."`
	Limit  int    `placeholder:"N" help:"Show at most this many. Default: all."`
	JSON   bool   `name:"json" help:"Print them as JSON."`
	Name   string `arg:"" optional:"" help:"Show only this account."`
}

func (c *accountLimitsCommand) Validate() error { return checkLimit(c.Limit) }

func (c *accountLimitsCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (all console.LimitPage,
		err error) {
		q := console.LimitQuery{Account: c.Name, Filter: c.Filter}
		all.Limits, err = pages(c.Limit, console.MaxLimitPage, func(n int) ([]console.AccountLimit, bool, error) {
			q.Limit = n
			page, err := console.LimitListCall.Ask(ctx, client, q)
			all.Total, q.Skip = page.Total, page.Next
			return page.Limits, page.Next != 0, err
		})
		return all, err
	}, func(all *console.LimitPage) {
		if len(all.Limits) == 0 {
			fmt.Fprintln(t.out, "no account has a limit of its own")
			return
		}
		t.limits(all.Limits)
		if n := all.Total - len(all.Limits); n > 0 {
			fmt.Fprintf(t.out, "and %d more\n", n)
		}
	})
}

// limits shows limits of single accounts, with who has set them.
func (t *terminal) limits(all []console.AccountLimit) {
	rows := table{heads: []string{"account", "throttle", "policy", "own limit", "instead of", "set by", "since", "left", "note"}}
	for _, l := range all {
		by, note := "the file", l.Note
		if l.Live {
			by = cmp.Or(l.By, "an operator")
		}
		if l.Unused != "" {
			note = "has no effect: " + l.Unused
		}
		rows.row(text(l.Account), text(l.Throttle), text(l.Policy), text(l.Figures.String()), text(l.Instead.String()),
			text(by), text(moment(l.At)), text(left(l.Until, time.Now())), text(note))
	}
	t.write(&rows)
}
