package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What one system does not have is found there, and nowhere else.
func TestFindsWhatASystemLacks(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example\n\ngo 1.24\n",
		"a.go": "package example\n\nimport \"syscall\"\n\nfunc A(fd int) error { return syscall.Fchmod(fd, " +
			"0o600) }\n",
		"b/b.go":     "package b\n\nfunc B() int { return 1 << 40 }\n",
		"b/b_386.go": "package b\n\nvar _ int = \"no number\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for target, want := range map[string]string{"linux/amd64": "",
		"windows/arm64": "syscall.Handle value in argument to syscall.Fchmod"} {
		n, err := check(root, target)
		if n != 2 || (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d packages, %v, want %q", target, n, err, want)
		}
	}
	if _, err := check(filepath.Join(root, "nowhere"), "linux/amd64"); err == nil {
		t.Error("no folder, and no error")
	}
}
