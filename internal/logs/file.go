package logs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// Mode is that of a file that is made. The group may read it, as programs that read logs do.
const Mode = 0o640

// lookEvery is how often the name is looked at: the file may have been moved away.
const lookEvery = time.Second

// ErrNotFile means that there is something under the name that lines cannot be added to, such as a folder or a pipe.
var ErrNotFile = errors.New("it is not a file")

// A File is open for lines at its end.
type File struct {
	path   string
	failed func(error)
	file   *os.File
	next   atomic.Pointer[os.File] // takes the place of file with the next write
	looked time.Time
	torn   bool // the last line has no end
}

// Open opens a file, or makes it. failed is told when it cannot be opened again, and may be nil.
func Open(path string, failed func(error)) (*File, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	if failed == nil {
		failed = func(error) {}
	}
	return &File{path: path, failed: failed, file: f, looked: time.Now()}, nil
}

func open(path string) (*os.File, error) {
	// Opening a pipe would wait for its reader.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", path, ErrNotFile)
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, Mode)
}

// Replace opens the file again under its name. Nothing changes before commit is called; either commit or abort must be.
func (f *File) Replace() (commit, abort func(), err error) {
	next, err := open(f.path)
	if err != nil {
		return nil, nil, err
	}
	commit = func() {
		if unused := f.next.Swap(next); unused != nil {
			_ = unused.Close()
		}
	}
	return commit, func() { _ = next.Close() }, nil
}

// Write adds lines. If the file is no longer the one under its name, they go to a new one.
func (f *File) Write(lines []byte) (int, error) {
	f.look()
	if f.torn { // a disk that was full broke a line off: the next one has a line of its own
		if _, err := f.file.Write([]byte("\n")); err != nil {
			return 0, err
		}
		f.torn = false
	}
	n, err := f.file.Write(lines)
	f.torn = err != nil && n > 0 && lines[n-1] != '\n'
	return n, err
}

// look changes to another file where there is one.
func (f *File) look() {
	if next := f.next.Swap(nil); next != nil {
		f.change(next)
		return
	}
	now := time.Now()
	if since := now.Sub(f.looked); since < lookEvery && since >= 0 {
		return
	}
	f.looked = now
	there, err := os.Stat(f.path)
	if err == nil {
		if ours, err := f.file.Stat(); err == nil && os.SameFile(there, ours) {
			return
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		f.failed(err)
		return
	}
	next, err := open(f.path)
	if err != nil {
		f.failed(err) // lines go on to where they went
		return
	}
	f.change(next)
}

func (f *File) change(to *os.File) {
	_ = f.file.Close()
	f.file, f.looked, f.torn = to, time.Now(), false
}

// Close closes the file.
func (f *File) Close() error {
	if next := f.next.Swap(nil); next != nil {
		_ = next.Close()
	}
	return f.file.Close()
}
