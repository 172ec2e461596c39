package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/needs"
)

// completionCases are what is typed, and some of what a shell has to offer for the last word, or must not.
var completionCases = []struct {
	line      string
	want, not []string
}{
	{"weir que", []string{"queue"}, []string{"list", "serve"}},
	{"weir queue ", []string{"list", "release"}, []string{"serve"}},
	{"weir queue list --st", []string{"--state"}, []string{"--user"}},
	{"weir bench flood --flood ", []string{"many", "few", "both"}, []string{"--json"}},
	{"weir completion ", []string{"bash", "zsh", "fish"}, []string{"serve"}},
	{"weir serve --config ", []string{"here.yaml"}, []string{"--drain"}},
	{"weir check h", []string{"here.yaml"}, []string{"serve"}},
	{"weir man", nil, []string{"man"}},
}

// completionIn writes the script of a shell into a folder with a file to complete.
func completionIn(t *testing.T, name string, script func([]completed) string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for file, text := range map[string]string{name: script(completions(parser(t).Model.Node)), "here.yaml": ""} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func checkCompletion(t *testing.T, shell, line, output string, want, not []string) {
	t.Helper()
	offered := strings.Fields(output)
	for _, w := range want {
		if !slices.Contains(offered, w) {
			t.Errorf("%s: %q does not offer %s, only %q", shell, line, w, offered)
		}
	}
	for _, w := range not {
		if slices.Contains(offered, w) {
			t.Errorf("%s: %q offers %s", shell, line, w)
		}
	}
}

func TestCompletionBash(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	bash := needs.Program(t, "bash", "apt-get install bash")
	folder := completionIn(t, "weir.bash", bashScript)
	for _, c := range append(completionCases, struct {
		line      string
		want, not []string
	}{"weir bench flood --flood = f", []string{"few"}, []string{"many", "--for"}}) {
		words := strings.Split(c.line, " ")
		script := `source ./weir.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir; printf '%s\n' "${COMPREPLY[@]}"`
		cmd := exec.Command(bash, append([]string{"--norc", "-uc", script, "bash"}, words...)...)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		checkCompletion(t, "bash", c.line, string(out), c.want, c.not)
	}
}

func TestCompletionFish(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	fish := needs.Program(t, "fish", "apt-get install fish")
	folder := completionIn(t, "weir.fish", fishScript)
	for _, c := range completionCases {
		cmd := exec.Command(fish, "--no-config", "-c", "source ./weir.fish; complete -C '"+c.line+"'")
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "HOME="+folder)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		words := ""
		for line := range strings.Lines(string(out)) { // the word, a tab and its description
			word, _, _ := strings.Cut(line, "\t")
			words += strings.TrimSpace(word) + "\n"
		}
		checkCompletion(t, "fish", c.line, words, c.want, c.not)
	}
}

// zsh completes on a terminal only. Here its own functions, which do the rest, only say what they were asked to offer:
// the flags and values, and behind the words typed so far the commands.
const zshAsk = `
_arguments() {
	print -rl -- "${@//[=\[]*/}"
	if [[ $* == *'->below'* ]]; then
		if (( $#typed )); then words=($typed); shift typed; state=below; else state=command; fi
	fi
}
_describe() { print -rl -- "${commands[@]%%:*}"; }
compdef() { }
typed=("$@")
source ./_weir
_weir
`

func TestCompletionZsh(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	zsh := needs.Program(t, "zsh", "apt-get install zsh")
	folder := completionIn(t, "_weir", zshScript)
	for _, c := range []struct {
		line      string
		want, not []string
	}{
		{"", []string{"queue", "serve", "--version"}, []string{"list", "man", "--state"}},
		{"queue", []string{"list", "release"}, []string{"--state"}},
		{"queue list", []string{"--state", "--config)--config"}, []string{"--drain", "release"}},
		{"completion", []string{"(bash", "zsh", "fish)"}, []string{"list"}},
	} {
		cmd := exec.Command(zsh, append([]string{"-f", "-c", zshAsk, "zsh"}, strings.Fields(c.line)...)...)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		checkCompletion(t, "zsh", c.line, strings.ReplaceAll(string(out), "*: :", ""), c.want, c.not)
	}
}
