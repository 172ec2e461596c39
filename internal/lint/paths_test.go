package lint

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// machinePath finds absolute paths of one person's machine. Paths that belong to a system, like /var/lib, are fine.
var machinePath = regexp.MustCompile(`(?m)(?:^|[^\w./-])(/(?:work|root|home/\w+|Users/\w+|tmp/bash[^/\s]*)/[^\s"'` +
	"`" + `)]*)`)

// TestNoMachinePaths: what stands in the files holds on every machine.
func TestNoMachinePaths(t *testing.T) {
	const tooLarge = 4 << 20
	base := filepath.Clean(root)
	err := filepath.WalkDir(base, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another test cleaned up behind itself
		}
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" || name == filepath.Join(base, "bin") {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !info.Mode().IsRegular() || info.Size() > tooLarge {
			return err
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			return nil // not text
		}
		for _, m := range machinePath.FindAllSubmatchIndex(text, -1) {
			rel, _ := filepath.Rel(base, name)
			line := 1 + bytes.Count(text[:m[2]], []byte("\n"))
			t.Errorf("%s:%d: %s is a path of one machine", rel, line, text[m[2]:m[3]])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestMachinePath(t *testing.T) {
	at := func(parts ...string) string { return "/" + filepath.Join(parts...) }
	for text, want := range map[string]bool{
		"see " + at("work", "x"):                true,
		"\"" + at("root", "go", "pkg") + "\"":   true,
		at("home", "ann", "weir.yaml"):          true,
		at("tmp", "bash_jobs.0", "1"):           true,
		"/var/lib/weir/weir.sock":               false,
		"https://example.com/root/x":            false,
		"path/work/x":                           false,
		"/tmp/weir":                             false,
		"at work/root":                          false,
		"/v1/work/":                             false,
		"ProtectHome=yes hides " + at("home"):   false,
		"$HOME/go and ~/go":                     false,
		"bucket " + at("workshop", "and", "on"): false,
	} {
		if got := machinePath.MatchString(text); got != want {
			t.Errorf("%q: found a path of one machine: %v, want %v", text, got, want)
		}
	}
}
