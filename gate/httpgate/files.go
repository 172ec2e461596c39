package httpgate

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/clock"
)

// fileEvery is how often files are looked at, at most.
const fileEvery = 5 * time.Second

// maxFile is how large a file with certificates or keys may be.
const maxFile = 4 << 20

// A watched value is made of files, and made anew when they change. What cannot be used leaves the old value in place.
// It belongs to one goroutine at a time.
type watched[T any] struct {
	paths []string
	parse func(contents [][]byte) (T, error)

	value T
	seen  []stamped
	wrong string // why the files cannot be used as they are now
}

// stamped is by what a change of a file shows.
type stamped struct {
	changed time.Time
	size    int64
}

// look reads the files if they have changed since the last time, or were of no use then. It reports whether there is a
// new value; an error means that the old one stays. The same error is returned once until something changes.
func (w *watched[T]) look() (anew bool, err error) {
	now := make([]stamped, len(w.paths))
	same := len(w.seen) == len(now)
	for i, path := range w.paths {
		// What cannot be found shows when it is read.
		if info, err := os.Stat(path); err == nil {
			now[i] = stamped{info.ModTime(), info.Size()}
		}
		same = same && now[i] == w.seen[i]
	}
	if same && w.wrong == "" {
		return false, nil
	}
	w.seen = now
	value, err := w.read()
	if err != nil {
		if err.Error() == w.wrong {
			return false, nil
		}
		w.wrong = err.Error()
		return false, err
	}
	w.value, w.wrong = value, ""
	return true, nil
}

func (w *watched[T]) read() (value T, err error) {
	contents := make([][]byte, len(w.paths))
	for i, path := range w.paths {
		if contents[i], err = readBounded(path); err != nil {
			return value, err
		}
	}
	return w.parse(contents)
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, err
}

// A glance is taken now and then by whoever comes by. It is safe for concurrent use; the zero value is due at once.
type glance struct {
	mu   sync.Mutex // held by whoever looks
	next atomic.Int64
}

// due reports whether it is time, to one of those who ask.
func (l *glance) due(now time.Time) bool {
	at, next := now.UnixNano(), l.next.Load()
	if at < next && at > next-2*int64(fileEvery) { // else the clock was set back
		return false
	}
	return l.next.CompareAndSwap(next, at+int64(fileEvery))
}

// taken puts the next look off.
func (l *glance) taken(c clock.Clock) { l.next.Store(c.Now().Add(fileEvery).UnixNano()) }
