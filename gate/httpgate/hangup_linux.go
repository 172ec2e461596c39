package httpgate

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// hangups notices clients that leave while nobody reads from their connections: a request that waits has its body
// unread, and a session does not read the next request before it has answered the last one. One goroutine waits for
// hang-ups on all watched sockets. It has an epoll instance of its own, as the runtime's tells only readers of a
// hang-up.
type hangups struct {
	mu      sync.Mutex
	epoll   int // 0 before the first watch
	wake    int // an eventfd that ends the goroutine
	closed  bool
	last    uint64            // the last token
	watched map[uint64]func() // what to call, by the token of the socket; the eventfd has token 0
	done    chan struct{}     // closed when the goroutine has ended
}

func newHangups() *hangups { return &hangups{watched: map[uint64]func(){}} }

// add calls gone, once, when the peer of a connection hangs up. A connection is watched once at a time. The function
// returned ends the watch; it must be called before the connection serves another request. It is nil when the
// connection cannot be watched.
func (h *hangups) add(c syscall.Conn, gone func()) (remove func()) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	h.mu.Lock()
	if h.closed || h.epoll == 0 && h.start() != nil {
		h.mu.Unlock()
		return nil
	}
	h.last++
	token := h.last
	h.watched[token] = gone
	h.mu.Unlock()

	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(token), Pad: int32(token >> 32)}
	failed := rc.Control(func(fd uintptr) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.closed {
			err = unix.EBADF
			return
		}
		err = unix.EpollCtl(h.epoll, unix.EPOLL_CTL_ADD, int(fd), &event)
	})
	if failed != nil || err != nil {
		h.forget(token)
		return nil
	}
	return func() {
		h.forget(token)
		// A closed socket has left the set by itself, and Control fails.
		_ = rc.Control(func(fd uintptr) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if !h.closed {
				_ = unix.EpollCtl(h.epoll, unix.EPOLL_CTL_DEL, int(fd), nil)
			}
		})
	}
}

func (h *hangups) forget(token uint64) {
	h.mu.Lock()
	delete(h.watched, token)
	h.mu.Unlock()
}

// start makes the epoll instance and its goroutine. h.mu is held.
func (h *hangups) start() error {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		err = unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN})
	}
	if err != nil {
		_ = unix.Close(epoll)
		return err
	}
	h.epoll, h.wake, h.done = epoll, wake, make(chan struct{})
	go h.run()
	return nil
}

func (h *hangups) run() {
	defer close(h.done)
	events := make([]unix.EpollEvent, 64)
	for {
		n, err := unix.EpollWait(h.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for i := range max(n, 0) {
			token := uint64(uint32(events[i].Fd)) | uint64(uint32(events[i].Pad))<<32
			if token == 0 { // close has been called
				return
			}
			h.mu.Lock()
			gone := h.watched[token]
			delete(h.watched, token)
			h.mu.Unlock()
			if gone != nil {
				gone()
			}
		}
	}
}

// close ends all watches and the goroutine.
func (h *hangups) close() {
	h.mu.Lock()
	running := h.epoll != 0 && !h.closed
	h.closed = true
	clear(h.watched)
	h.mu.Unlock()
	if !running {
		return
	}
	_, _ = unix.Write(h.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	<-h.done
	_ = unix.Close(h.wake)
	_ = unix.Close(h.epoll)
}
