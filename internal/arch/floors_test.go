package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// TestFloorsAreDocumented: the table in docs/architecture.md has the floors of this test, and every package on them.
func TestFloorsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d) \\| `([a-z0-9/]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		told[m[2]], _ = strconv.Atoi(m[1])
	}
	for _, p := range packages(t) {
		floor, known := floorOf(p.path)
		at, is := told[p.path]
		switch {
		case !known || floor == exempt:
		case !is:
			t.Errorf("docs/architecture.md does not have %s on floor %d", p.path, floor)
		case at != floor:
			t.Errorf("docs/architecture.md has %s on floor %d, and it stands on %d", p.path, at, floor)
		}
		delete(told, p.path)
	}
	for name := range told {
		t.Errorf("docs/architecture.md has %s, which does not exist", name)
	}
}
