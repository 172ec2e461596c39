package needs

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Module builds the program of a module of its own, which lies in a folder of this one because it needs modules that
// weir does not, and returns its path. Where these cannot be had the test is skipped. A program that does not compile
// fails the test.
func Module(t testing.TB, folder string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), filepath.Base(folder))
	// Without what only debuggers read, it is linked in half the time.
	if out, err := goIn(folder, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "."); err != nil {
		if lacking, err := goIn(folder, "list", "-deps", "."); err != nil {
			Skip(t, "the modules for "+filepath.Base(folder)+" cannot be had: "+lacking)
		}
		t.Fatal("go build: ", err, "\n", out)
	}
	return program
}

func goIn(folder string, args ...string) (out string, err error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = folder
	text, err := cmd.CombinedOutput()
	return string(text), err
}
