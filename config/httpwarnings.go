package config

import (
	"fmt"
	"iter"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"weir"
	"weir/gate"
	"weir/gate/httpgate"
	"weir/identify"
	"weir/internal/readfile"
	"weir/throttle/quota"
)

// trusting is a gate that takes the word of proxies for where requests came from.
type trusting struct {
	gate.Clients
	at string
}

// trusting returns the gates that trust proxies.
func (c *Config) trusting() (all []trusting) {
	for at, g := range c.clients() {
		if len(g.Proxies) > 0 {
			all = append(all, trusting{g, at})
		}
	}
	return all
}

// TrustedProxies returns the networks of the proxies that some gate trusts.
func (c *Config) TrustedProxies() (all []netip.Prefix) {
	for _, t := range c.trusting() {
		for _, p := range t.Proxies {
			all = append(all, identify.PlainPrefix(p))
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}

// overlap returns the proxy with which a network has addresses in common.
func (t *trusting) overlap(p netip.Prefix) (proxy netip.Prefix, found bool) {
	p = identify.PlainPrefix(p)
	i := slices.IndexFunc(t.Proxies, func(proxy netip.Prefix) bool { return identify.PlainPrefix(proxy).Overlaps(p) })
	if i < 0 {
		return proxy, false
	}
	return t.Proxies[i], true
}

// proxyWarnings finds lists that free a trusted proxy from something. Of each list only the first overlapping network
// is reported, as a list may have thousands.
func (c *Config) proxyWarnings() []*weir.FieldError {
	var warn warnings
	all := c.trusting()
	warnList(&warn, all, "bans.exempt", c.Bans.Exempt)
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		users := usersOf(all, name)
		th, at := c.Throttles[name], "throttles."+name
		if th.Bloom != nil {
			warnList(&warn, users, at+".bloom.exempt", th.Bloom.Exempt)
		}
		if th.Stamp != nil {
			n := th.Stamp.NeverAsk
			warnList(&warn, users, at+".stamp.never_ask.networks", n.Networks)
			for i, b := range n.Bots {
				warnList(&warn, users, fmt.Sprintf("%s.stamp.never_ask.bots[%d].networks", at, i), b.Networks)
			}
		}
		if th.Quota != nil {
			for _, account := range slices.Sorted(maps.Keys(th.Quota.Overrides)) {
				text, address := strings.CutPrefix(account, identify.SourcePrefix)
				addr, err := netip.ParseAddr(text)
				frees := false
				for _, o := range th.Quota.Overrides[account] {
					frees = frees || o.Exempt
				}
				if address && err == nil && frees {
					warnNetwork(&warn, users, at+".quota.overrides", netip.PrefixFrom(addr.WithZone(""), addr.BitLen()))
				}
			}
		}
	}
	return warn
}

// proxiesInFiles does the same for lists of exempt clients in files. Errors in a file are reported when weir starts.
func (c *Config) proxiesInFiles() []*weir.FieldError {
	var warn warnings
	all := c.trusting()
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		users, o := usersOf(all, name), c.Throttles[name].Stamp
		if len(users) == 0 || o == nil {
			continue
		}
		told := ""
		o.NeverAsk.EachListed(readExempt, func(field string, p netip.Prefix) {
			if field != told && warnNetwork(&warn, users, "throttles."+name+".stamp.never_ask."+field, p) {
				told = field
			}
		})
	}
	return warn
}

func readExempt(path string) ([]byte, error) { return readfile.Read(path, identify.MaxExemptFile) }

// usersOf returns the gates whose requests a throttle judges.
func usersOf(all []trusting, throttle string) (users []trusting) {
	for _, t := range all {
		if slices.Contains(t.Throttles, throttle) {
			users = append(users, t)
		}
	}
	return users
}

func warnList(warn *warnings, users []trusting, at string, list []netip.Prefix) {
	for i, p := range list {
		if warnNetwork(warn, users, fmt.Sprintf("%s[%d]", at, i), p) {
			return
		}
	}
}

// warnNetwork warns of a network that contains a trusted proxy, and reports whether it did.
func warnNetwork(warn *warnings, users []trusting, at string, p netip.Prefix) bool {
	if !p.IsValid() {
		return false
	}
	for _, t := range users {
		if proxy, found := t.overlap(p); found {
			warn.add(at, fmt.Sprintf("%s contains addresses of proxies that %s trusts, %s", p, t.at, proxy),
				"leave the proxies out: clients behind them are judged by their own addresses")
			return true
		}
	}
	return false
}

// routeWarnings finds services with limits for a host that a client can get around by naming another one. A gate
// cannot know whether the service behind it looks at the host.
func (c *Config) routeWarnings() []*weir.FieldError {
	var warn warnings
	for i, g := range c.HTTP {
		ways := openWays(g)
		for j, r := range g.Routes {
			own := g.Of(r)
			if len(r.Host) == 0 || r.Redirect != nil || !own.Forwards() {
				continue
			}
			for _, way := range ways {
				lacks := func(name string) bool { return !slices.Contains(way.throttles, name) }
				at := slices.IndexFunc(own.Throttles, lacks)
				if at < 0 || way.upstream != own.Upstream.String() || !below(r.Path, way.path) {
					continue
				}
				warn.add(fmt.Sprintf("http[%d].routes[%d]", i, j),
					fmt.Sprintf("%s leads every other host to the same upstream without the throttle %q", way.name,
						own.Throttles[at]),
					"list it there too, unless the service refuses hosts that it does not know")
			}
		}
	}
	return warn
}

