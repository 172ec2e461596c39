//go:build unix

package upstream

import (
	"net"
	"syscall"

	"weir/internal/sockio"
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
	look := func(fd uintptr) { quiet = sockio.Quiet(fd) }
	return func() bool { return rc.Control(look) == nil && quiet }
}
