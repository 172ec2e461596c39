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
	grouped := map[string]string{}
	for _, g := range helpGroups() {
		for _, c := range g.commands {
			if _, twice := grouped[c.command]; twice {
				t.Errorf("%s stands in the help twice", c.command)
			}
			grouped[c.command] = c.example
		}
	}
	commands := parser(t)
	for _, leaf := range commands.Model.Leaves(true) {
		example, ok := grouped[leaf.Path()]
		if !ok {
			t.Errorf("weir %s has no place in helpGroups", leaf.Path())
			continue
		}
		delete(grouped, leaf.Path())
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
	for command := range grouped {
		t.Errorf("helpGroups has %s, which is no command", command)
	}
}

// The help of a command ends nowhere without its example.
func TestHelpShowsExamples(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	model := parser(t).Model.Node
	for _, g := range helpGroups() {
		for _, c := range g.commands {
			node := find(model, strings.Fields(c.command))
			if node == nil || !strings.Contains(node.Detail, c.example) || node.Group.Title != g.title+":" {
				t.Errorf("weir %s shows no example, or stands elsewhere", c.command)
			}
		}
	}
	if find(model, []string{"queue", "lost"}) != nil || !slices.ContainsFunc(model.Children, (*kong.Node).Leaf) {
		t.Error("commands are found that do not exist")
	}
}
