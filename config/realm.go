package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"weir/gate"
	"weir/gate/postfixgate"
	"weir/gate/smtpgate"
	"weir/identify"
)

// Realm is the domain of names without one, at all gates for mail; identify.KeepRealm if there is none.
func (c *Config) Realm() string {
	for _, g := range c.realms() {
		if g.realm != "" {
			return g.realm
		}
	}
	return identify.KeepRealm
}

// A gateRealm is what a gate for mail says about its realm.
type gateRealm struct {
	path, realm string
	needed      bool // its users are those of another server, which may know one by several names
}

func (c *Config) realms() (all []gateRealm) {
	for i, g := range c.SMTP {
		all = append(all, gateRealm{fmt.Sprintf("smtp[%d]", i), strings.ToLower(g.Realm), g.Auth == smtpgate.AuthNextHop})
	}
	for i, g := range c.Postfix {
		all = append(all, gateRealm{fmt.Sprintf("postfix[%d]", i), strings.ToLower(g.Realm), true})
	}
	return all
}

// oneRealm wants one realm for all gates, because their users are in one store; and a word about it where another
// server knows the passwords.
func (f *findings) oneRealm(c *Config) {
	all := c.realms()
	named := slices.IndexFunc(all, func(g gateRealm) bool { return g.realm != "" })
	for _, g := range all {
		switch {
		case named < 0 && g.needed:
			f.add(g.path, "the server may know one user as ann, ann@example.org and ann+x, and each would have a credit",
				"add your domain, as in realm: example.org; or realm: keep, if each user can log in under one name only")
		case named >= 0 && g.realm != "" && g.realm != all[named].realm:
			f.add(g.path+".realm", fmt.Sprintf("%q, but %q at %s: one name would be two users", g.realm, all[named].realm,
				all[named].path), "write the same at all gates, or only at one")
		}
	}
}

// nameUsers writes the names of users in the options of a throttle as gates know them.
func (t *Throttle) nameUsers(realm string) {
	all := func(names []string) (users []string) {
		for _, name := range names {
			if user := identify.UserName(name, realm); !slices.Contains(users, user) {
				users = append(users, user)
			}
		}
		return users
	}
	if t.Mail != nil {
		o := *t.Mail
		o.Exempt, o.Users = all(o.Exempt), maps.Clone(o.Users)
		for _, name := range slices.Sorted(maps.Keys(t.Mail.Users)) {
			delete(o.Users, name)
			o.Users[identify.UserName(name, realm)] = t.Mail.Users[name]
		}
		t.Mail = &o
	}
	if t.Reach != nil {
		o := *t.Reach
		o.Exempt = all(o.Exempt)
		t.Reach = &o
	}
}

// NeverSends says why no gate takes mail of a user of this name; empty if one may.
func (c *Config) NeverSends(name string) (msg, hint string) {
	name = strings.TrimSpace(name)
	if user, ok := identify.ParseAddressUser(name); ok {
		from, _, _ := strings.Cut(user, "/")
		switch addr, err := netip.ParseAddr(name); {
		case err == nil && identify.Plain(addr).String() != user:
			return fmt.Sprintf("nobody sends as %s: clients that do not log in are known by their networks", name),
				fmt.Sprintf("write %q", user)
		case !c.takesFrom(netip.MustParseAddr(from)):
			return fmt.Sprintf("no gate takes mail from %s without a login", name),
				"list its network under networks of a gate"
		}
		return "", ""
	}
	user := identify.LogInName(name, c.Realm())
	switch _, err := netip.ParsePrefix(name); {
	case err == nil:
		return fmt.Sprintf("nobody sends as %s: clients are known by their address, and of IPv6 by their /64", name),
			"list each of them"
	case strings.HasPrefix(user, "@"), strings.Contains(user, "*"):
		return fmt.Sprintf("%q is not the name of a user, and there are no wildcards", name), "write ann@example.org"
	case !c.logsIn():
		return fmt.Sprintf("nobody logs in as %s: the gates know clients by their address only", name),
			"write the address of a client, or let users log in (auth)"
	}
	return "", ""
}

// takesFrom reports whether a gate takes mail from an address without a login.
func (c *Config) takesFrom(addr netip.Addr) bool {
	in := func(all []netip.Prefix) bool {
		return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(addr) })
	}
	return slices.ContainsFunc(c.SMTP, func(g smtpgate.Options) bool { return !g.Marks && in(g.Networks) }) ||
		slices.ContainsFunc(c.Postfix, func(g postfixgate.Options) bool { return in(g.Networks) })
}

// logsIn reports whether there is a gate at which users log in, or to which their mail is diverted.
func (c *Config) logsIn() bool {
	return len(c.Postfix) > 0 ||
		slices.ContainsFunc(c.SMTP, func(g smtpgate.Options) bool { return g.Auth != smtpgate.AuthNone || g.Marks })
}

// strayUsers finds names of users in throttles that no user has, and users that are there twice.
func (c *Config) strayUsers(warn *warnings) {
	if len(c.SMTP)+len(c.Postfix) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		seen := map[string]string{}
		look := func(path, user string) {
			if msg, hint := c.NeverSends(user); msg != "" {
				warn.add(path, msg, hint)
			}
			known := identify.UserName(user, c.Realm())
			if other, twice := seen[known]; twice {
				warn.add(path, fmt.Sprintf("%s and %s are one user, %s", user, other, known), "leave one of them out")
			}
			seen[known] = cmp.Or(seen[known], user)
		}
		list := func(path string, users []string) {
			clear(seen)
			for i, user := range users {
				look(fmt.Sprintf("%s[%d]", path, i), user)
			}
		}
		t := c.Throttles[name]
		if t.Mail != nil {
			list(fmt.Sprintf("throttles.%s.mail.exempt", name), t.Mail.Exempt)
			clear(seen)
			for _, user := range slices.Sorted(maps.Keys(t.Mail.Users)) {
				look(fmt.Sprintf("throttles.%s.mail.users.%s", name, user), user)
			}
		}
		// Who asks the API has users of its own.
		if t.Reach != nil && !slices.ContainsFunc(c.uses(), func(u use) bool {
			return u.Judges == gate.Questions && slices.Contains(u.Names, name)
		}) {
			list(fmt.Sprintf("throttles.%s.reach.exempt", name), t.Reach.Exempt)
		}
	}
}
