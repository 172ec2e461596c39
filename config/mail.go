package config

import (
	"fmt"
	"slices"

	"weir"
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
	return all
}
