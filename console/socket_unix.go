//go:build unix

package console

import "syscall"

// keepOthersOut sees to it that there is no moment in which others can open a socket: on Linux the mode of its file is
// that of the descriptor.
func keepOthersOut(c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}
