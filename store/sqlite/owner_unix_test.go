//go:build unix

package sqlite

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"weir/internal/testkit/needs"
)

// What root salvages belongs to weir's own user, who could not start otherwise.
func TestSalvageByRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		needs.Skip(t, "it takes root")
	}
	const somebody = 12345
	folder := t.TempDir()
	copyFolder(t, filled(t, 20), folder, func(b []byte) []byte { clear(b[:pageSize]); return b })
	everything := func(do func(path string)) {
		must(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error { do(path); return err }))
	}
	must(t, os.Remove(filepath.Join(folder, LockFile)))
	everything(func(path string) { must(t, os.Chown(path, somebody, somebody)) })
	text := filepath.Join(folder, MailFolder, "AB", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	must(t, os.MkdirAll(filepath.Dir(text), 0o700))
	must(t, os.WriteFile(text, []byte("Subject: x\r\n\r\n"), 0o600))
	must(t, os.Chown(filepath.Dir(text), somebody, somebody))
	for range 2 {
		_, err := Salvage(t.Context(), folder, epoch, nil)
		must(t, err)
		_, err = Check(t.Context(), folder, nil)
		must(t, err)
	}
	if len(exported(folder)) != 1 {
		t.Error(exported(folder))
	}
	everything(func(path string) {
		info, err := os.Stat(path)
		must(t, err)
		if owner := info.Sys().(*syscall.Stat_t); owner.Uid != somebody {
			t.Errorf("%s belongs to %d", path, owner.Uid)
		}
	})
}
