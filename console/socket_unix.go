//go:build unix

package console

import "syscall"

// keepOthersOut sets the mode of a socket before it is bound, so that others can never open it. On Linux the file gets
// the mode of the descriptor.
func keepOthersOut(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}
