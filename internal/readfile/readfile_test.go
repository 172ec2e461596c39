package readfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(path, 10); err != nil || string(got) != "0123456789" {
		t.Errorf("at the bound: %q, %v", got, err)
	}
	if got, err := Read(path, 9); !errors.Is(err, ErrLarge) || got != nil {
		t.Errorf("over the bound: %q, %v", got, err)
	}
	if _, err := Read(filepath.Join(folder, "none"), 9); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Read(folder, 9); !errors.Is(err, syscall.EISDIR) {
		t.Error(err)
	}
	pipe := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(pipe, 9); err != nil || len(got) > 0 {
		t.Errorf("a pipe that nobody writes to: %q, %v", got, err)
	}
	// A pipe with a writer can be read: <(…) in a shell is one.
	var file *os.File
	file, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("abcd"); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(pipe, 3); !errors.Is(err, ErrLarge) {
		t.Errorf("a pipe with more than fits: %q, %v", got, err)
	}
	pair := bytes.Repeat([]byte("x"), int(MaxPEM)+1)
	if err := os.WriteFile(path, pair, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Pair(path, path); !errors.Is(err, ErrLarge) {
		t.Error(err)
	}
}

// TestFileThatDoesNotAnswer: a read is given up after a while, and only so many of them are left behind.
func TestFileThatDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		hang := func() (int, error) { <-release; return 1, nil }
		for i := range MaxLost {
			began := time.Now()
			if n, err := Within("a", hang); n != 0 || !errors.Is(err, ErrSlow) || time.Since(began) != Patience {
				t.Fatalf("%d: %d, %v after %s", i, n, err, time.Since(began))
			}
		}
		began := time.Now()
		_, err := Within("b", func() (int, error) { t.Error("one more is read"); return 1, nil })
		if !errors.Is(err, ErrLost) || time.Since(began) != 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if want := fmt.Sprintf("read b: %s", ErrLost); err.Error() != want {
			t.Error(err)
		}
		close(release) // the share is back
		synctest.Wait()
		if n, err := Within("b", func() (int, error) { return 2, nil }); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
}
