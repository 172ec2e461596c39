package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"weir"
	"weir/farm"
	"weir/farm/redis"
	"weir/gate/rlsgate"
	"weir/identify"
	"weir/identify/country"
	"weir/throttle/bloom"
	"weir/throttle/quota"
)

// keyOf is the key of a throttle; it has no parts where the throttle is no quota, or its key cannot be read.
func keyOf(t Throttle) (key identify.Key) {
	if t.Quota != nil {
		key, _ = identify.ParseKey(t.Quota.Key)
	}
	return key
}

// everyGate are the parts of keys that every gate knows.
var everyGate = []string{"account", "network", "country"}

// keys checks that gates know what throttles count by, and agree on where answers say what requests cost.
func (f *findings) keys(c *Config) {
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		key := keyOf(c.Throttles[name])
		if i := slices.Index(key.Words(), "country"); i >= 0 && c.Countries == "" {
			f.add(fmt.Sprintf("throttles.%s.quota.key[%d]", name, i), "no file says which country an address is in",
				"write countries: /usr/share/GeoIP/GeoLite2-Country.mmdb beside throttles")
		}
	}
	for _, u := range c.uses() {
		header, by := "", ""
		for j, name := range u.Names {
			at := fmt.Sprintf("%s[%d]", u.path, j)
			t := c.Throttles[name]
			key := keyOf(t)
			for i, word := range key.Words() {
				if !slices.Contains(everyGate, word) && !slices.Contains(u.Parts, word) {
					f.add(at, fmt.Sprintf("the throttle %q counts by %s, which is not known here", name, t.Quota.Key[i]),
						missingPart(word, len(u.Parts) > 0))
				}
			}
			switch {
			case t.Quota == nil || t.Quota.Cost.Header == "":
			case header == "":
				header, by = t.Quota.Cost.Header, name
			case !strings.EqualFold(header, t.Quota.Cost.Header):
				f.add(at, fmt.Sprintf("%q takes the cost of a request from %s, and %q from %s", name,
					t.Quota.Cost.Header, by, header), "one header says it for all throttles of a list")
			}
		}
	}
}

// missingPart is a hint: where a part can be found.
func missingPart(word string, http bool) string {
	switch {
	case word == "jwt" && http:
		return "write jwt: {…} in an HTTP gate: only there tokens are verified"
	case word == "cert" && http:
		return "write tls: {client_ca: …} in an HTTP gate: only there clients are asked for a certificate"
	}
	return "list it in a gate for HTTP, Envoy or the decision API"
}

// tokens finds gates that check tokens which nobody uses.
func (f *findings) tokens(c *Config) {
	for i, g := range c.HTTP {
		if g.JWT == nil || g.JWT.Plan != "" {
			continue
		}
		at := fmt.Sprintf("http[%d]", i)
		accounts, _ := identify.ParseAccounts(g.Account)
		used := len(accounts.Claims()) > 0
		for _, u := range c.uses() {
			for _, name := range u.Names {
				key := keyOf(c.Throttles[name])
				used = used || strings.HasPrefix(u.path, at+".") && key.Has("jwt")
			}
		}
		if !used {
			f.add(at+".jwt", "tokens are checked, but not used",
				"write account: [jwt:sub], or plan: plan, or a quota with key: [jwt:org]")
		}
	}
}

// brokenFiles finds files that cannot be read.
func (c *Config) brokenFiles() []*weir.FieldError {
	var warn warnings
	if c.Countries != "" {
		if _, err := country.Open(c.Countries); err != nil {
			warn.add("countries", err.Error(), "write the path of a file like GeoLite2-Country.mmdb, or leave it out")
		}
	}
	return warn
}

// keyWarnings finds limits that clients can get around by making values up.
func (c *Config) keyWarnings() []*weir.FieldError {
	var warn warnings
	warned := map[string]bool{}
	for path, o := range c.Gates() {
		facts := o.Facts()
		if len(facts.Clients.Throttles) == 0 {
			continue // who asks says what it knows
		}
		bounded := false
		for _, l := range facts.Lists {
			for _, name := range l.Names {
				t := c.Throttles[name]
				key := keyOf(t)
				bounded = bounded || t.Bloom != nil || t.Quota != nil && key.Free() == ""
			}
		}
		if bounded {
			continue
		}
		for _, name := range facts.Clients.Throttles {
			key := keyOf(c.Throttles[name])
			if free := key.Free(); free != "" && !warned[name] {
				warned[name] = true
				warn.add("throttles."+name+".quota.key",
					fmt.Sprintf("a client that makes up values for %s gets a new limit with each of them, and nothing else "+
						"bounds it at the gate %s", free, path),
					"list a throttle beside it that does not count by that: a quota without a key, or a bloom")
			}
		}
	}
	return warn
}

