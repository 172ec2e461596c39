//go:build linux && (amd64 || arm64)

package xdpgate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A running weir holds a shared lock on the folder of each of its interfaces. The kernel drops the lock with the
// process, however it ends. So a folder without a lock belongs to no running weir, in any network namespace.

// holdTries is how often a folder that is removed while it is being locked is made again.
const holdTries = 10

// hold makes the folder and locks it until the file is closed.
func (p pins) hold() (*os.File, error) {
	for range holdTries {
		err := p.make()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process removes it
		}
		if err != nil {
			return nil, err
		}
		f, err := p.lock(unix.LOCK_SH)
		if f != nil || err != nil {
			return f, err
		}
	}
	return nil, fmt.Errorf("cannot pin at %s: somebody removes it again and again", p)
}

// seize locks a folder that no running weir holds. It returns nil where one does, or the folder is gone.
func (p pins) seize() (*os.File, error) { return p.lock(unix.LOCK_EX | unix.LOCK_NB) }

// lock returns nil where the lock cannot be had at once or the folder is gone.
func (p pins) lock(how int) (*os.File, error) {
	f, err := os.Open(string(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", p, err)
	}
	for {
		if err = unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, nil
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot lock %s: %w", p, err)
	}
	// The folder may have been removed between the two steps, and another made in its place.
	mine, err1 := f.Stat()
	there, err2 := os.Stat(string(p))
	if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
		f.Close()
		return nil, nil
	}
	return f, nil
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
