//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strconv"
	"sync"
	"time"
	"weir/console"

	"golang.org/x/sys/unix"
)

// heldRequests is Q3: the memory of a request while it waits, and whether requests that waited reach the upstream in
// order. It runs the real binary: the quota of one period is used up, then as many requests again wait, leave, wait
// again, and go in the next period.
func heldRequests(t *trial) []figure {
	n, period := pick(t, 10_000, 200), pick[time.Duration](t, 40, 4)*time.Second
	folder, seen := t.folder(), t.newArrivals()
	weir := t.startWeir(folder, fmt.Sprintf(`
data: %s
http:
- listen: 127.0.0.1:0
  upstream: http://%s
  account: ["header:X-Api-Key"]
  throttles: [plans]
  bounds: {waiting: 50000, requests: 50000, connections: 50000}
throttles:
  plans:
    quota:
      policies:
      - {name: period, limit: %d, period: %s, over: delay, delay: {max: %d, max_wait: 5m}}
console: {listen: "off"}
log: {access: "off"}
`, folder, seen.address, n, period, n))
	before := memoryKB(weir.Pid, "VmRSS")

	// Begin with a period, so that there is time to fill the line before the next.
	time.Sleep(time.Until(time.Now().Truncate(period).Add(period)))
	end := time.Now().Truncate(period).Add(period)
	weir.useUp(n)

	// The memory first, and the length of the line is asked for now and then only: answers make garbage, and the more
	// weir holds the more of it may lie about. The second time counts: a process that has just begun has never touched
	// much of what it allocated.
	var held int64
	calls := make([]net.Conn, n)
	for range 2 {
		for i := range calls {
			calls[i] = weir.get("/")
		}
		weir.waiting(n, 100*time.Millisecond)
		held = memoryKB(weir.Pid, "VmRSS")
		for _, c := range calls {
			c.Close()
		}
		weir.waiting(0, 100*time.Millisecond)
	}

	// Then the order: each is sent when the one before it is in line.
	seen.clear()
	for i := range calls {
		calls[i] = weir.get(fmt.Sprintf("/%d", i))
		defer calls[i].Close()
		weir.waiting(i+1, 0)
	}
	if time.Now().After(end) {
		check(errors.New("this machine is too slow to fill the line within one period"))
	}
	for _, c := range calls {
		c.SetReadDeadline(end.Add(2 * period))
		if resp := try(http.ReadResponse(bufio.NewReader(c), nil)); resp.StatusCode != http.StatusOK {
			check(fmt.Errorf("a request that waited got %s", resp.Status))
		}
	}
	return []figure{
		{fmt.Sprintf("memory of a held HTTP/1.1 request, %d held (resident size of weir serve)", n),
			[]value{most(10, float64(held-before)/float64(n), "%.1f KB")}, ""},
		{fmt.Sprintf("… that reached the upstream ahead of one that was in line before it, of %d", n),
			[]value{none(seen.inversions(n))}, ""},
	}
}

// get sends a request on a connection of its own, whose answer is read later.
func (r *running) get(path string) net.Conn {
	c := try(net.Dial("tcp", r.address))
	try(fmt.Fprintf(c,
		"GET %s HTTP/1.1\r\nHost: bench\r\nUser-Agent: weir-bench\r\nAccept: */*\r\nX-Api-Key: acme\r\n\r\n", path))
	return c
}

// useUp makes n requests, one after the other on one connection.
func (r *running) useUp(n int) {
	c := try(net.Dial("tcp", r.address))
	defer c.Close()
	answers := bufio.NewReader(c)
	for range n {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: bench\r\nX-Api-Key: acme\r\n\r\n")
		resp := try(http.ReadResponse(answers, nil))
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			check(fmt.Errorf("using up the quota: %s", resp.Status))
		}
	}
}

// waiting waits until n requests are in line. It looks again after each pause.
func (r *running) waiting(n int, pause time.Duration) {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if try(console.StatusCall.Ask(context.Background(), r.control,
			console.None{})).Throttles[0].Table.Waiting == n {
			return
		}
		time.Sleep(pause)
	}
	check(fmt.Errorf("there are never %d in line", n))
}

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

// read reads one request, which is small enough to come in one piece, and answers it.
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
