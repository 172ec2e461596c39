package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/farm"
	"weir/farm/redis"
	"weir/gate/rlsgate"
	"weir/throttle/quota"
)

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
