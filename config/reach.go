package config

import (
	"fmt"
	"maps"
	"slices"

	"weir/gate"
)

// reachThrottle checks that a reach throttle stands where messages are judged.
func (f *findings) reachThrottle(c *Config, u use, at, name string) {
	if u.Judges == gate.Arrivals || c.Throttles[name].Reach == nil {
		return
	}
	switch {
	case u.Judges == gate.Recipients:
		f.add(at, fmt.Sprintf("the throttle %q judges whole messages, recipient by recipient", name),
			"list it under throttles")
	case !u.Judges.OfMail() && u.Judges != gate.Questions:
		f.add(at, fmt.Sprintf("the throttle %q judges messages by their recipients", name),
			"list it under throttles of a gate under smtp or postfix, or in a policy of the api")
	default:
		for _, other := range u.Names[:slices.Index(u.Names, name)] {
			if c.Throttles[other].Reach != nil {
				f.add(at, fmt.Sprintf("%q is a reach throttle already", other),
					"one counts the recipients of a message")
			}
		}
	}
}

// flaggedLimits finds limits for flagged users at gates where nobody is ever flagged.
func (f *findings) flaggedLimits(c *Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		o := c.Throttles[name].Mail
		if o == nil || o.Flagged == nil {
			continue
		}
		flags := slices.ContainsFunc(c.uses(), func(u use) bool {
			return u.Judges == gate.Messages && slices.Contains(u.Names, name) && c.reachThrottleOf(u.Names) != ""
		})
		if !flags {
			f.add("throttles."+name+".mail.flagged", "no gate lists this throttle beside a reach throttle, so nobody is flagged",
				"list a reach throttle beside it")
		}
	}
}

// reachThrottleOf is the reach throttle among a list, or empty.
func (c *Config) reachThrottleOf(names []string) string {
	for _, name := range names {
		if c.Throttles[name].Reach != nil {
			return name
		}
	}
	return ""
}
