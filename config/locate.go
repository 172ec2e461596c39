package config

import (
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
