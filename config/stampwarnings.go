package config

import (
	"fmt"
	"maps"
	"slices"

	"weir"
	"weir/gate/httpgate"
	"weir/identify"
	"weir/throttle/stamp"
)

// stampWarnings returns what is allowed for stamps but hardly meant.
func (c *Config) stampWarnings() []*weir.FieldError {
	var warn warnings
	for i := range c.HTTP {
		for under, g := range c.HTTP[i].Each() {
			if !g.Forwards() && len(c.HTTP[i].Routes) > 0 {
				continue // nothing to pay for
			}
			at := fmt.Sprintf("http[%d]", i)
			if under != "" {
				at += "." + under
			}
			c.warnStamps(&warn, at, &g)
		}
	}
	for at, g := range c.clients() {
		for _, name := range g.Throttles {
			if o := c.Throttles[name].Stamp; o != nil && g.Asked {
				warnExempt(&warn, at, name, o, g.Account, false)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		if o := c.Throttles[name].Stamp; o != nil {
			warnStamp(&warn, "throttles."+name+".stamp", *o)
		}
	}
	return warn
}

// warnStamps looks at the stamps of a gate, or of one of its routes.
func (c *Config) warnStamps(warn *warnings, at string, g *httpgate.Options) {
	for j, name := range g.Throttles {
		o := c.Throttles[name].Stamp
		if o == nil {
			continue
		}
		here := fmt.Sprintf("%s.throttles[%d]", at, j)
		if g.Capacity == nil && !o.AlwaysAsks() {
			warn.add(here, fmt.Sprintf("%q never asks for a stamp here: without a capacity the gate knows no load",
				name), "add capacity: {concurrent: 16} to the gate")
		} else {
			warnPayers(warn, here, name, o, g.Account)
		}
		warnExempt(warn, at, name, o, g.Account, g.JWT != nil && g.JWT.Plan != "")
	}
}

// warnPayers finds gates whose clients are programs, as they bring keys, tokens or certificates, where nobody thought
// of those that cannot pay.
func warnPayers(warn *warnings, at, name string, o *stamp.Options, sources []string) {
	n := o.NeverAsk
	accounts, err := identify.ParseAccounts(sources)
	if err != nil || !accounts.Programs() ||
		len(n.Paths)+len(n.Networks)+len(n.Files)+len(n.Accounts)+len(n.Plans) > 0 {
		return
	}
	hint := "name those that cannot under stamp: never_ask: {paths: [/v1/*]}, or by their networks"
	if accounts.Unproven() == "" {
		hint = "name those that cannot under stamp: never_ask: {accounts: [acme]}, or by their plans, paths or networks"
	}
	warn.add(at,
		fmt.Sprintf("%q asks programs to pay, and few can: under load the others get only what is left",
			name), hint)
}

// warnExempt finds accounts that are never asked at a gate where anybody can name them, and plans where no plan is
// known.
func warnExempt(warn *warnings, at, name string, o *stamp.Options, sources []string, plan bool) {
	accounts, err := identify.ParseAccounts(sources)
	switch source := accounts.Unproven(); {
	case err != nil || len(o.NeverAsk.Accounts) == 0:
	case len(sources) == 0:
		warn.add(at, fmt.Sprintf("%q exempts some accounts, but this gate finds no accounts", name),
			"say where it is found: account: [jwt:sub]")
	case source != "":
		warn.add(at+".account",
			fmt.Sprintf("a client that sends an account exempt from %q in %s is never asked", name, source),
			"take accounts from tokens or certificates (jwt:sub, cert), or list only ids that nobody can guess")
	}
	if len(o.NeverAsk.Plans) > 0 && !plan {
		warn.add(at, fmt.Sprintf("%q exempts some plans, but this gate knows no plans", name),
			"write jwt: {plan: plan, …} in an HTTP gate, or list accounts")
	}
}

func warnStamp(warn *warnings, at string, written stamp.Options) {
	o := written.WithDefaults()
	if o.Algorithm == stamp.DLogClassic {
		warn.add(at, "dlog-classic is weak: an attacker pays next to nothing",
			"use it to study the document; sha256-k, eqs60 and dlog cost what they say")
	}
	least := o.Algorithm.Least()
	easy := func(at string, w stamp.Work) {
		if w > 0 && w < least {
			why := "with less, guessing would be cheaper"
			if o.Algorithm == stamp.EQS60 {
				why = "that is what sixteen solutions take"
			}
			warn.add(at, fmt.Sprintf("%s asks for %d operations at least: %s", o.Algorithm, least, why),
				fmt.Sprintf("write %d, or more", least))
		}
	}
	easy(at+".first", written.First)
	for i, s := range o.Schedule {
		easy(fmt.Sprintf("%s.schedule[%d].work", at, i), s.Work)
	}
	if o.AlwaysAsks() && o.DoubleEvery != nil && *o.DoubleEvery > 0 {
		warn.add(at+".from_load",
			fmt.Sprintf("the work doubles up to max_time, %s, as soon as anybody is there: with %s there is always load", o.MaxTime, *o.FromLoad),
			"write from_load: 90%, or leave double_every out: then the work follows the wait")
	}
}
