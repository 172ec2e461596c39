package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Run prints a script that knows all commands and flags: nothing is started while somebody presses a key.
func (c *completionCommand) Run(t *terminal, parser *kong.Kong) error {
	script := map[string]func([]completed) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[c.Shell]
	_, err := t.out.Write([]byte(script(completions(parser.Model.Node))))
	return err
}

// completed is what a shell can complete behind one command.
type completed struct {
	path  string // the command, such as "queue list"; "" for weir alone
	below []completedWord
	flags []completedFlag
	args  completedValue
}

type completedWord struct{ name, help string }

type completedFlag struct {
	long, short string // with their dashes
	help        string
	takes       bool // a value
	value       completedValue
}

// completedValue is what an argument or the value of a flag may be.
type completedValue struct {
	any   bool // there may be one
	files bool
	words []string
}

// completions walks the commands, each before those below it.
func completions(node *kong.Node) []completed {
	c := completed{path: strings.TrimSpace(strings.TrimPrefix(node.Path(), "weir"))}
	for _, below := range node.Children {
		if !below.Hidden {
			c.below = append(c.below, completedWord{below.Name, brief(below.Help)})
		}
	}
	for _, flag := range slices.Concat(node.AllFlags(true)...) {
		f := completedFlag{long: "--" + flag.Name, help: brief(flag.Help), takes: !flag.IsBool(),
			value: valueOf(flag.Value)}
		if flag.Short != 0 {
			f.short = "-" + string(flag.Short)
		}
		c.flags = append(c.flags, f)
	}
	for _, arg := range node.Positional {
		v := valueOf(arg)
		c.args.any, c.args.files = true, c.args.files || v.files
		c.args.words = append(c.args.words, v.words...)
	}
	all := []completed{c}
	for _, below := range node.Children {
		if !below.Hidden {
			all = append(all, completions(below)...)
		}
	}
	return all
}

func valueOf(v *kong.Value) completedValue {
	of := completedValue{any: true}
	if v.Enum != "" {
		of.words = slices.DeleteFunc(v.EnumSlice(), func(word string) bool { return word == "" })
	}
	name := v.Name
	if v.Flag != nil {
		name = strings.ToLower(v.Flag.PlaceHolder)
	}
	of.files = slices.ContainsFunc(strings.Split(name, "|"), func(kind string) bool {
		return kind == "file" || kind == "path" || kind == "folder"
	})
	return of
}

// brief is the first sentence of a help text, without its dot. Shells show it beside a word.
func brief(help string) string {
	first, _, _ := strings.Cut(help, ". ")
	first, _, _ = strings.Cut(first, ": ")
	return strings.TrimSuffix(first, ".")
}

// descents are the steps from one command to those below it, as "path|word".
func descents(all []completed) (steps [][2]string) {
	for _, c := range all {
		for _, w := range c.below {
			steps = append(steps, [2]string{c.path + "|" + w.name, strings.TrimSpace(c.path + " " + w.name)})
		}
	}
	return steps
}

// shellQuote quotes a text for bash and zsh.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
