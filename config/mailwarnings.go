package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"weir"
	"weir/gate/rlsgate"
	"weir/gate/smtpgate"
	"weir/internal/readfile"
	"weir/throttle/stamp"
)

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
