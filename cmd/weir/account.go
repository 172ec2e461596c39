package main

import (
	"fmt"

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
