package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutputThatIsLost: a command whose output cannot be written fails, and a token that nobody has seen is none.
func TestOutputThatIsLost(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	unread, closed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	unread.Close()
	m := startManaged(t, "")
	file := filepath.Join(m.folder, "weir.yaml")
	fails := func(out *os.File, want string, args ...string) {
		t.Helper()
		said := new(strings.Builder)
		weir := exec.Command("weir", args...)
		weir.Stdout, weir.Stderr = out, said
		weir.Env = append(os.Environ(), "WEIR_CONTROL="+filepath.Join(m.folder, "weir.sock"), "GORACE=atexit_sleep_ms=0")
		if err := weir.Run(); err == nil || !strings.Contains(said.String(), want) {
			t.Errorf("%s: %v, %q", args, err, said)
		}
	}
	for _, args := range []string{"version", "--help", "check " + file, "status", "status --json", "ban list",
		"completion bash", "plan bloom --attackers 10", "queue --help"} {
		fails(full, "no space left on device", strings.Fields(args)...)
	}
	fails(full, "is revoked", "token", "add", "one")
	fails(full, "is revoked", "token", "add", "--json", "two")
	fails(closed, "is revoked", "token", "add", "three")
	out, err := exec.Command("weir", "token", "list", "--control", filepath.Join(m.folder, "weir.sock")).CombinedOutput()
	if err != nil || string(out) != "there are no tokens\n" {
		t.Errorf("%v: %s", err, out)
	}
}
