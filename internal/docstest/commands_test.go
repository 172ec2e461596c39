package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weir/internal/testkit/markdown"
)

var (
	// goCommand is a call of go test or go run, in prose or in a block.
	goCommand = regexp.MustCompile("go (test|run) [^`\n]*")
	// ourPackage is a package in it.
	ourPackage = regexp.MustCompile(`(?:^| )\./([a-z0-9/]+)`)
	// pattern is what it chooses: tests, or benchmarks.
	pattern = regexp.MustCompile(`-(run|bench) (?:'([^']+)'|(\S+))`)
)

// TestGoCommands: where a page says which test shows something, there is such a package, and such a test.
func TestGoCommands(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		if p.Path == "CHANGELOG.md" || strings.HasPrefix(p.Path, "docs/adr/") {
			continue // these tell what was
		}
		lines := p.Prose
		for _, b := range p.Blocks {
			for i, text := range strings.Split(b.Text, "\n") {
				lines = append(lines, markdown.Line{Number: b.Line + i, Text: text})
			}
		}
		for _, l := range lines {
			for _, m := range goCommand.FindAllStringSubmatch(l.Text, -1) {
				where := ourPackage.FindStringSubmatch(m[0])
				if where == nil {
					continue
				}
				found++
				if complaint := goCommandExists(m[1], m[0], where[1]); complaint != "" {
					t.Errorf("%s:%d: %s: %s", p.Path, l.Number, m[0], complaint)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d commands found: has their form changed?", found)
	}
}

// goCommandExists says what is wrong with a command, or nothing.
func goCommandExists(verb, command, dir string) string {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(files) == 0 {
		return "there is no package " + dir
	}
	if verb == "run" {
		return ""
	}
	for _, chosen := range pattern.FindAllStringSubmatch(command, -1) {
		prefix := map[string]string{"run": "Test", "bench": "Benchmark"}[chosen[1]]
		text := chosen[2] + chosen[3]
		if strings.EqualFold(text, "xxx") || text == "." {
			continue // no test, or every benchmark
		}
		want, err := regexp.Compile(text)
		if err != nil {
			return err.Error()
		}
		there := regexp.MustCompile(`(?m)^func (` + prefix + `\w*)\(`)
		matches := func() bool {
			for _, file := range files {
				src, err := os.ReadFile(file)
				if err != nil {
					continue
				}
				for _, f := range there.FindAllSubmatch(src, -1) {
					if want.Match(f[1]) {
						return true
					}
				}
			}
			return false
		}
		if !matches() {
			return "nothing in " + dir + " matches " + text
		}
	}
	return ""
}

var (
	// keyPath is a key of a configuration with what it is below, as prose writes it.
	keyPath = regexp.MustCompile("`((?:bounds|timeouts|capacity|console|self_service|farm|bans|log|holds|delay|retries|health|held|never_ask)\\.[a-z_][a-z_0-9.]*)(?::[^`]*)?`")
	keyRow  = regexp.MustCompile("^\\| `([a-z_0-9]+)` \\|")
	keyHead = regexp.MustCompile("^## `([^`]+)`")
)

// TestKeysExist: a key that a page names is one of the configuration, which docs/configuration.md lists in full.
func TestKeysExist(t *testing.T) {
	raw, err := os.ReadFile(root + "/docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	head := ""
	for l := range strings.Lines(string(raw)) {
		if m := keyHead.FindStringSubmatch(l); m != nil {
			head = strings.NewReplacer("[]", "", "throttles.NAME.", "").Replace(m[1])
		} else if m := keyRow.FindStringSubmatch(l); m != nil {
			// Prose says bounds.body where the reference says http[].bounds, body: any end of the path will do.
			parts := append(strings.Split(head, "."), m[1])
			for i := range parts {
				known[strings.Join(parts[i:], ".")] = true
			}
		}
	}
	found := 0
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.Path, "docs/") || strings.HasPrefix(p.Path, "docs/adr/") {
			continue
		}
		for _, l := range p.Prose {
			for _, m := range keyPath.FindAllStringSubmatch(l.Text, -1) {
				found++
				if !known[m[1]] {
					t.Errorf("%s:%d: there is no key %s: write what the bound is, if it is fixed", p.Path, l.Number, m[1])
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d keys found: has their form changed?", found)
	}
}
