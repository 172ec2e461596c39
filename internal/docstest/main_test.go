package docstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// programs is the folder of programs that tests share.
var programs string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "weir-docs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = folder
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// buildWeir builds weir once for all tests. Nobody looks into it with a debugger.
var buildWeir = sync.OnceValue(func() error {
	out, err := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-w", "-o", filepath.Join(programs, "weir"),
		"weir/cmd/weir").CombinedOutput()
	if err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
})

// tools returns a folder that has weir in it.
func tools(t *testing.T) string {
	t.Helper()
	if err := buildWeir(); err != nil {
		t.Fatal(err)
	}
	return programs
}
