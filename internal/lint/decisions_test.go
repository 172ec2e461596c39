package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var adrLink = regexp.MustCompile(`\]\((\d{4})-`)

// TestDecisionsNameEachOther: where the status of a decision names another one, because it changes it or is changed by
// it, the status of that one names it as well.
func TestDecisionsNameEachOther(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(root + "/docs/adr/[0-9]*.md")
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
