package tcpgate

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// awaitReadable returns a function that waits until there is something to read, or an end or an error, and reads
// nothing. A silent connection then needs neither a buffer nor one of the pipes by which Go splices.
func awaitReadable(c syscall.Conn) (wait func() error) { return await(c, unix.POLLIN) }

// awaitLeaving returns a function that waits until the peer has ended its side, even if there are bytes to read before
// that. The end of one side cannot be told from a hang-up as long as nothing is sent to the peer.
func awaitLeaving(c syscall.Conn) (wait func() error) { return await(c, unix.POLLRDHUP) }

// dead reports whether nothing can be read from or written to a socket any more.
func dead(c syscall.Conn) (is bool) {
	raw, err := c.SyscallConn()
	return err != nil || raw.Control(func(fd uintptr) { is = happened(fd, 0) }) != nil || is
}

// await returns a function that waits for events at a socket, up to the deadline for reading. The runtime's poller
// wakes readers at every change, so the system is asked again after each.
func await(c syscall.Conn, events int16) (wait func() error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return func() error { return err }
	}
	is := func(fd uintptr) bool { return happened(fd, events) }
	return func() error { return raw.Read(is) }
}

// happened asks for events at a socket. Errors and hang-ups on both sides always count.
func happened(fd uintptr, events int16) bool {
	polled := [...]unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		n, err := unix.Poll(polled[:], 0)
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}
