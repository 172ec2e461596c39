package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuaranteesAreHeld: every test that the page of guarantees names exists, and every row of its tables names one.
// A test is named with its folder, or like the one before it in the row.
func TestGuaranteesAreHeld(t *testing.T) {
	root := "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs/guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{} // the text of all tests in a folder
	in := func(folder string) string {
		if _, known := tests[folder]; !known {
			files, _ := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				tests[folder] += string(b)
			}
		}
		return tests[folder]
	}
	name := regexp.MustCompile("`(?:([a-z0-9/]+)\\.)?(Test[A-Za-z0-9]+)`")
	found := 0
	for i, line := range strings.Split(string(text), "\n") {
		folder, named := "", 0
		for _, m := range name.FindAllStringSubmatch(line, -1) {
			if m[1] != "" {
				folder = m[1]
			}
			named++
			if !strings.Contains(in(folder), "func "+m[2]+"(t *testing.T)") {
				t.Errorf("docs/guarantees.md:%d: there is no test %s in %q", i+1, m[2], folder)
			}
		}
		heads := strings.Contains(line, "---") || strings.Contains(line, "| test |")
		if strings.HasPrefix(line, "|") && !heads && named == 0 {
			t.Errorf("docs/guarantees.md:%d: no test holds this", i+1)
		}
		found += named
	}
	if found < 20 {
		t.Errorf("%d tests are named", found)
	}
}
