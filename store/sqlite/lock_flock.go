//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sqlite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"weir/store"
)

// A lock keeps a second weir out of a data folder. SQLite alone would let it in, and both would overwrite each other's
// rows. The kernel frees the lock when the process ends, however it ends; the file stays.
type lock struct{ file *os.File }

// takeLock takes the lock of a file, and writes the process id into it.
func takeLock(path string) (*lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return nil, fmt.Errorf("%s: %w%s", path, store.ErrInUse, holder(f))
	}
	l := &lock{f}
	if err := l.sign(strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// holder says which process has the lock, if it wrote its id.
func holder(f *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

func (l *lock) sign(text string) error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(text), 0)
	return err
}

// release frees the lock. Closing the file is not enough: a process that is just being started has a copy of it until
// it runs its own program, and the lock would stay that long.
func (l *lock) release() {
	_ = l.sign("")
	_ = syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	_ = l.file.Close()
}
