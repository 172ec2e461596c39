package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strings"

	"weir"
	"weir/gate"
	"weir/gate/rlsgate"
	"weir/gate/smtpgate"
	"weir/internal/readfile"
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

// warnings collects what is allowed but hardly meant.
type warnings []*weir.FieldError

func (w *warnings) add(path, msg, hint string) {
	*w = append(*w, &weir.FieldError{Path: path, Msg: msg, Hint: hint})
}

// mailWarnings returns what is allowed for mail but hardly meant.
func (c *Config) mailWarnings() []*weir.FieldError {
	var warn warnings
	const nobody, add = "only the user is told when they are stopped or flagged",
		"add admin: postmaster@example.org"
	for i, g := range c.SMTP {
		at := fmt.Sprintf("smtp[%d]", i)
		if c.mailThrottleOf(g.Throttles) != "" && g.Command == "" && !c.SelfService.Enabled() {
			warn.add(at, "stopped users cannot do anything about it themselves",
				"add command: weir@mail.example.org to the gate, or self_service: {url: …}")
		}
		if (c.mailThrottleOf(g.Throttles) != "" || c.reachThrottleOf(g.Throttles) != "") && g.Admin == "" {
			warn.add(at+".admin", nobody, add)
		}
		if g.Stamps != nil && g.Stamps.Algorithm == stamp.DLogClassic.String() {
			warn.add(at+".stamps.algorithm", weak,
				"use it to study the document; sha256-k and eqs60 cost what they say")
		}
		if g.Marks && len(c.Postfix) == 0 {
			warn.add(at+".marks", "no policy service here marks mail: everything from networks would be deferred",
				"add one under postfix; or it is on another machine, which must have the same secret")
		}
		if g.Command != "" && g.Hostname != "" && !c.isNear(g) {
			warn.add(at+".command", fmt.Sprintf("%q is in another domain than the gate, %s: do replies to it come here?",
				g.Command, g.Hostname),
				"write weir@"+g.Hostname+", or list the domain under internal of the mail throttle")
		}
	}
	for i, g := range c.Postfix {
		at := fmt.Sprintf("postfix[%d]", i)
		name := c.mailThrottleOf(g.Throttles)
		if name != "" && g.Admin == "" {
			warn.add(at+".admin", nobody, add)
		}
		if g.Command != "" && !c.TakesCommands(g.Command) {
			warn.add(at+".command", fmt.Sprintf("no gate for mail takes replies to %q, so notices do not offer it", g.Command),
				"add command: "+g.Command+" to a gate under smtp, or leave it out")
		}
		if g.Filter != "" && !slices.ContainsFunc(c.SMTP,
			func(s smtpgate.Options) bool { return s.Marks && c.mailThrottleOf(s.Throttles) == name }) {
			warn.add(at+".filter",
				fmt.Sprintf("no gate for mail here takes what Postfix diverts: one with marks: true and the throttle %q", name),
				"add it under smtp; or it is on another machine, which must have the same secret")
		}
	}
	if c.SelfService.Enabled() && len(c.SMTP)+len(c.Postfix) == 0 {
		warn.add("self_service", "there is no gate for mail, and so no held mail of anybody",
			"add one under smtp or postfix, or leave it out")
	}
	c.strayUsers(&warn)
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		if o := c.Throttles[name].Mail; o != nil {
			for i, domain := range o.Internal {
				wider := func(other string) bool { return strings.EqualFold(other, "."+domain) }
				if slices.ContainsFunc(o.Internal, wider) {
					warn.add(fmt.Sprintf("throttles.%s.mail.internal[%d]", name, i),
						fmt.Sprintf("%q is in %q already", domain, "."+domain), "leave it out")
				}
			}
		}
	}
	return warn
}

// TakesCommands reports whether a gate reads messages to an address as commands.
func (c *Config) TakesCommands(address string) bool {
	return slices.ContainsFunc(c.SMTP, func(g smtpgate.Options) bool { return strings.EqualFold(g.Command, address) })
}

// isNear reports whether the command address of a gate is in the domain that the gate is in, or in an internal one.
func (c *Config) isNear(g smtpgate.Options) bool {
	domain := strings.ToLower(g.Command[strings.LastIndexByte(g.Command, '@')+1:])
	home := strings.ToLower(g.Hostname)
	if _, parent, found := strings.Cut(home, "."); found && strings.Contains(parent, ".") {
		home = parent
	}
	if domain == home || strings.HasSuffix(domain, "."+home) {
		return true
	}
	t := c.Throttles[c.mailThrottleOf(g.Throttles)]
	return t.Mail != nil && !t.Mail.Counted("anybody@"+domain)
}

// missingFiles returns the files without which weir would not start.
func (c *Config) missingFiles() []*weir.FieldError {
	var warn warnings
	for i, g := range c.SMTP {
		for _, f := range []struct{ key, path string }{{"cert", g.TLS.Cert}, {"key", g.TLS.Key}} {
			if _, err := readfile.Stat(f.path); f.path != "" && errors.Is(err, fs.ErrNotExist) {
				warn.add(fmt.Sprintf("smtp[%d].tls.%s", i, f.key),
					fmt.Sprintf("there is no file %s: weir would not start", f.path), "put it there before")
			}
		}
	}
	for i, g := range c.HTTP {
		for _, f := range g.Files() {
			if _, err := readfile.Stat(f.Path); errors.Is(err, fs.ErrNotExist) {
				warn.add(fmt.Sprintf("http[%d].%s", i, f.Field),
					fmt.Sprintf("there is no file %s: weir would not start", f.Path), "put it there before")
			}
		}
	}
	for i, g := range c.RLS {
		if g.Config == "" {
			continue
		}
		if _, err := rlsgate.Read(g.Config, g.MergeDomains); err != nil {
			warn.add(fmt.Sprintf("rls[%d].config", i), fmt.Sprintf("%v: weir would not start", err), "")
		}
	}
	return warn
}

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
