package config

import (
	"fmt"
	"slices"
	"time"

	"weir"
	"weir/gate/smtpgate"
	"weir/stamp"
)

// mailThrottle checks that a mail throttle stands where it can work: it judges whole mails, and keeps them.
func (f *findings) mailThrottle(c *Config, u use, at, name string) {
	if u.accept || c.Throttles[name].Mail == nil {
		return
	}
	switch {
	case !u.mail:
		f.add(at, fmt.Sprintf("the throttle %q judges mail", name), "list it under throttles of a gate under smtp or postfix")
	case u.each:
		f.add(at, fmt.Sprintf("the throttle %q judges whole mails: whether one has several recipients is known at its end", name), "list it under throttles")
	default:
		for _, other := range u.names[:slices.Index(u.names, name)] {
			if c.Throttles[other].Mail != nil {
				f.add(at, fmt.Sprintf("%q is a mail throttle already", other), "a mail waits in one delay queue")
			}
		}
	}
}

// mailStamps checks what only the mechanism knows of a gate's stamps.
func (f *findings) mailStamps(c *Config) {
	for i, g := range c.SMTP {
		if g.Stamps == nil {
			continue
		}
		at := fmt.Sprintf("smtp[%d].stamps", i)
		o := *g.WithDefaults().Stamps
		var a stamp.Algorithm
		if err := a.UnmarshalText([]byte(o.Algorithm)); err != nil {
			f.all = append(f.all, weir.Under(at+".algorithm", err))
			continue
		}
		work, err := stamp.ParseWork(o.Work)
		if err != nil {
			f.all = append(f.all, weir.Under(at+".work", err))
			continue
		}
		if _, err := stamp.NewMailDesk(a, work, nil, stamp.NewFilter(time.Hour, 1), nil); err != nil {
			f.add(at, err.Error(), "sha256-k with 20 bits takes a phone about a second for each recipient")
		}
	}
}

// mailThrottleOf is the mail throttle among a list, or empty.
func (c *Config) mailThrottleOf(names []string) string {
	for _, name := range names {
		if c.Throttles[name].Mail != nil {
			return name
		}
	}
	return ""
}

// mailOddities returns what is allowed for mail but hardly meant.
func (c *Config) mailOddities() (all []*weir.FieldError) {
	odd := func(path, msg, hint string) { all = append(all, &weir.FieldError{Path: path, Msg: msg, Hint: hint}) }
	for i, g := range c.SMTP {
		at := fmt.Sprintf("smtp[%d]", i)
		if c.mailThrottleOf(g.Throttles) != "" && g.Command == "" && !c.SelfService.Enabled() {
			odd(at, "stopped users cannot do anything about it themselves", "add command: weir@mail.example.org to the gate, or self_service: {url: …}")
		}
		if c.mailThrottleOf(g.Throttles) != "" && g.Admin == "" {
			odd(at+".admin", "nobody but the user is told when one is stopped", "add admin: postmaster@example.org")
		}
	}
	for i, g := range c.Postfix {
		at := fmt.Sprintf("postfix[%d]", i)
		name := c.mailThrottleOf(g.Throttles)
		if name != "" && g.Admin == "" {
			odd(at+".admin", "nobody but the user is told when one is stopped", "add admin: postmaster@example.org")
		}
		if g.Filter != "" && !slices.ContainsFunc(c.SMTP, func(s smtpgate.Options) bool { return s.Marks && c.mailThrottleOf(s.Throttles) == name }) {
			odd(at+".filter", fmt.Sprintf("no gate for mail here takes what Postfix diverts: one with marks: true and the throttle %q", name),
				"add it under smtp; or it is on another machine, which must have the same secret")
		}
	}
	return all
}
