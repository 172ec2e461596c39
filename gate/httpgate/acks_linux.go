package httpgate

import (
	"net"

	"golang.org/x/sys/unix"
)

// acks reports whether the system says how much the client has taken.
func (w *wire) acks() bool {
	_, ok := w.socket.(*net.TCPConn)
	return ok
}

// taken is how many bytes the client has acknowledged since it connected.
func (w *wire) taken() (n int64) {
	raw, err := w.socket.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int64(info.Bytes_acked)
		}
	})
	return n
}