// burstWarnings finds Bloom limiters that ordinary visitors drain.
func (c *Config) burstWarnings() []*weir.FieldError {
	var warn warnings
	look := func(at string, o *bloom.Options) {
		if ample := o.AmpleBurst(); ample != 0 {
			warn.add(at+".bloom.burst", fmt.Sprintf("a few visits use up a burst of %d: networks that keep to their limit "+
				"refuse each other", o.WithDefaults().Burst), fmt.Sprintf("at least %d, or a smaller k", ample))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		if o := c.Throttles[name].Bloom; o != nil {
			look("throttles."+name, o)
		}
	}
	for i := range c.XDP {
		look(fmt.Sprintf("xdp[%d]", i), &c.XDP[i].Bloom)
	}
	return warn
}

// costWarnings finds costs that hold clients back less than they seem to.
func (c *Config) costWarnings() []*weir.FieldError {
	var warn warnings
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		o := c.Throttles[name].Quota
		if o == nil || o.Cost.Header == "" {
			continue
		}
		full := o.WithDefaults()
		at := "throttles." + name + ".quota."
		if full.Cost.Unanswered == 0 {
			warn.add(at+"cost.unanswered", "a client that leaves before the answer comes is charged what the rules say, "+
				"however much work it has made", "write unanswered: with what such a request costs, or 1 if that is right")
		}
		for i, p := range full.Policies {
			if p.Kind == quota.Requests && p.Window != quota.GCRA && int64(full.Cost.Max) > p.Limit.N {
				warn.add(fmt.Sprintf("%spolicies[%d].limit", at, i),
					fmt.Sprintf("one answer may cost %d, and what is over the limit is forgotten when the period ends",
						full.Cost.Max), "write window: gcra, which has it paid off, or a lower cost.max")
			}
		}
	}
	for _, u := range c.uses() {
		for j, name := range u.Names {
			if o := c.Throttles[name].Quota; o != nil && o.Cost.Header != "" && !u.Answers {
				warn.add(fmt.Sprintf("%s[%d]", u.path, j), fmt.Sprintf("the throttle %q takes the cost of a request from its "+
					"answer, which is not seen here: requests cost what the rules say", name), "list it in an HTTP gate")
			}
		}
	}
	return warn
}

// counters checks the engine in which exact limits are counted, and that there is one where a policy wants it.
func (f *findings) counters(c *Config) {
	if c.Farm != nil && c.Farm.Counters != "" {
		where, err := redis.Where(c.Farm.Counters)
		switch {
		case err != nil:
			msg, hint, _ := strings.Cut(err.Error(), "; ")
			f.add("farm.counters", msg, hint)
		case c.Farm.CountersTLS != (farm.TLS{}) && !strings.HasPrefix(where, "rediss"):
			f.add("farm.counters_tls", "the connection to the engine is not encrypted",
				"write rediss:// instead of redis:// in counters")
		}
	}
	for i, g := range c.RLS {
		if g.Farm == rlsgate.FarmExact {
			f.engine(c, fmt.Sprintf("rls[%d].farm", i), "local")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Throttles)) {
		o := c.Throttles[name].Quota
		if o == nil {
			continue
		}
		for i, p := range o.Policies {
			if p.Farm == quota.FarmExact {
				f.engine(c, fmt.Sprintf("throttles.%s.quota.policies[%d].farm", name, i), "broadcast")
			}
		}
	}
}

// engine checks that there is an engine for what is counted exactly. instead is how it could be counted without one.
func (f *findings) engine(c *Config, at, instead string) {
	switch {
	case c.Farm == nil:
		f.add(at, "exact is for the nodes of a farm, and this weir is alone: all that it counts is exact",
			"leave it out, or add farm: with peers, secret and counters: redis://127.0.0.1:6379")
	case c.Farm.Counters == "":
		f.add(at, "exact limits are counted in an engine, and none is named",
			"add farm.counters: redis://127.0.0.1:6379, or write farm: "+instead)
	}
}

// inURL finds what stands before the host in a URL.
var inURL = regexp.MustCompile(`[a-z]://\S*@`)

var reference = regexp.MustCompile(`^\$\{[^{}]*\}$`)

// withoutPasswords replaces the passwords of URLs in a line, letter by letter, as messages point into it.
func withoutPasswords(line string) string {
	return inURL.ReplaceAllStringFunc(line, func(found string) string {
		head := strings.Index(found, "://") + 3
		who := strings.TrimSuffix(found[head:], "@")
		user, password, ok := strings.Cut(who, ":")
		if !ok || reference.MatchString(password) {
			return found
		}
		return found[:head] + user + ":" + strings.Repeat("*", utf8.RuneCountInString(password)) + "@"
	})
}
