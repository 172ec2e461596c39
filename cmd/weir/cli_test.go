package main

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"weir"
	"weir/internal/testkit/needs"
	"weir/throttle/stamp"
)

// Every flag that counts takes 1e6, every rate takes 60/m, of whatever command. A number of another type would have a
// reader of its own: the only ones are a seed, which is no count, and a factor.
func TestNumbersInFlags(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	parser, err := newParser(&terminal{})
	if err != nil {
		t.Fatal(err)
	}
	counts, rates := 0, 0
	for _, command := range parser.Model.Leaves(false) {
		for _, flag := range command.Flags {
			typ := flag.Target.Type()
			for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
				typ = typ.Elem()
			}
			name := command.Path() + " --" + flag.Name
			read := func(text string) any {
				t.Helper()
				into := reflect.New(flag.Target.Type()).Elem()
				if err := flag.Parse(kong.Scan(text), into); err != nil {
					t.Errorf("%s %s: %v", name, text, err)
					return nil
				}
				for into.Kind() == reflect.Pointer || into.Kind() == reflect.Slice {
					if into.Kind() == reflect.Slice {
						into = into.Index(0)
					} else {
						into = into.Elem()
					}
				}
				return into.Interface()
			}
			switch reflect.Zero(typ).Interface().(type) {
			case int, int64, weir.Number:
				counts++
				if n := read("1e6"); n != reflect.ValueOf(1_000_000).Convert(typ).Interface() {
					t.Errorf("%s: 1e6 is %v", name, n)
				}
			case weir.Rate:
				rates++
				if r := read("60/m"); r != (weir.Rate{Count: 60, Per: time.Minute}) {
					t.Errorf("%s: 60/m is %v", name, r)
				}
			case hashes:
				rates++
				if a, b := read("60M/m"), read("1e6"); a != hashes(1e6) || b != a {
					t.Errorf("%s: 60M/m is %v, 1e6 is %v", name, a, b)
				}
			case weir.Duration, time.Duration, weir.Size, weir.Share: // these have units
			case stamp.Algorithm: // these have names
			default:
				switch typ.Kind() {
				case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint,
					reflect.Uint8, reflect.Uint16, reflect.Uint32,
					reflect.Uint64, reflect.Float32, reflect.Float64:
					if flag.Name != "seed" && flag.Name != "times" {
						t.Errorf("%s is a number of type %s", name, typ)
					}
				}
			}
		}
	}
	if counts < 15 || rates < 8 {
		t.Errorf("%d counts, %d rates", counts, rates)
	}
}

// TestGrammar: a command is the same among all others and without them, and whoever names none gets all of them.
func TestGrammar(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	whole, err := newParser(&terminal{})
	if err != nil {
		t.Fatal(err)
	}
	describe := func(node *kong.Node) (all string) {
		for _, leaf := range node.Leaves(false) {
			all += fmt.Sprintln(leaf.FullPath(), leaf.Help, leaf.Detail, leaf.Group, leaf.Summary())
			for _, flags := range leaf.AllFlags(false) {
				for _, f := range flags {
					all += fmt.Sprintln(f, f.Help, f.Default, f.Enum, f.Envs)
				}
			}
		}
		return all
	}
	for _, command := range whole.Model.Children {
		alone, err := parserFor(grammar([]string{command.Name, "--and-more"}), &terminal{})
		if err != nil {
			t.Fatal(err)
		}
		n := len(alone.Model.Children)
		if all := command.Name == "man"; n != 1 && !all || n == 1 && all {
			t.Errorf("%s is one of %d commands", command.Name, n)
		}
		if got, want := describe(find(alone.Model.Node, []string{command.Name})), describe(command); got != want {
			t.Errorf("%s is\n%s\namong all others\n%s", command.Name, got, want)
		}
	}
	for _, args := range [][]string{nil, {"--help"}, {"--version"}, {"serv"}, {""}, {"ShowVersion"}, {"showversion"}} {
		if _, all := grammar(args).(*cli); !all {
			t.Errorf("%q: not all commands", args)
		}
	}
}
