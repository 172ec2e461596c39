package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

// completionCases are what is typed, and some of what weir has to offer for the last word, or must not. Where it offers
// nothing, the shell offers files.
var completionCases = []struct {
	line      string
	want, not []string
	files     bool
}{
	{"weir que", []string{"queue"}, []string{"list", "serve"}, false},
	{"weir queue list --st", []string{"--state"}, []string{"--user"}, false},
	{"weir check h", nil, []string{"serve"}, true},
	{"weir queue ", []string{"list", "release"}, []string{"serve"}, false},
	{"weir bench flood --flood ", []string{"many", "few", "both"}, []string{"--json"}, false},
	{"weir completion ", []string{"bash", "zsh", "fish"}, []string{"serve"}, false},
	{"weir serve --config ", nil, []string{"--drain"}, true},
	{"weir man", nil, []string{"man"}, true},
}

// TestCompletion: weir offers what can follow.
func TestCompletion(t *testing.T) {
	for _, c := range append(completionCases[:len(completionCases):len(completionCases)], struct {
		line      string
		want, not []string
		files     bool
	}{"weir bench flood --flood=f", []string{"few"}, []string{"many", "--for"}, false}) {
		t.Setenv(completionVariable, c.line)
		var out, wrong bytes.Buffer
		if code := run(nil, &terminal{out: &out, err: &wrong}); code != exitOK || wrong.Len() > 0 {
			t.Fatalf("%q: %d, %s", c.line, code, wrong.String())
		}
		checkCompletion(t, c.line, out.String(), c.want, c.not)
		if c.files && out.Len() > 0 {
			t.Errorf("%q offers %q and no files", c.line, out.String())
		}
	}
}

func checkCompletion(t *testing.T, line, output string, want, not []string) {
	t.Helper()
	offered := strings.Fields(output)
	for _, w := range want {
		if !slices.Contains(offered, w) {
			t.Errorf("%q does not offer %s, only %q", line, w, offered)
		}
	}
	for _, w := range not {
		if slices.Contains(offered, w) {
			t.Errorf("%q offers %s", line, w)
		}
	}
}

// shells are ways to see what a script in the file "script" offers for the line in $1, where weir is on the path. bash
// and zsh complete on a terminal only: here bash calls what it was told to call, and the functions of zsh say what they
// were asked to offer.
var shells = map[string]string{
	"bash": `source ./script; eval "set -- '$1' $(complete -p weir)"
while [ "$2" != -C ]; do set -- "$1" "${@:3}"; done
found=$(COMP_LINE=$1 COMP_POINT=${#1} "$3"); [ -n "$found" ] || found=$(compgen -f -- "${1##* }"); echo "$found"`,
	"zsh": `compdef() { }
compadd() { print -rl -- "${offered[@]}"; }
_files() { print -rl -- *; }
line=$1; words=("${(@s: :)line}"); CURRENT=$#words
source ./script
_weir`,
	"fish": `source ./script; complete -C $argv[1] | string replace -r '\t.*' ''; true`,
}

// TestCompletionInShells: each shell offers what weir does, or files.
func TestCompletionInShells(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	for shell, ask := range shells {
		program := needs.Program(t, shell, "apt-get install "+shell)
		folder := t.TempDir()
		for file, text := range map[string]string{"script": completionScripts[shell], "here.yaml": ""} {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range completionCases[:3] { // a word, a flag and a file
			args := map[string][]string{"bash": {"--norc", "-c", ask, "bash"}, "zsh": {"-f", "-c", ask, "zsh"},
				"fish": {"--no-config", "-c", ask}}[shell]
			cmd := exec.Command(program, append(args, c.line)...)
			cmd.Dir, cmd.Env = folder, append(os.Environ(), "HOME="+folder)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %q: %v\n%s", shell, c.line, err, out)
			}
			want := c.want
			if c.files {
				want = []string{"here.yaml"}
			}
			checkCompletion(t, shell+": "+c.line, string(out), want, c.not)
		}
	}
}
