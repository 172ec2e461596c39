package console

import (
	"net"
	"os/user"
	"strconv"
	"syscall"
)

// peerName is the user at the other end of a socket, from the kernel: the name, or the number if there is no name. It
// is empty if the kernel does not say.
func peerName(c *net.UnixConn) string {
	raw, err := c.SyscallConn()
	if err != nil {
		return ""
	}
	var peer *syscall.Ucred
	if err := raw.Control(func(fd uintptr) {
		peer, _ = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil || peer == nil {
		return ""
	}
	id := strconv.FormatUint(uint64(peer.Uid), 10)
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + id
}
