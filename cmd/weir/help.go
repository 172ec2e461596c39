package main

import (
	"github.com/alecthomas/kong"
)

// group puts the commands of a model under the headings that their tags name, and adds the examples, which can be
// pasted.
func group(model *kong.Node) {
	groups := map[string]*kong.Group{}
	for _, top := range model.Children {
		title := top.Tag.Get("under")
		if title == "" {
			continue
		}
		if groups[title] == nil {
			groups[title] = &kong.Group{Key: title, Title: title + ":"}
		}
		for _, leaf := range leavesOf(top) {
			leaf.Group, leaf.Detail = groups[title], "Example:\n\n    "+leaf.Tag.Get("example")
		}
	}
}

// leavesOf are the commands below a command, or itself.
func leavesOf(node *kong.Node) []*kong.Node {
	if node.Leaf() {
		return []*kong.Node{node}
	}
	return node.Leaves(true)
}
