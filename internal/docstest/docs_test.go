package docstest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"weir/config"
)

func TestConfigurations(t *testing.T) {
	whole := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			switch {
			case b.is("yaml", ""):
				whole++
				c, err := config.Parse(b.at(), []byte(b.text))
				if err != nil {
					t.Errorf("%s: not a whole, valid configuration (a piece of one is marked `yaml fragment`):\n%v",
						b.at(), err)
				} else if len(c.Warnings) > 0 {
					t.Errorf("%s: %v", b.at(), c.Warnings)
				}
			case b.is("yaml", "fragment"):
				var v any
				if err := yaml.Unmarshal([]byte(b.text), &v); err != nil {
					t.Errorf("%s: %v", b.at(), err)
				}
			case len(b.info) > 0 && b.info[0] == "yaml":
				t.Errorf("%s: yaml is marked with %q; only fragment is known", b.at(), b.info[1:])
			}
		}
	}
	if whole == 0 {
		t.Error("no configuration found")
	}
}

// TestCommands asks weir for help with every command that the docs show: a command, a flag or a word too many that does
// not exist is an error even then.
func TestCommands(t *testing.T) {
	weir := filepath.Join(tools(t), "weir")
	help := func(args []string) error {
		out, err := exec.Command(weir, append(args, "--help")...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%v\n%s", err, out)
		}
		return nil
	}
	for _, wrong := range [][]string{{"serve", "--no-such-flag"}, {"no-such-command"}} {
		if help(wrong) == nil {
			t.Fatalf("weir %s --help succeeds: this test would not notice a mistake", strings.Join(wrong, " "))
		}
	}
	known := map[string]bool{}
	for _, p := range append(pages(t), examples(t)...) {
		for _, b := range p.blocks {
			for _, command := range commands(b) {
				if known[command] {
					continue
				}
				known[command] = true
				args, err := words(command)
				if err != nil {
					t.Errorf("%s: %s: %v", b.at(), command, err)
				} else if err := help(args[1:]); err != nil {
					t.Errorf("%s: %s: %v", b.at(), command, err)
				}
			}
		}
	}
	if len(known) == 0 {
		t.Error("no command found")
	}
}

// examples reads the commands in the comments of the example configurations.
func examples(t *testing.T) (all []page) {
	files, err := filepath.Glob(root + "/examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := parse("examples/"+filepath.Base(f), strings.ReplaceAll(string(text), "#     weir ", "    weir "))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// commands returns the calls of weir in a block, without what stands before and behind them.
func commands(b block) (all []string) {
	for _, l := range strings.Split(b.text, "\n") {
		switch {
		case b.is("console", ""):
			var typed bool
			if l, typed = strings.CutPrefix(l, "$ "); !typed {
				continue
			}
		case !b.is("sh", "") && !b.is("sh", "start") && !b.is("sh", "try"):
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

// TestGo compiles the Go files in the docs as if they stood in the module.
func TestGo(t *testing.T) {
	temp := t.TempDir()
	base, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	var args []string
	where := map[string]string{}
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if !b.is("go", "") {
				continue
			}
			name := fmt.Sprintf("snippet%d", len(args))
			file := filepath.Join(temp, name+".go")
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay.Replace[filepath.Join(base, "internal/docstest", name, "main.go")] = file
			args = append(args, "weir/internal/docstest/"+name)
			where[name] = b.at()
		}
	}
	if len(args) == 0 {
		return // the docs have no Go code, which is no fault
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(temp, "out") + string(filepath.Separator)
	build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-ldflags=-w", "-overlay", list, "-o", out},
		args...)...)
	build.Dir = base
	if text, err := build.CombinedOutput(); err != nil {
		t.Errorf("go build: %v\n%s%v", err, text, where)
	}
}

var link = regexp.MustCompile(`!?\[[^\]]*\]\(([^)\s]+)\)`)

func TestLinks(t *testing.T) {
	all := pages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	for _, p := range all {
		for _, l := range p.prose {
			if strings.HasPrefix(l.text, "    ") {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(l.text, ""), -1) {
				if err := follow(p.path, m[1], anchors); err != nil {
					t.Errorf("%s:%d: %s: %v", p.path, l.number, m[1], err)
				}
			}
		}
	}
}

// follow reports whether a link leads somewhere. Addresses outside the project are not visited.
func follow(from, to string, anchors map[string]map[string]bool) error {
	u, err := url.Parse(to)
	if err != nil {
		return err
	}
	if u.Scheme == "https" {
		return nil
	}
	if u.Scheme != "" || u.Host != "" {
		return fmt.Errorf("only https is linked to")
	}
	target := from
	if u.Path != "" {
		target = path.Join(path.Dir(from), u.Path)
		if _, err := os.Stat(filepath.Join(root, target)); err != nil {
			return fmt.Errorf("there is no %s", target)
		}
	}
	if u.Fragment != "" && !anchors[target][u.Fragment] {
		return fmt.Errorf("%s has no heading #%s", target, u.Fragment)
	}
	return nil
}

var metricName = regexp.MustCompile(`\bweir_(?:throttle|auth|quota|bloom|stamp|capacity|bans|store|http|tcp|api|mail|smtp|postfix|self_service|reach|xdp|rls|bound|reloads|build|traces)[a-z_]*`)

// TestMetrics: the table of metrics is complete, and nothing else is promised anywhere.
func TestMetrics(t *testing.T) {
	files, err := filepath.Glob(root + "/console/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var real []string
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		real = append(real, metricName.FindAllString(string(src), -1)...)
	}
	if len(real) == 0 {
		t.Fatal("no metrics were found in console/: has their form changed?")
	}
	table := map[string]bool{}
	for _, p := range pages(t) {
		for _, l := range p.prose {
			text := l.text
			if p.path == "CHANGELOG.md" && strings.HasPrefix(text, "| `weir_") { // renamed: the old name comes first
				_, text, _ = strings.Cut(text[len("| "):], "|")
			}
			for _, name := range metricName.FindAllString(text, -1) {
				if !slices.Contains(real, name) {
					t.Errorf("%s:%d: there is no metric %s", p.path, l.number, name)
				}
				if p.path == "docs/operations.md" && strings.HasPrefix(l.text, "| `"+name+"`") {
					table[name] = true
				}
			}
		}
	}
	for _, name := range real {
		if !table[name] {
			t.Errorf("docs/operations.md: the table of metrics lacks %s", name)
		}
	}
}

var adrLink = regexp.MustCompile(`\]\((\d{4})-`)

// TestDecisionsNameEachOther: where the status of a decision names another one, because it changes it or is changed by
// it, the status of that one names it as well.
func TestDecisionsNameEachOther(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../docs/adr/[0-9]*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	names := map[string]map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, status, _ := strings.Cut(string(raw), "**Status:**")
		status, _, _ = strings.Cut(status, "\n\n")
		named := map[string]bool{}
		for _, found := range adrLink.FindAllStringSubmatch(status, -1) {
			named[found[1]] = true
		}
		names[filepath.Base(file)[:4]] = named
	}
	for one, named := range names {
		for other := range named {
			if !names[other][one] {
				t.Errorf("the status of %s names %s, which does not name it", one, other)
			}
		}
	}
}
