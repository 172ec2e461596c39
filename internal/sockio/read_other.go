//go:build unix && (!linux || race)

package sockio

import "syscall"

// Read reads what is there from a descriptor that does not block, or fails with syscall.EAGAIN.
func Read(fd uintptr, p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), p)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}
