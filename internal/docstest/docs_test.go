package docstest

import (
	"encoding/json"
	"errors"
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
	"weir/internal/testkit/markdown"
)

func TestConfigurations(t *testing.T) {
	whole := 0
	for _, p := range pages(t) {
		for _, b := range p.Blocks {
			switch {
			case b.Is("yaml", ""):
				whole++
				c, err := config.Parse(b.At(), []byte(b.Text))
				if err != nil {
					t.Errorf("%s: not a whole, valid configuration (a piece of one is marked `yaml fragment`):\n%v",
						b.At(), err)
				} else if len(c.Warnings) > 0 {
					t.Errorf("%s: %v", b.At(), c.Warnings)
				}
			case b.Is("yaml", "fragment"):
				var v any
				if err := yaml.Unmarshal([]byte(b.Text), &v); err != nil {
					t.Errorf("%s: %v", b.At(), err)
				}
			case len(b.Info) > 0 && b.Info[0] == "yaml":
				t.Errorf("%s: yaml is marked with %q; only fragment is known", b.At(), b.Info[1:])
			}
		}
	}
	if whole == 0 {
		t.Error("no configuration found")
	}
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
		for _, b := range p.Blocks {
			if !b.Is("go", "") {
				continue
			}
			name := fmt.Sprintf("snippet%d", len(args))
			file := filepath.Join(temp, name+".go")
			if err := os.WriteFile(file, []byte(b.Text), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay.Replace[filepath.Join(base, "internal/docstest", name, "main.go")] = file
			args = append(args, "weir/internal/docstest/"+name)
			where[name] = b.At()
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
	// This compiles and does not link, which takes most of the time of a build.
	build := exec.Command("go", append([]string{"list", "-buildvcs=false", "-export", "-overlay", list}, args...)...)
	build.Dir = base
	if text, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s%v", err, text, where)
	}
}

var link = regexp.MustCompile(`!?\[[^\]]*\]\(([^)\s]+)\)`)

func TestLinks(t *testing.T) {
	all := pages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.Path] = p.Anchors()
	}
	for _, p := range all {
		for _, l := range p.Prose {
			if strings.HasPrefix(l.Text, "    ") {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(markdown.InlineCode.ReplaceAllString(l.Text, ""), -1) {
				if err := follow(p.Path, m[1], anchors); err != nil {
					t.Errorf("%s:%d: %s: %v", p.Path, l.Number, m[1], err)
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
	parts, err2 := filepath.Glob(root + "/throttle/*/*.go") // their figures have tags
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	files = append(files, parts...)
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
		for _, l := range p.Prose {
			text := l.Text
			if p.Path == "CHANGELOG.md" && strings.HasPrefix(text, "| `weir_") { // renamed: the old name comes first
				_, text, _ = strings.Cut(text[len("| "):], "|")
			}
			for _, name := range metricName.FindAllString(text, -1) {
				if !slices.Contains(real, name) {
					t.Errorf("%s:%d: there is no metric %s", p.Path, l.Number, name)
				}
				if p.Path == "docs/operations.md" && strings.HasPrefix(l.Text, "| `"+name+"`") {
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
