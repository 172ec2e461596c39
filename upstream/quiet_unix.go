//go:build unix

package upstream

import (
	"net"
	"syscall"
)

// peeker returns a function that reports whether an idle connection has nothing to read, not even its end.
func peeker(nc net.Conn) func() bool {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	var quiet bool
	var one [1]byte
	look := func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		for err == syscall.EINTR {
			_, _, err = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		}
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	}
	return func() bool { return rc.Control(look) == nil && quiet }
}
