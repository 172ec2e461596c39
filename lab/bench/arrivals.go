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

// arrivals is an upstream that writes down in which order requests reached this machine. One thread does everything, in
// the order in which the kernel says that something has come: a server with a goroutine for each connection would add
// an order of its own.
type arrivals struct {
	address netip.AddrPort
	epoll   int
	listen  int
	done    chan struct{}

	mu    sync.Mutex
	paths []string
}

const greeting = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

func newArrivals() (*arrivals, error) {
	a := &arrivals{done: make(chan struct{})}
	var err error
	if a.listen, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if err = unix.Bind(a.listen, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return nil, err
	}
	if err = unix.Listen(a.listen, 4096); err != nil {
		return nil, err
	}
	name, err := unix.Getsockname(a.listen)
	if err != nil {
		return nil, err
	}
	a.address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*unix.SockaddrInet4).Port))
	if a.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if err = a.watch(a.listen); err != nil {
		return nil, err
	}
	go a.serve()
	return a, nil
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
				// What came with the connection was there before anything that is looked at after it.
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

func (a *arrivals) stop() {
	_ = unix.Shutdown(a.listen, unix.SHUT_RDWR)
	<-a.done
	_ = unix.Close(a.epoll)
	_ = unix.Close(a.listen)
}

func (a *arrivals) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paths = nil
}

// inversions counts those who came after somebody who should have come after them. All n must have come.
func (a *arrivals) inversions(n int) (inverted int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.paths) != n {
		return 0, fmt.Errorf("%d requests reached the upstream, want %d", len(a.paths), n)
	}
	last := -1
	for _, path := range a.paths {
		i, err := strconv.Atoi(path[1:])
		if err != nil {
			return 0, err
		}
		if i < last {
			inverted++
		}
		last = max(last, i)
	}
	return inverted, nil
}
