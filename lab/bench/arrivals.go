//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// arrivals is an upstream that notes in which order requests reached this machine. One thread does everything, in the
// order in which the kernel reports events: a server with a goroutine for each connection would add an order of its
// own.
type arrivals struct {
	address netip.AddrPort
	epoll   int
	listen  int
	done    chan struct{}

	mu    sync.Mutex
	paths []string
}

const greeting = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func (t *trial) newArrivals() *arrivals {
	a := &arrivals{done: make(chan struct{})}
	a.listen = try(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))
	check(unix.Bind(a.listen, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	check(unix.Listen(a.listen, 4096))
	port := try(unix.Getsockname(a.listen)).(*unix.SockaddrInet4).Port
	a.address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))
	a.epoll = try(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
	check(a.watch(a.listen))
	go a.serve()
	t.cleanup(func() {
		_ = unix.Shutdown(a.listen, unix.SHUT_RDWR)
		<-a.done
		_ = unix.Close(a.epoll)
		_ = unix.Close(a.listen)
	})
	return a
}

func (a *arrivals) watch(fd int) error {
	return unix.EpollCtl(a.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// serve runs until the listener is shut down.
func (a *arrivals) serve() {
	runtime.LockOSThread()
	defer close(a.done)
	events, buffer := make([]unix.EpollEvent, 256), make([]byte, 16<<10)
	for {
		n, err := unix.EpollWait(a.epoll, events, -1)
		if err != nil && err != unix.EINTR {
			return
		}
		for _, e := range events[:max(n, 0)] {
			fd := int(e.Fd)
			if fd != a.listen {
				a.read(fd, buffer)
				continue
			}
			if e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
				return
			}
			for {
				conn, _, err := unix.Accept4(a.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
				if err != nil {
					break
				}
				// A request that came with the connection was there before all that is read after it.
				a.read(conn, buffer)
				_ = a.watch(conn)
			}
		}
	}
}

// read takes one request, which is small enough to come in one piece, and answers it.
func (a *arrivals) read(fd int, buffer []byte) {
	n, err := unix.Read(fd, buffer)
	if errors.Is(err, unix.EAGAIN) {
		return
	}
	if n <= 0 {
		_ = unix.Close(fd)
		return
	}
	_, rest, _ := bytes.Cut(buffer[:n], []byte(" "))
	path, _, _ := bytes.Cut(rest, []byte(" "))
	a.mu.Lock()
	a.paths = append(a.paths, string(path))
	a.mu.Unlock()
	_, _ = unix.Write(fd, []byte(greeting))
}

func (a *arrivals) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paths = nil
}

// inversions counts the requests that came after one that should have come later. All n must have come.
func (a *arrivals) inversions(n int) (inverted int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.paths) != n {
		check(fmt.Errorf("%d requests reached the upstream, want %d", len(a.paths), n))
	}
	last := -1
	for _, path := range a.paths {
		i := try(strconv.Atoi(path[1:]))
		if i < last {
			inverted++
		}
		last = max(last, i)
	}
	return inverted
}
