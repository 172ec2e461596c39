//go:build unix

package httpgate

import (
	"io"
	"syscall"
)

// A freshReader reads the first bytes of a request. A connection that waits for one has no buffer: it takes one when
// there is something to read.
type freshReader struct {
	raw     syscall.RawConn // nil inside TLS, where there is always one
	attempt func(fd uintptr) bool
	block   *block
	n       int
	err     error
}

func (r *freshReader) begin(c *conn) {
	if c.tls != nil {
		return
	}
	if raw, err := c.SyscallConn(); err == nil {
		r.raw, r.attempt = raw, r.try
	}
}

// read waits for bytes and returns the block that they are in, and how many they are. Deadlines of the connection
// count.
func (r *freshReader) read() (*block, int, error) {
	err := r.raw.Read(r.attempt)
	b, n := r.block, r.n
	r.block, r.n = nil, 0
	if err == nil {
		err = r.err
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil && b != nil {
		blocks.Put(b)
		b = nil
	}
	return b, n, err
}

func (r *freshReader) try(fd uintptr) bool {
	b := blocks.Get().(*block)
	n, err := syscall.Read(int(fd), b[:])
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), b[:])
	}
	if err == syscall.EAGAIN {
		blocks.Put(b)
		return false
	}
	r.block, r.n, r.err = b, max(n, 0), err
	return true
}
