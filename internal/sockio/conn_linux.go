//go:build linux && !race

package sockio

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// most is how many bytes one call moves: nothing else runs on its processor meanwhile.
const most = 64 << 10

// A conn is a Socket with its own Read and Write.
type conn struct {
	Socket
	raw     syscall.RawConn
	in, out transfer
}

// A transfer is one direction of a connection.
type transfer struct {
	mu      sync.Mutex // those who read, or write, at the same time do so one after the other
	call    uintptr
	attempt func(fd uintptr) bool // kept, as it would be made anew for each call

	// Of the call under way.
	p   []byte
	n   int
	err error
}

func of(s Socket) net.Conn {
	raw, err := s.SyscallConn()
	if err != nil {
		return s
	}
	c := &conn{Socket: s, raw: raw}
	c.in.call, c.in.attempt = syscall.SYS_READ, c.in.try
	c.out.call, c.out.attempt = syscall.SYS_WRITE, c.out.try
	return c
}

// try reports whether the call is over. If it is not, the socket is not ready.
func (t *transfer) try(fd uintptr) bool {
	t.n, t.err = direct(t.call, fd, t.p)
	return t.err != syscall.EAGAIN
}

// direct makes a call that reads or writes.
func direct(call, fd uintptr, p []byte) (int, error) {
	p = p[:min(len(p), most)]
	for {
		n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// Read reads what is there from a descriptor that does not block, or fails with syscall.EAGAIN.
func Read(fd uintptr, p []byte) (int, error) { return direct(syscall.SYS_READ, fd, p) }

// Quiet reports whether there is nothing to read from a socket, not even its end.
func Quiet(fd uintptr) bool {
	var one [1]byte
	for {
		_, _, errno := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&one)), 1,
			syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == syscall.EAGAIN
		}
	}
}

func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t := &c.in
	t.mu.Lock()
	defer t.mu.Unlock()
	t.p = p
	failed := c.raw.Read(t.attempt)
	t.p = nil
	switch {
	case failed != nil:
		return 0, renamed(failed, "read")
	case t.err != nil:
		return 0, c.failed("read", t.err)
	case t.n == 0:
		return 0, io.EOF
	}
	return t.n, nil
}

// Write writes all of p, and nothing of others in between.
func (c *conn) Write(p []byte) (written int, err error) {
	t := &c.out
	t.mu.Lock()
	defer t.mu.Unlock()
	for written < len(p) {
		t.p = p[written:]
		failed := c.raw.Write(t.attempt)
		t.p = nil
		if failed != nil {
			return written, renamed(failed, "write")
		}
		if t.err != nil {
			return written, c.failed("write", t.err)
		}
		if t.n == 0 { // the system never says so
			return written, io.ErrUnexpectedEOF
		}
		written += t.n
	}
	return written, nil
}

// failed is the error that package net has for what the system says.
func (c *conn) failed(call string, err error) error {
	return &net.OpError{Op: call, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(),
		Err: os.NewSyscallError(call, err)}
}

// renamed is an error of a deadline or a closed connection, which names the call as package net does.
func renamed(err error, call string) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		op.Op = call
	}
	return err
}
