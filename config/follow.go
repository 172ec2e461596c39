package config

import (
	"fmt"
	"slices"

	"weir/internal/yamltree"
)

// follows reports whether a mistake may be there only because of one that the decoder has reported: one mistake is
// told once.
func (d *decoder) follows(p target) bool {
	if slices.ContainsFunc(p.nodes, func(n *yamltree.Node) bool { return d.failed[n] }) {
		return true
	}
	// A key that nobody knows may have been meant for what is missing beside it. A value that could not be read is
	// missing for what is said about the whole.
	last := p.nodes[len(p.nodes)-1]
	return last.Kind == yamltree.Mapping && (d.strange[last] || p.exact && d.failedBelow(last))
}

// failedBelow reports whether the value of a key could not be read.
func (d *decoder) failedBelow(n *yamltree.Node) bool {
	return slices.ContainsFunc(n.Pairs, func(p yamltree.Pair) bool { return d.failed[p.Value] })
}

// unsureThrottles returns the paths at which a throttle is named about which the decoder has reported something. No
// list is to blame for a throttle that could not be read.
func (d *decoder) unsureThrottles(root *yamltree.Node, c *Config) map[string]bool {
	all := locate(root, "throttles")
	gone := !all.exact && d.strange[root] || all.exact && d.failed[all.nodes[1]]
	paths := map[string]bool{}
	note := func(path string, names []string) {
		for i, name := range names {
			_, known := c.Throttles[name]
			if !known && gone || known && d.follows(locate(root, "throttles."+name)) {
				paths[fmt.Sprintf("%s[%d]", path, i)] = true
			}
		}
	}
	for _, u := range c.uses() {
		note(u.path, u.Names)
	}
	if c.Bans.Auto != nil {
		note("bans.auto.throttles", c.Bans.Auto.Throttles)
	}
	return paths
}
