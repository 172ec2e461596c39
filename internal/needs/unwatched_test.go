package needs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnwatched: a test is left out where the race detector watches it and it runs a second time, and nowhere else.
// Then its name stands in the list of those that do. Where that cannot be written, it fails.
func TestUnwatched(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	for _, c := range []struct{ twice, skipped, failed string }{
		{"", "", ""}, {list, "it runs without the race detector", ""}, {t.TempDir(), "", "nobody would run this test: "},
	} {
		t.Setenv("WEIR_TWICE", c.twice)
		l := &listener{TB: t}
		runs, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			Unwatched(l)
			runs = true
		}()
		<-ended
		if !Watched {
			c.skipped, c.failed = "", ""
		}
		if runs != (c.skipped+c.failed == "") || l.skipped != c.skipped || !strings.HasPrefix(l.failed, c.failed) ||
			(l.failed == "") != (c.failed == "") {
			t.Errorf("WEIR_TWICE=%q, watched %t: runs %t, skipped %q, failed %q", c.twice, Watched, runs, l.skipped, l.failed)
		}
	}
	if text, err := os.ReadFile(list); Watched && (err != nil || string(text) != "TestUnwatched\n") {
		t.Errorf("listed %q, %v", text, err)
	}
}

// TestLeaveOut: a test within another one is run by that one's name, and a second name comes after the first.
func TestLeaveOut(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list")
	for _, name := range []string{"TestOne", "TestTwo/part/of it"} {
		if err := leaveOut(list, name); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(list); string(text) != "TestOne\nTestTwo\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
