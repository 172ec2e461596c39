package config

import (
	"fmt"
	"slices"
	"strings"

	"weir"
	"weir/gate/httpgate"
)

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
