//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A running weir holds a lock on the folder of each of its interfaces. The kernel drops the lock with the process,
// however it ends. So a folder without a lock belongs to no running weir, in any network namespace.

// A folder may be removed while it is being locked, or be locked by who looks whether it is to be removed. It is tried
// again holdTries times, after a pause.
const (
	holdTries = 10
	holdPause = 20 * time.Millisecond
)

// errHeld is why a lock cannot be had at once.
var errHeld = errors.New("it is locked")

// holdOn is hold for a gate that may hold the folder already.
func (p pins) holdOn(held *os.File) (*os.File, error) {
	if held != nil && sameFile(held, string(p)) {
		fd, err := unix.FcntlInt(held.Fd(), unix.F_DUPFD_CLOEXEC, 0) // of the same lock
		if err != nil {
			return nil, fmt.Errorf("cannot lock %s: %w", p, err)
		}
		return os.NewFile(uintptr(fd), string(p)), nil
	}
	return p.hold()
}

// hold makes the folder and locks it until the file, and what holdOn has made of it, is closed. The error is an InUse
// where another weir has it.
func (p pins) hold() (*os.File, error) {
	for n := range holdTries {
		if n > 0 {
			time.Sleep(holdPause)
		}
		err := p.make()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removes it
		}
		if err != nil {
			return nil, err
		}
		f, err := p.lock()
		if err == errHeld && n == holdTries-1 {
			return nil, &InUse{Path: string(p), PID: holderOf(string(p))}
		}
		if f != nil || err != nil && err != errHeld {
			return f, err
		}
	}
	return nil, fmt.Errorf("cannot pin at %s: somebody removes it again and again", p)
}

// seize locks a folder that no running weir holds. It returns nil where one does, or the folder is gone.
func (p pins) seize() (*os.File, error) {
	f, err := p.lock()
	if err == errHeld {
		err = nil
	}
	return f, err
}

// lock returns nil where the folder is gone.
func (p pins) lock() (*os.File, error) {
	f, err := os.Open(string(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", p, err)
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, errHeld
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", p, err)
	}
	if !sameFile(f, string(p)) { // it has been removed between the two steps, and another made in its place
		f.Close()
		return nil, nil
	}
	return f, nil
}

func sameFile(f *os.File, path string) bool {
	mine, err1 := f.Stat()
	there, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, there)
}

// holderOf is the process that has locked a file, or 0 where the system does not say.
func holderOf(path string) int {
	var s unix.Stat_t
	text, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Stat(path, &s) != nil {
		return 0
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(s.Dev), unix.Minor(s.Dev), s.Ino)
	for line := range strings.Lines(string(text)) {
		// 1: FLOCK  ADVISORY  WRITE 4711 00:1c:42 0 EOF
		if all := strings.Fields(line); len(all) > 5 && all[1] == "FLOCK" && all[5] == file {
			pid, _ := strconv.Atoi(all[4])
			return max(pid, 0)
		}
	}
	return 0
}

// RemoveDead removes what is pinned for interfaces that are gone, and returns their names. Interfaces go with their
// network namespace; the pins stay. What a running weir holds is left alone, and so is a program that sees packets in
// any namespace. The other pins are removed even if some cannot be.
func RemoveDead(pin string) (removed []string, err error) {
	folders, err := filepath.Glob(filepath.Join(pin, layout, "*"))
	if err != nil {
		return nil, err
	}
	var all []error
	for _, folder := range folders {
		p := pins(folder)
		gone, err := p.removeDead()
		if err != nil {
			all = append(all, err)
		} else if gone {
			removed = append(removed, p.iface())
		}
	}
	return removed, errors.Join(all...)
}

func (p pins) removeDead() (bool, error) {
	held, err := p.seize()
	if held == nil || err != nil {
		return false, err
	}
	defer held.Close()
	l, err := p.link()
	if err != nil {
		return false, err
	}
	if l != nil {
		defer l.Close()
		// The kernel answers with 0 once the interface is gone. It knows the interfaces of all namespaces.
		if index, _, err := linkOf(l); err != nil || index != 0 {
			return false, err
		}
	}
	if err := p.remove(); err != nil {
		return false, fmt.Errorf("%s: %w", p.iface(), err)
	}
	return true, nil
}
