package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module writes a module of single files and runs its tests, as make test does.
func module(t *testing.T, files map[string]string) (out string, well bool) {
	t.Helper()
	folder := t.TempDir()
	files["go.mod"] = "module m\n\ngo 1.26.0\n"
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "-vet=off", "-shuffle=on", "./...")
	cmd.Dir = folder
	events, err := cmd.Output()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	var text strings.Builder
	r := newReport(&text)
	r.read(strings.NewReader(string(events)))
	well = r.end(61 * time.Second)
	return text.String(), well
}

// lastLines are what somebody sees who looks at the end of a log only.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// TestFailures: whatever is wrong, its name and its reason are in the last 20 lines, and it fails.
func TestFailures(t *testing.T) {
	const head = "package p\n\nimport \"testing\"\n\n"
	noise := strings.Repeat("\tt.Log(\"noise\")\n", 100)
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"a test": {map[string]string{
			"a/a_test.go": head + "func TestGood(t *testing.T) {}\n\nfunc TestBad(t *testing.T) {\n\tt.Error(\"this is wrong\")\n" +
				noise + "}\n"},
			[]string{"FAILED m/a.TestBad: a_test.go:8: this is wrong", "2 tests in 1 packages took 1:01"}},
		"a part of a test": {map[string]string{
			"a/a_test.go": head + "func TestBad(t *testing.T) {\n\tt.Run(\"part\", func(t *testing.T) { t.Fatal(\"this is wrong\") })\n}\n"},
			[]string{"FAILED m/a.TestBad/part: a_test.go:6: this is wrong"}},
		"a panic": {map[string]string{
			"a/a_test.go": head + "func TestBad(t *testing.T) { panic(\"this is wrong\") }\n"},
			[]string{"FAILED m/a.TestBad: panic: this is wrong"}},
		"a panic beside a test": {map[string]string{
			"a/a_test.go": head + "func TestGood(t *testing.T) {}\n\nfunc TestBad(t *testing.T) {\n\tgo panic(\"this is wrong\")\n" +
				"\tselect {}\n}\n"},
			[]string{"FAILED m/a: panic: this is wrong (in TestBad)"}},
		"the end of a package": {map[string]string{
			"a/a_test.go": "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
				"func TestMain(m *testing.M) { m.Run(); println(\"this is wrong\"); os.Exit(3) }\n\nfunc TestGood(t *testing.T) {}\n"},
			[]string{"FAILED m/a: this is wrong"}},
		"an exit": {map[string]string{
			"a/a_test.go": "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestBad(t *testing.T) { os.Exit(3) }\n"},
			[]string{"FAILED m/a: it ended without a word (in TestBad)"}},
		"what does not compile": {map[string]string{
			"a/a_test.go": head + "func TestBad(t *testing.T) { return 1 }\n", "b/b_test.go": head + "func TestGood(t *testing.T) {}\n"},
			[]string{"FAILED m/a: a/a_test.go:5:37: too many return values", "1 tests in 2 packages"}},
		"very many": {map[string]string{
			"a/a_test.go": head + "func TestBad(t *testing.T) {\n\tfor range 50 {\n\t\tt.Run(\"part\", func(t *testing.T) { t.Fatal(\"wrong\") })\n\t}\n}\n"},
			[]string{"FAILED m/a.TestBad/part: a_test.go:7: wrong", "and 35 more FAILED"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, well := module(t, c.files)
			if well {
				t.Error("it is taken for good")
			}
			for _, want := range c.want {
				if !strings.Contains(lastLines(out), want) {
					t.Errorf("%q is not in the last lines of\n%s", want, out)
				}
			}
		})
	}
}

// TestGood: nothing is said to have failed, and what was skipped is named with its reason.
func TestGood(t *testing.T) {
	out, well := module(t, map[string]string{"a/a_test.go": "package p\n\nimport \"testing\"\n\n" +
		"func TestSkipped(t *testing.T) { t.Skip(\"no nginx\") }\n\nfunc TestGood(t *testing.T) {}\n", "b/b.go": "package p\n"})
	if !well || strings.Contains(out, "FAIL") {
		t.Errorf("it is taken for bad:\n%s", out)
	}
	for _, want := range []string{"1 skipped:", "m/a.TestSkipped: a_test.go:5: no nginx", "2 tests in 2 packages took 1:01", "ok  "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestBoundedOutput: a test that writes without end is cut, and a line that is too long ends with an error.
func TestBoundedOutput(t *testing.T) {
	lines := func(n int) string {
		var events strings.Builder
		for i := range n {
			text, _ := json.Marshal(event{Action: "output", Package: "p", Test: "TestBad", Output: fmt.Sprintln("line", i)})
			events.Write(append(text, '\n'))
		}
		return events.String() + `{"Action":"fail","Package":"p","Test":"TestBad"}` + "\n"
	}
	for _, c := range []struct {
		n, shown int
	}{{mostLines, mostLines}, {mostLines + 1, mostLines}, {10 * mostLines, mostLines}} {
		var text strings.Builder
		r := newReport(&text)
		r.read(strings.NewReader(lines(c.n)))
		if shown := strings.Count(text.String(), "line "); shown != c.shown {
			t.Errorf("of %d lines %d are shown", c.n, shown)
		}
	}
	r := newReport(&strings.Builder{})
	r.read(strings.NewReader("{" + strings.Repeat(" ", mostEvent) + "}\n"))
	if len(r.failures) != 1 || !strings.Contains(r.failures[0].reason, "too long") {
		t.Errorf("a line that is too long: %v", r.failures)
	}
}

// TestReasonOfARace: where it is.
func TestReasonOfARace(t *testing.T) {
	lines := strings.SplitAfter("=== RUN   TestBad\n==================\nWARNING: DATA RACE\n"+
		"Read at 0x00c000012345 by goroutine 8:\n  weir/p.TestBad()\n      weir/p/p_test.go:19 +0xbc\n", "\n")
	if got := reason(lines); got != "WARNING: DATA RACE at weir/p/p_test.go:19" {
		t.Errorf("%q", got)
	}
}
