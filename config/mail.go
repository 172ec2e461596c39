package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"weir"
	"weir/gate"
	"weir/gate/smtpgate"
	"weir/throttle/stamp"
)

// mailThrottle checks that a mail throttle stands where it can work: it judges whole mails, and keeps them.
func (f *findings) mailThrottle(c *Config, u use, at, name string) {
	if u.Judges == gate.Arrivals || c.Throttles[name].Mail == nil {
		return
	}
	switch {
	case !u.Judges.OfMail():
		f.add(at, fmt.Sprintf("the throttle %q judges mail", name),
			"list it under throttles of a gate under smtp or postfix")
	case u.Judges == gate.Recipients:
		f.add(at,
			fmt.Sprintf("the throttle %q judges whole messages: how many recipients one has is known at its end",
				name), "list it under throttles")
	default:
		for _, other := range u.Names[:slices.Index(u.Names, name)] {
			if c.Throttles[other].Mail != nil {
				f.add(at, fmt.Sprintf("%q is a mail throttle already", other), "a message waits in one delay queue")
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
		if _, err := MailStamps(*g.WithDefaults().Stamps); err != nil {
			f.all = append(f.all, weir.Under(fmt.Sprintf("smtp[%d].stamps", i), err))
		}
	}
}

// MailStamps are a gate's stamps in the words of the mechanism. The error has every mistake in them.
func MailStamps(s smtpgate.Stamping) (o stamp.MailOptions, err error) {
	var all []error
	work := func(path, text string) (w stamp.Work) {
		if text == "" {
			return 0
		}
		w, err := stamp.ParseWork(text)
		if err == nil && w == 0 { // else it would count as left out
			err = &weir.FieldError{Msg: path[strings.LastIndexByte(path, '.')+1:] + " cannot be 0",
				Hint: "write more than 0, or leave it out"}
		}
		if err != nil {
			all = append(all, weir.Under(path, err))
		}
		return w
	}
	if err := o.Algorithm.UnmarshalText([]byte(s.Algorithm)); err != nil {
		all = append(all, weir.Under("algorithm", err))
	}
	o.Work, o.First = work("work", s.Work), work("first", s.First)
	for i, step := range s.Schedule {
		o.Schedule = append(o.Schedule, stamp.Step{Load: step.Load,
			Work: work(fmt.Sprintf("schedule[%d].work", i), step.Work)})
	}
	o.FromLoad = max(s.FromLoad, 0) // the gate reports what is below
	o.DoubleEvery, o.Doubles = s.DoubleEvery, stamp.Doubles(s.Doubles)
	if len(all) == 0 { // what cannot be read is reported already
		all = append(all, o.Validate())
	}
	return o, errors.Join(all...)
}

// circles finds gates that would hand mail to a gate of this weir.
func (f *findings) circles(c *Config) {
	check := func(path string, servers []string) {
		for i, server := range servers {
			for j, g := range c.SMTP {
				if reaches(hopAddress(server), g.Listen) {
					f.add(fmt.Sprintf("%s.servers[%d]", path, i),
						fmt.Sprintf("the gate smtp[%d] listens on %s: mail would loop", j, g.Listen),
						"name the server that takes mail behind weir")
				}
			}
		}
	}
	for i, g := range c.SMTP {
		check(fmt.Sprintf("smtp[%d].next_hop", i), g.NextHop.Servers)
	}
	for i, g := range c.Postfix {
		check(fmt.Sprintf("postfix[%d].next_hop", i), g.WithDefaults().NextHop.Servers)
	}
}

// hopAddress is the host and port of a next hop, or empty where it has none.
func hopAddress(server string) string {
	port := ""
	if scheme, rest, found := strings.Cut(server, "://"); found {
		server, port = strings.TrimSuffix(rest, "/"),
			map[string]string{"smtp": "25", "smtps": "465", "lmtp": "24"}[scheme]
	}
	if _, _, err := net.SplitHostPort(server); err != nil {
		server += ":" + port
	}
	if _, _, err := net.SplitHostPort(server); err != nil {
		return ""
	}
	return server
}

// ownNames are names at the top that nobody can register: whole networks are below them (RFC 6762, appendix G, and
// others).
var ownNames = []string{"corp", "home", "internal", "intranet", "lan", "local", "localdomain", "localhost", "private",
	"test"}

// internals finds internal domains that belong to everybody.
func (f *findings) internals(c *Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		if c.Throttles[name].Mail == nil {
			continue
		}
		for i, domain := range c.Throttles[name].Mail.Internal {
			if base, below := strings.CutPrefix(domain, "."); below && base != "" && !strings.Contains(base, ".") &&
				!slices.Contains(ownNames, strings.ToLower(base)) {
				f.add(fmt.Sprintf("throttles.%s.mail.internal[%d]", name, i),
					fmt.Sprintf("everything below %q is not yours: mail to all of it would not be counted", domain),
					fmt.Sprintf("write example%s, or .example%s for everything below it too", domain, domain))
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
