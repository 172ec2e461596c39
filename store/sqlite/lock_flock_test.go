//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sqlite

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"weir/store"
)

// TestLockIsFree: a lock that was released can be taken at once, even if another process still has a copy of its file.
func TestLockIsFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockFile)
	l, err := takeLock(path)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat") // it ends with its input
	child.ExtraFiles = []*os.File{l.file}
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = input.Close()
		_ = child.Wait()
	}()
	if _, err := takeLock(path); !errors.Is(err, store.ErrInUse) {
		t.Fatalf("while it is held: %v", err)
	}
	l.release()
	again, err := takeLock(path)
	if err != nil {
		t.Fatalf("after it was released: %v", err)
	}
	again.release()
}
