//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A pace says when requests should be sent, and notes how late their answers are. All times are since the beginning,
// and are passed in.
//
// With a rate, requests are due at regular times, whatever becomes of the ones before them. An answer is as late as
// it comes after the time when its request was due, also where the request itself could not be sent by then. A client
// that counts from the time of sending sends nothing while it waits for a stalled server, and so leaves out all those
// who would have waited too (coordinated omission). Without a rate, a request is due as soon as it can be sent.
type pace struct {
	rate  int // requests a second, or 0
	total int
	sent  int
	late  []time.Duration // of each answer
}

func newPace(rate, total int) *pace {
	return &pace{rate: rate, total: total, late: make([]time.Duration, 0, total)}
}

// due returns when the next request should be sent. It reports false when all are sent.
func (p *pace) due(now time.Duration) (at time.Duration, more bool) {
	if p.rate == 0 {
		return now, p.sent < p.total
	}
	return time.Duration(int64(p.sent) * int64(time.Second) / int64(p.rate)), p.sent < p.total
}

// answered notes an answer to a request that was due.
func (p *pace) answered(due, now time.Duration) { p.late = append(p.late, now-due) }

func (p *pace) done() bool { return len(p.late) == p.total }

// percentile returns how late an answer is, at most, in so many of a thousand cases.
func (p *pace) percentile(ofThousand int) time.Duration {
	all := slices.Sorted(slices.Values(p.late))
	return all[min(len(all)*ofThousand/1000, len(all)-1)]
}

// A caller is a connection that carries one request at a time.
type caller struct {
	file   *os.File
	fd     int
	due    time.Duration // of the request under way
	in     []byte
	filled int // of in
}

// callers send requests over several connections. They share the machine with what they measure, so they cost as
// little as possible: one thread, one request that was encoded before, and answers that are read in place.
type callers struct {
	poll     int
	conns    []*caller
	free     []int // connections without a request, the one that is free for longest first
	request  []byte
	accounts int // the account of a request is one of so many, in turns
	next     int // account
}

// accountDigits are overwritten in the request. They are at accountAt.
const accountDigits = 7

var (
	requestHead = "GET / HTTP/1.1\r\nHost: bench\r\nX-Api-Key: "
	accountAt   = len(requestHead)
)

// dialCallers opens connections to a proxy.
func (t *trial) dialCallers(address string, connections, accounts int) *callers {
	c := &callers{poll: try(unix.EpollCreate1(unix.EPOLL_CLOEXEC)), accounts: accounts,
		request: fmt.Appendf(nil, "%s%0*d\r\n\r\n", requestHead, accountDigits, 0)}
	t.cleanup(func() { _ = unix.Close(c.poll) })
	for i := range connections {
		conn := try(net.Dial("tcp", address))
		file, err := conn.(*net.TCPConn).File()
		_ = conn.Close()
		check(err)
		t.cleanup(func() { _ = file.Close() })
		one := &caller{file: file, fd: int(file.Fd()), in: make([]byte, 8<<10)}
		check(unix.SetNonblock(one.fd, true))
		check(unix.SetsockoptInt(one.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
		check(unix.EpollCtl(c.poll, unix.EPOLL_CTL_ADD, one.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}))
		c.conns, c.free = append(c.conns, one), append(c.free, i)
	}
	return c
}

// hangUp closes the connections before the trial ends.
func (c *callers) hangUp() {
	for _, one := range c.conns {
		_ = one.file.Close()
	}
}

// run sends all requests of a pace, and returns when all are answered.
func (c *callers) run(p *pace) (took time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Otherwise the system may wake this thread 50 µs late, to wake it together with others.
	check(unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0))
	start := time.Now()
	for !p.done() {
		wait := patience
		for len(c.free) > 0 {
			now := time.Since(start)
			due, more := p.due(now)
			if !more {
				break
			}
			if wait = due - now; wait > 0 {
				break
			}
			c.send(due)
			p.sent++
		}
		c.serve(p, start, wait)
	}
	return time.Since(start)
}

// send sends the next request on the connection that is free for longest.
func (c *callers) send(due time.Duration) {
	one := c.conns[c.free[0]]
	c.free = append(c.free[:0], c.free[1:]...) // a few hundred bytes at most, in the same array
	for n, i := c.next, accountAt+accountDigits-1; i >= accountAt; i-- {
		c.request[i] = byte('0' + n%10)
		n /= 10
	}
	if c.next++; c.next == c.accounts {
		c.next = 0
	}
	one.due = due
	if n, err := unix.Write(one.fd, c.request); n < len(c.request) {
		check(fmt.Errorf("the proxy does not read: %w", err))
	}
}

// serve takes the answers that are there, and waits for the first one up to a time.
func (c *callers) serve(p *pace, start time.Time, wait time.Duration) {
	var events [64]unix.EpollEvent
	n, err := epollWait(c.poll, events[:], max(wait, 0))
	if errors.Is(err, unix.EINTR) {
		return
	}
	check(err)
	if n == 0 && wait == patience {
		check(fmt.Errorf("no answer within %s", patience))
	}
	for _, e := range events[:n] {
		one := c.conns[e.Fd]
		got, err := unix.Read(one.fd, one.in[one.filled:])
		if errors.Is(err, unix.EAGAIN) {
			continue
		}
		check(err)
		if got == 0 {
			check(errors.New("the proxy has hung up"))
		}
		one.filled += got
		size := try(answerSize(one.in[:one.filled]))
		switch {
		case size == 0 || size > one.filled: // the rest is on its way
			if one.filled == len(one.in) {
				check(errLargeAnswer)
			}
		case size < one.filled:
			check(fmt.Errorf("the proxy sends more than one answer: %q", one.in[:one.filled]))
		default:
			p.answered(one.due, time.Since(start))
			one.filled = 0
			c.free = append(c.free, int(e.Fd))
		}
	}
}

// epollWait is epoll_pwait2(2), which knows times of less than a millisecond.
func epollWait(poll int, events []unix.EpollEvent, wait time.Duration) (int, error) {
	timeout := unix.NsecToTimespec(int64(wait))
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(poll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.ENOSYS:
		return 0, fmt.Errorf("epoll_pwait2 needs Linux 5.11: %w", errors.ErrUnsupported)
	}
	return 0, errno
}

// Errors of an answer.
var (
	errLargeAnswer = errors.New("an answer is larger than 8 KiB")
	errAnswer      = errors.New("the proxy did not answer as it should")
)

// answerSize returns how long the answer is that some bytes begin with, or 0 if that is not known yet. Only 200 with
// a length is known.
func answerSize(in []byte) (int, error) {
	head := bytes.Index(in, []byte("\r\n\r\n"))
	if head < 0 {
		return 0, nil
	}
	if !bytes.HasPrefix(in, []byte("HTTP/1.1 200")) {
		return 0, fmt.Errorf("%w: %q", errAnswer, in[:head])
	}
	for _, name := range []string{"\r\nContent-Length: ", "\r\ncontent-length: "} { // HAProxy writes small letters
		at := bytes.Index(in[:head], []byte(name))
		if at < 0 {
			continue
		}
		digits, _, _ := bytes.Cut(in[at+len(name):head+1], []byte("\r"))
		length, err := strconv.Atoi(string(digits))
		if err != nil || length < 0 {
			return 0, fmt.Errorf("%w: %q", errAnswer, in[:head])
		}
		return head + len("\r\n\r\n") + length, nil
	}
	return 0, fmt.Errorf("%w, with a length: %q", errAnswer, in[:head])
}
