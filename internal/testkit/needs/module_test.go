package needs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// folderOf makes a module of one file.
func folderOf(t *testing.T, requires, text string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "thing")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"go.mod": "module thing\n\ngo 1.26.0\n" + requires, "main.go": text} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestModule: a program is built, one whose modules cannot be had is left out, which fails in CI, and one that does not
// compile is a failure.
func TestModule(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOFLAGS", "")
	program := Module(t, folderOf(t, "", "package main\n\nfunc main() { println(\"here\") }\n"))
	if out, err := exec.Command(program).CombinedOutput(); err != nil || string(out) != "here\n" {
		t.Errorf("%q, %v", out, err)
	}
	away := folderOf(t, "\nrequire no.example/such v1.0.0\n", "package main\n\nimport _ \"no.example/such\"\n\nfunc main() {}\n")
	broken := folderOf(t, "", "package main\n\nfunc main() { return 1 }\n")
	for _, c := range []struct {
		folder, ci, skipped, failed string
	}{
		{away, "", "the modules for thing cannot be had", ""},
		{away, "true", "", "the modules for thing cannot be had"},
		{broken, "", "", "go build"},
	} {
		t.Setenv("CI", c.ci)
		l := &listener{TB: t}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			t.Errorf("built %s", Module(l, c.folder))
		}()
		<-ended
		if !strings.HasPrefix(l.skipped, c.skipped) || (l.skipped == "") != (c.skipped == "") ||
			!strings.HasPrefix(l.failed, c.failed) || (l.failed == "") != (c.failed == "") {
			t.Errorf("CI=%s: skipped %q, failed %q", c.ci, l.skipped, l.failed)
		}
	}
}
