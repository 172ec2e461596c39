package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/yamltree"
)

// A target is where a path leads to in the tree.
type target struct {
	at    yamltree.Position
	nodes []*yamltree.Node // from the root down
	exact bool             // the path leads to a value; else at is the nearest thing around it
}

// locate follows a path such as throttles.plans.quota.policies[2].limit as far as the tree goes. Keys may contain dots
// and brackets, so at each step the longest key that fits is taken.
func locate(root *yamltree.Node, path string) target {
	p := target{at: root.At, nodes: []*yamltree.Node{root}}
	for n := root; path != ""; {
		next, at, rest := step(n, path)
		if next == nil {
			return p
		}
		p.at = at
		if next.Kind == yamltree.Scalar {
			p.at = next.At
		}
		p.nodes = append(p.nodes, next)
		n, path = next, rest
	}
	p.exact = true
	return p
}

func step(n *yamltree.Node, path string) (next *yamltree.Node, at yamltree.Position, rest string) {
	switch n.Kind {
	case yamltree.Mapping:
		longest := -1
		for _, p := range n.Pairs {
			key := p.Key
			if p.As != "" {
				key = p.As
			}
			after, fits := strings.CutPrefix(path, key)
			// Of two equal keys the first counts, as in the decoder.
			if fits && len(key) > longest && (after == "" || after[0] == '.' || after[0] == '[') {
				longest, next, at, rest = len(key), p.Value, p.At, strings.TrimPrefix(after, ".")
			}
		}
	case yamltree.List:
		index, after, closed := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(index)
		if closed && err == nil && i >= 0 && i < len(n.Items) {
			next, at, rest = n.Items[i], n.Items[i].At, strings.TrimPrefix(after, ".")
		}
	}
	return next, at, rest
}

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
