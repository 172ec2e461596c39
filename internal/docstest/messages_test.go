package docstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit/markdown"
)

// varies is what a message fills in: the docs write an ellipsis, or a name as an example.
var varies = regexp.MustCompile(`…|\beth0\b`)

// TestMessages: every message that the docs explain is one that weir has. What does not vary in it must stand in one
// line of the source.
func TestMessages(t *testing.T) {
	var source strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		source.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	code := strings.Split(strings.ReplaceAll(source.String(), `\"`, `"`), "\n")
	found := 0
	for _, p := range pages(t) {
		inside := false
		for _, l := range p.Prose {
			switch {
			case strings.HasPrefix(l.Text, "| message |"):
				inside = true
				continue
			case !strings.HasPrefix(l.Text, "|"):
				inside = false
			}
			if !inside || strings.HasPrefix(l.Text, "|---") {
				continue
			}
			first := strings.Split(l.Text, " | ")[0]
			for _, quoted := range markdown.InlineCode.FindAllString(first, -1) {
				found++
				var parts []string
				longest := ""
				for _, part := range varies.Split(strings.Trim(quoted, "`"), -1) {
					part = strings.Trim(part, ` ",`)
					parts = append(parts, regexp.QuoteMeta(part))
					if len(part) > len(longest) {
						longest = part
					}
				}
				whole := regexp.MustCompile(strings.Join(parts, `.{0,80}?`))
				// Few lines have the longest part; to search all of them for the whole takes long.
				if !slices.ContainsFunc(code,
					func(line string) bool { return strings.Contains(line, longest) && whole.MatchString(line) }) {
					t.Errorf("%s:%d: weir has no message like %s", p.Path, l.Number, quoted)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d messages found: has the form of the tables changed?", found)
	}
}
