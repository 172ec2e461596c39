package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"weir"
	"weir/gate"
	"weir/identify"
	"weir/internal/readfile"
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
