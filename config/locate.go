package config

import (
	"strconv"
	"strings"
)

// A place is where a path leads to in the tree.
type place struct {
	at    position
	nodes []*node // from the root down
	exact bool    // the path leads to a value; else at is the nearest thing around it
}

// locate follows a path such as throttles.plans.quota.policies[2].limit as far as the tree goes. Keys may contain dots
// and brackets, so at each step the longest key that fits is taken.
func locate(root *node, path string) place {
	p := place{at: root.at, nodes: []*node{root}}
	for n := root; path != ""; {
		next, at, rest := step(n, path)
		if next == nil {
			return p
		}
		p.at = at
		if next.kind == scalar {
			p.at = next.at
		}
		p.nodes = append(p.nodes, next)
		n, path = next, rest
	}
	p.exact = true
	return p
}

func step(n *node, path string) (next *node, at position, rest string) {
	switch n.kind {
	case mapping:
		longest := -1
		for _, p := range n.pairs {
			key := p.key
			if p.as != "" {
				key = p.as
			}
			after, fits := strings.CutPrefix(path, key)
			// Of two equal keys the first counts, as in the decoder.
			if fits && len(key) > longest && (after == "" || after[0] == '.' || after[0] == '[') {
				longest, next, at, rest = len(key), p.value, p.at, strings.TrimPrefix(after, ".")
			}
		}
	case list:
		index, after, closed := strings.Cut(strings.TrimPrefix(path, "["), "]")
		i, err := strconv.Atoi(index)
		if closed && err == nil && i >= 0 && i < len(n.items) {
			next, at, rest = n.items[i], n.items[i].at, strings.TrimPrefix(after, ".")
		}
	}
	return next, at, rest
}
