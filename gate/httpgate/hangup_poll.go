//go:build unix

package httpgate

import (
	"sync"
	"syscall"
	"time"
)

// polledHangups notices clients that leave, on systems that do not report it: it looks at all watched sockets every
// pollTime. If a client has sent bytes before it left, that is noticed only after they were read.
type polledHangups struct {
	mu      sync.Mutex
	watched map[*polledConn]struct{}
	timer   *time.Timer // nil while nothing is watched
	closed  bool
}

type polledConn struct {
	rc   syscall.RawConn
	gone func()
}

// pollTime is how long it may take until a client that left is noticed.
const pollTime = 100 * time.Millisecond

func newPolledHangups() *polledHangups {
	return &polledHangups{watched: map[*polledConn]struct{}{}}
}

// add calls gone, once, when the client of a connection hangs up. remove ends the watch. It is nil if the connection
// cannot be watched.
func (h *polledHangups) add(c syscall.Conn, gone func()) (remove func()) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	one := &polledConn{rc, gone}
	h.watched[one] = struct{}{}
	if h.timer == nil {
		h.timer = time.AfterFunc(pollTime, h.look)
	}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watched, one)
	}
}

func (h *polledHangups) look() {
	var left []*polledConn
	h.mu.Lock()
	for one := range h.watched {
		if one.left() {
			delete(h.watched, one)
			left = append(left, one)
		}
	}
	if h.timer = nil; len(h.watched) > 0 && !h.closed {
		h.timer = time.AfterFunc(pollTime, h.look)
	}
	h.mu.Unlock()
	for _, one := range left {
		one.gone()
	}
}

// left reports whether the client has hung up and nothing of it is left to read.
func (c *polledConn) left() (gone bool) {
	failed := c.rc.Control(func(fd uintptr) {
		var one [1]byte
		n, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = err == nil && n == 0 || err == syscall.ECONNRESET
	})
	return failed == nil && gone
}

// close ends all watches.
func (h *polledHangups) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	clear(h.watched)
	if h.timer != nil {
		h.timer.Stop()
	}
}
