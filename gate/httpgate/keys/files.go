package keys

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/clock"
	"weir/internal/readfile"
)

// fileEvery is how often files are looked at, at most.
const fileEvery = 5 * time.Second

// A watch looks at files now and then, when somebody passes by. It is safe for concurrent use.
type watch[T any] struct {
	clock clock.Clock
	all   []*files[T]
	// noted is told of a new value, the first one included, or of the error because of which the old value stays. mu is
	// held.
	noted   func(f *files[T], first bool, err error)
	changed func() // called after new values have been noted; nil for nobody

	mu   sync.Mutex   // held while files are looked at
	next atomic.Int64 // when that is due, in Unix nanoseconds
}

// check looks at all files now. What is new and can be used is taken; the error is about the rest.
func (w *watch[T]) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next.Store(w.clock.Now().Add(fileEvery).UnixNano())
	w.look()
	var wrong []error
	for _, f := range w.all {
		if f.wrong != "" {
			wrong = append(wrong, fmt.Errorf("%s: %s", f.what, f.wrong))
		}
	}
	return errors.Join(wrong...)
}

// passBy looks at all files if that is due.
func (w *watch[T]) passBy(now time.Time) {
	at, next := now.UnixNano(), w.next.Load()
	if at < next && at > next-2*int64(fileEvery) { // else the clock was set back
		return
	}
	if w.next.CompareAndSwap(next, at+int64(fileEvery)) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.look()
	}
}

func (w *watch[T]) look() {
	changed := false
	for _, f := range w.all {
		first := !f.made
		anew, err := f.look()
		if anew || err != nil {
			w.noted(f, first, err)
		}
		changed = changed || anew
	}
	if changed && w.changed != nil {
		w.changed()
	}
}

// files are those that a value is made of.
type files[T any] struct {
	what  string // that cannot be done without them, for errors
	paths []string
	parse func(contents [][]byte) (T, error)

	value T
	made  bool // there is a value
	seen  []version
	wrong string // why the files cannot be used as they are now
}

// A version tells a changed file from the old one.
type version struct {
	changed time.Time
	size    int64
}

// look reads the files if they have changed since the last time, or could not be used then. It reports whether there is
// a new value. The same error is returned once until something changes.
func (f *files[T]) look() (anew bool, err error) {
	now := make([]version, len(f.paths))
	for i, path := range f.paths {
		if info, err := readfile.Stat(path); err == nil { // a missing file fails when it is read
			now[i] = version{info.ModTime(), info.Size()}
		}
	}
	if f.wrong == "" && slices.Equal(now, f.seen) {
		return false, nil
	}
	f.seen = now
	value, err := f.read()
	if err != nil {
		if err.Error() == f.wrong {
			return false, nil
		}
		f.wrong = err.Error()
		return false, err
	}
	f.value, f.made, f.wrong = value, true, ""
	return true, nil
}

func (f *files[T]) read() (value T, err error) {
	contents := make([][]byte, len(f.paths))
	for i, path := range f.paths {
		if contents[i], err = readTwice(path, readFile); err != nil {
			return value, err
		}
	}
	return f.parse(contents)
}

// errChanging is about a file that is different each time it is read.
var errChanging = errors.New("it changes while it is read")

// readTwice reads a file until it is the same twice. Whoever writes a certificate in place of another may be half
// done: the beginning of the old one with the end of the new one has a key that fits and a signature that does not.
func readTwice(path string, read func(path string) ([]byte, error)) ([]byte, error) {
	const most = 4
	last, err := read(path)
	for range most - 1 {
		if err != nil {
			return nil, err
		}
		before := last
		if last, err = read(path); err == nil && bytes.Equal(before, last) {
			return last, nil
		}
	}
	return nil, cmp.Or(err, fmt.Errorf("%s: %w", path, errChanging))
}

func readFile(path string) ([]byte, error) { return readfile.Read(path, readfile.MaxPEM) }
