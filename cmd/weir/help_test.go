package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"weir/internal/testkit/needs"
)

func parser(t *testing.T) *kong.Kong {
	t.Helper()
	var out bytes.Buffer
	p, err := newParser(&terminal{out: &out, err: &out})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every command stands under one heading, with an example of that very command which weir understands.
func TestHelpGroups(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	commands := parser(t)
	for _, leaf := range commands.Model.Leaves(true) {
		example := leaf.Tag.Get("example")
		if example == "" || leaf.Group == nil || !strings.HasSuffix(leaf.Detail, example) {
			t.Errorf("weir %s has no example, or no heading", leaf.Path())
			continue
		}
		command, _, _ := strings.Cut(example, " >")
		args := strings.Fields(strings.ReplaceAll(command, "'password stolen'", "stolen"))
		if args[0] != "weir" {
			t.Errorf("%s: the example does not call weir", example)
		}
		parsed, err := commands.Parse(args[1:])
		if err != nil {
			t.Errorf("%s: %v", example, err)
		} else if at := parsed.Selected().Path(); at != leaf.Path() {
			t.Errorf("%s: an example of %s", example, at)
		}
	}
}

// find returns the node of a command, or nil.
func find(node *kong.Node, path []string) *kong.Node {
	for _, name := range path {
		i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == name })
		if i < 0 {
			return nil
		}
		node = node.Children[i]
	}
	return node
}