// below reports whether a path is another one, or lies below it.
func below(path, above string) bool {
	path, above = strings.TrimSuffix(path, "/"), strings.TrimSuffix(above, "/")
	return strings.HasPrefix(path+"/", above+"/")
}

// An openWay leads every host to an upstream.
type openWay struct {
	name, path, upstream string
	throttles            []string
}

// openWays returns the ways that every host has: the gate itself, and routes without a host.
func openWays(g httpgate.Options) (all []openWay) {
	if g.Forwards() {
		all = append(all, openWay{"the gate", "/", g.Upstream.String(), g.Throttles})
	}
	for i, r := range g.Routes {
		if own := g.Of(r); len(r.Host) == 0 && r.Redirect == nil && own.Forwards() {
			all = append(all, openWay{fmt.Sprintf("routes[%d]", i), r.Path, own.Upstream.String(), own.Throttles})
		}
	}
	return all
}

// accountWarnings returns gates where a client may name its account in several places, which may disagree.
func (c *Config) accountWarnings() []*weir.FieldError {
	var warn warnings
	for at, g := range c.clients() {
		accounts, err := identify.ParseAccounts(g.Account)
		switch {
		case err != nil || !accounts.Several():
		case g.Conflict == identify.ConflictFirst:
			warn.add(at+".account",
				"a client may name its account in several places: the first counts, and the service behind the gate "+
					"may read another",
				"keep the one place that the service reads")
		default:
			warn.add(at+".account",
				"a client may name its account in several places: a request in which they disagree is refused",
				"keep the one place that the service reads, or list one gate for each")
		}
	}
	return warn
}

// clients returns how each gate tells its clients apart, with the path at which that stands.
func (c *Config) clients() iter.Seq2[string, gate.Clients] {
	return func(yield func(string, gate.Clients) bool) {
		for path, o := range c.Gates() {
			facts := o.Facts()
			for _, clients := range append([]gate.Clients{facts.Clients}, facts.Routes...) {
				at := path
				if clients.Under != "" {
					at += "." + clients.Under
				}
				if !yield(at, clients) {
					return
				}
			}
		}
	}
}

// openDoors finds listeners that other machines can reach and that need no name or password, and those who are believed
// without one.
func (c *Config) openDoors() (all []*weir.FieldError) {
	warn := func(path, listen, msg, hint string) {
		if listen != "" && reachable(listen) {
			all = append(all, &weir.FieldError{Path: path + ".listen",
				Msg: fmt.Sprintf("%s can be reached from outside this machine: %s", listen, msg), Hint: hint})
		}
	}
	for i, g := range c.RLS {
		warn(fmt.Sprintf("rls[%d]", i), g.Listen, "anyone who can reach it can use up the limits of others",
			"listen on 127.0.0.1 or a socket, or let a firewall see to it that only Envoy can connect")
	}
	if c.SelfService.Enabled() {
		warn("self_service", c.SelfService.Listen, "the pages are in plain HTTP, passwords and all",
			"listen on 127.0.0.1:9001, with a web server in front that speaks TLS")
	}
	for i, p := range c.Console.Proxy.From {
		if c.Console.Proxy.Header != "" && p.Addr().Unmap().IsLoopback() {
			all = append(all, &weir.FieldError{Path: fmt.Sprintf("console.proxy.from[%d]", i),
				Msg: fmt.Sprintf("every program on this machine connects from %s, and can claim to be any operator", p),
				Hint: "this is safe where nobody but you and the proxy runs programs here; otherwise run the proxy elsewhere " +
					"and name its address, or leave proxy.header out"})
		}
	}
	return all
}

// reachable reports whether an address to listen on may be reached from outside this machine.
func reachable(listen string) bool {
	if strings.HasPrefix(listen, "unix:") {
		return false
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil || host == "localhost" {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err != nil || !addr.Unmap().IsLoopback()
}

// Connections is how many connections the gates may have open at a time as far as the configuration says so, to clients
// and behind them.
func (c *Config) Connections() (n int) {
	for _, o := range c.Gates() {
		n += o.Facts().Sockets
	}
	return n
}

// authWarnings returns what is allowed for gates that are asked by proxies, but does less there than elsewhere: such a
// gate hears of the beginning of a request, and never of its end.
func (c *Config) authWarnings() []*weir.FieldError {
	var warn warnings
	for at, g := range c.clients() {
		if !g.Asked {
			continue
		}
		for j, name := range g.Throttles {
			at, t := fmt.Sprintf("%s.throttles[%d]", at, j), c.Throttles[name]
			switch {
			case t.Quota != nil && slices.ContainsFunc(t.Quota.Policies,
				func(p quota.Policy) bool { return p.Kind == quota.Concurrent || p.Kind == quota.Volume }):
				warn.add(at,
					fmt.Sprintf("%q limits requests under way or bytes, which a gate that is only asked cannot see",
						name),
					"list it in an HTTP gate, or leave the concurrent and volume policies out")
			case t.Stamp != nil:
				warn.add(at,
					fmt.Sprintf("%q asks for stamps, and a gate that is only asked has no page to ask with: clients that "+
						"should pay are refused", name), "list it in an HTTP gate")
			}
		}
	}
	return warn
}
