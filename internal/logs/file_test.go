package logs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, f *File, line string) {
	t.Helper()
	if n, err := f.Write([]byte(line)); n != len(line) || err != nil {
		t.Fatal(n, err)
	}
}

func opened(t *testing.T, path string, failed func(error)) *File {
	t.Helper()
	f, err := Open(path, failed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// What was there stays, and others may not read what comes.
func TestAddsToWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	f := opened(t, path, nil)
	write(t, f, "one\n")
	_ = f.Close()
	write(t, opened(t, path, nil), "two\n")
	if got := text(t, path); got != "one\ntwo\n" {
		t.Errorf("%q", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&^Mode != 0 && runtime.GOOS != "windows" {
		t.Errorf("mode %o", mode)
	}
}

// A file that was moved away, or deleted, is replaced by a new one of its name.
func TestMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	f := opened(t, path, func(err error) { t.Error(err) })
	write(t, f, "one\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, f, "two\n") // it was looked for a moment ago
	f.looked = f.looked.Add(-lookEvery)
	write(t, f, "three\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.looked = time.Now().Add(time.Hour) // the clock was set back
	write(t, f, "four\n")
	if old, now := text(t, path+".1"), text(t, path); old != "one\ntwo\n" || now != "four\n" {
		t.Errorf("%q, then %q", old, now)
	}
}

// A reload opens the file again, and a reload that fails changes nothing.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	f := opened(t, path, nil)
	write(t, f, "one\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	_, abort, err := f.Replace()
	if err != nil {
		t.Fatal(err)
	}
	abort()
	write(t, f, "two\n")
	for range 2 { // a second reload before the next line
		commit, _, err := f.Replace()
		if err != nil {
			t.Fatal(err)
		}
		commit()
	}
	write(t, f, "three\n")
	if old, now := text(t, path+".1"), text(t, path); old != "one\ntwo\n" || now != "three\n" {
		t.Errorf("%q, then %q", old, now)
	}
}

// While the file cannot be opened again, lines go to the old one, and somebody is told.
func TestFolderIsGone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "access.log")
	var told error
	f := opened(t, path, func(err error) { told = err })
	if err := os.Rename(folder, folder+".old"); err != nil {
		t.Fatal(err)
	}
	f.looked = time.Time{}
	write(t, f, "one\n")
	if !errors.Is(told, fs.ErrNotExist) || text(t, filepath.Join(folder+".old", "access.log")) != "one\n" {
		t.Errorf("%v", told)
	}
	if _, _, err := f.Replace(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := Open(path, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestNotAFile(t *testing.T) {
	if _, err := Open(t.TempDir(), nil); !errors.Is(err, ErrNotFile) {
		t.Error(err)
	}
}

// A line that broke off is not continued by the next one.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	f := opened(t, path, nil)
	write(t, f, "half a li")
	f.torn = true
	write(t, f, "one\n")
	if got := text(t, path); got != "half a li\none\n" {
		t.Errorf("%q", got)
	}
}
