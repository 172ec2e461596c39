package splice

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// size is how much a pipe holds at most, and least what is good enough where the system grants no more.
const (
	size  = 256 << 10
	least = 64 << 10
)

// A Pipe has bytes that were taken from a socket and not been passed on. It is for one goroutine.
type Pipe struct {
	ends
	held    int
	cleanup runtime.Cleanup
}

// ends are the descriptors of a pipe.
type ends struct{ r, w int }

func (e ends) close() {
	_ = unix.Close(e.r)
	_ = unix.Close(e.w)
}

var (
	pipes = sync.Pool{New: func() any { return open() }}
	inUse atomic.Int32
)

// open makes a pipe; nil where the system grants none that is large enough. It is closed when nobody has it any more.
func open() *Pipe {
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	e := ends{fds[0], fds[1]}
	if _, err := unix.FcntlInt(uintptr(e.w), unix.F_SETPIPE_SZ, size); err != nil {
		if n, err := unix.FcntlInt(uintptr(e.w), unix.F_GETPIPE_SZ, 0); err != nil || n < least {
			e.close()
			return nil
		}
	}
	p := &Pipe{ends: e}
	p.cleanup = runtime.AddCleanup(p, ends.close, e)
	return p
}

// borrow returns an empty pipe, or nil if there is none.
func borrow() *Pipe {
	if inUse.Add(1) > MaxPipes {
		inUse.Add(-1)
		return nil
	}
	p := pipes.Get().(*Pipe)
	if p == nil {
		inUse.Add(-1)
	}
	return p
}

// Take waits for bytes of a socket, up to its deadline for reading, and moves up to most of them into a pipe, which the
// caller must free. At the end of the stream the error is io.EOF.
func Take(from syscall.RawConn, most int64) (p *Pipe, err error) {
	failed := from.Read(func(fd uintptr) bool {
		if p = borrow(); p == nil {
			err = ErrNone
			return true
		}
		var n int
		n, err = move(int(fd), p.w, int(min(most, size)))
		if n > 0 {
			p.held = n
			return true
		}
		p.Free()
		p = nil
		switch err {
		case nil:
			err = io.EOF
		case unix.EAGAIN:
			err = nil
			return false
		case unix.EINVAL:
			err = ErrNone
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return p, err
}

// Len is how many bytes it has.
func (p *Pipe) Len() int { return p.held }

// Pass moves the bytes on to a socket and returns how many it took. After an error, such as the deadline for writing,
// the rest is still there.
func (p *Pipe) Pass(to syscall.RawConn) (passed int, err error) {
	failed := to.Write(func(fd uintptr) bool {
		for p.held > 0 {
			var n int
			if n, err = move(p.r, int(fd), p.held); err == unix.EAGAIN {
				err = nil
				return false
			} else if err == nil && n == 0 {
				err = io.ErrNoProgress // it would be tried forever
			}
			if err != nil {
				return true
			}
			p.held -= n
			passed += n
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return passed, err
}

// Free gives the pipe back. What is left in it is lost.
func (p *Pipe) Free() {
	inUse.Add(-1)
	if p.held > 0 {
		p.cleanup.Stop()
		p.close()
		return
	}
	pipes.Put(p)
}

// move splices without waiting for the socket or the pipe.
func move(from, to, most int) (n int, err error) {
	for {
		moved, err := unix.Splice(from, nil, to, nil, most, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if err != unix.EINTR {
			return int(max(moved, 0)), err
		}
	}
}
