package config

import (
	"fmt"
	"slices"

	"weir"
	"weir/throttle/quota"
)

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
