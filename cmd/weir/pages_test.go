package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit/markdown"
	"weir/internal/testkit/needs"
)

// repository is the folder of the module, seen from this one.
const repository = "../.."

// TestCommandsOfPages asks for help with every command that the docs and the examples show: a command, a flag or a word
// too many that does not exist is an error even then.
func TestCommandsOfPages(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	var said strings.Builder
	parser, err := newParser(&terminal{out: &said, err: &said})
	if err != nil {
		t.Fatal(err)
	}
	helped := errors.New("the help was printed")
	parser.Exit = func(int) { panic(helped) }
	help := func(args []string) (err error) {
		defer func() {
			if p := recover(); p != helped && p != nil {
				panic(p)
			}
		}()
		if _, err := parser.Parse(append(args, "--help")); err != nil {
			return err
		}
		return errors.New("no help is printed")
	}
	for _, wrong := range [][]string{{"serve", "--no-such-flag"}, {"no-such-command"}} {
		if help(wrong) == nil {
			t.Fatalf("weir %s --help succeeds: this test would not notice a mistake", strings.Join(wrong, " "))
		}
	}
	pages, err := markdown.Pages(repository)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, p := range append(pages, examples(t)...) {
		for _, b := range p.Blocks {
			for _, command := range commands(b) {
				if known[command] {
					continue
				}
				known[command] = true
				args, err := words(command)
				if err != nil {
					t.Errorf("%s: %s: %v", b.At(), command, err)
				} else if err := help(args[1:]); err != nil {
					t.Errorf("%s: %s: %v", b.At(), command, err)
				}
			}
		}
	}
	if len(known) < 100 {
		t.Errorf("only %d commands found: has their form changed?", len(known))
	}
}

// examples reads the commands in the comments of the example configurations.
func examples(t *testing.T) (all []markdown.Page) {
	files, err := filepath.Glob(repository + "/examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := markdown.Parse("examples/"+filepath.Base(f), strings.ReplaceAll(string(text), "#     weir ", "    weir "))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// commands returns the calls of weir in a block, without what stands before and behind them.
func commands(b markdown.Block) (all []string) {
	for _, l := range strings.Split(b.Text, "\n") {
		switch {
		case b.Is("console", ""):
			var typed bool
			if l, typed = strings.CutPrefix(l, "$ "); !typed {
				continue
			}
		case !b.Is("sh", "") && !b.Is("sh", "start") && !b.Is("sh", "try"):
			return nil
		}
		l = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(l), "sudo "), "bin/")
		if !strings.HasPrefix(l, "weir ") {
			continue
		}
		if end := strings.IndexAny(l, "|>;&#"); end >= 0 {
			l = l[:end]
		}
		all = append(all, strings.TrimSpace(l))
	}
	return all
}

// words splits a command as a shell would, as far as the docs need it.
func words(command string) (all []string, err error) {
	var quote rune
	word, open := "", false
	for _, r := range command {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && r == ' ':
			if open {
				all = append(all, word)
			}
			word, open = "", false
		default:
			word, open = word+string(r), true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is never closed")
	}
	if open {
		all = append(all, word)
	}
	return all, nil
}
