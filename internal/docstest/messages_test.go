package docstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// varies is what a message fills in: the docs write an ellipsis, or a name as an example.
var varies = regexp.MustCompile(`…|\beth0\b`)

// TestMessages: every message that the docs explain is one that weir has. What does not vary in it must stand in one line of
// the source.
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
	code := strings.ReplaceAll(source.String(), `\"`, `"`)
	found := 0
	for _, p := range pages(t) {
		inside := false
		for _, l := range p.prose {
			switch {
			case strings.HasPrefix(l.text, "| message |"):
				inside = true
				continue
			case !strings.HasPrefix(l.text, "|"):
				inside = false
			}
			if !inside || strings.HasPrefix(l.text, "|---") {
				continue
			}
			first := strings.Split(l.text, " | ")[0]
			for _, quoted := range inlineCode.FindAllString(first, -1) {
				found++
				var parts []string
				for _, part := range varies.Split(strings.Trim(quoted, "`"), -1) {
					parts = append(parts, regexp.QuoteMeta(strings.Trim(part, ` ",`)))
				}
				if !regexp.MustCompile(strings.Join(parts, `[^\n]{0,80}?`)).MatchString(code) {
					t.Errorf("%s:%d: weir has no message like %s", p.path, l.number, quoted)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d messages found: has the form of the tables changed?", found)
	}
}
