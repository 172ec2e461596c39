package httpgate

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"weir/identify"
	"weir/internal/splice"
)

// A socket is a client's connection: TCP, or a socket of this machine.
type socket interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// peerOf is the address at the other end; invalid on a socket of this machine.
func peerOf(s socket) netip.Addr {
	if addr, ok := s.RemoteAddr().(*net.TCPAddr); ok {
		return identify.Plain(addr.AddrPort().Addr())
	}
	return netip.Addr{}
}

// A wire is what lies below HTTP and TLS. It cuts off a client that takes nothing of what is written for too long. TLS
// cannot do that, as it cannot go on after a deadline in the middle of a record.
type wire struct {
	socket
	gate  *Gate
	ahead []byte       // what was read with the PROXY header and is still to be read
	until atomic.Int64 // when writing ends whatever the progress, in Unix nanoseconds; 0 for never

	renewed    atomic.Int64 // when the deadline for writing was last moved on, in Unix nanoseconds
	renewedFor atomic.Int64 // for how long
}

func (w *wire) Read(p []byte) (int, error) {
	if len(w.ahead) > 0 {
		n := copy(p, w.ahead)
		if w.ahead = w.ahead[n:]; len(w.ahead) == 0 {
			w.ahead = nil
		}
		return n, nil
	}
	return w.socket.Read(p)
}

// Write writes all of p. A client that takes none of it within the progress timeout is cut off, a slow one is not. The
// system does not say when the client took something, so that it is asked again in parts of the timeout.
func (w *wire) Write(p []byte) (written int, err error) {
	var took time.Time
	for {
		w.renew()
		n, err := w.socket.Write(p[written:])
		written += n
		if !w.goesOn(n, err, &took) {
			return written, err
		}
	}
}

// pass is Write for what is in a pipe.
func (w *wire) pass(p *splice.Pipe) (written int, err error) {
	raw, err := w.socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	var took time.Time
	for {
		w.renew()
		n, err := p.Pass(raw)
		written += n
		if !w.goesOn(n, err, &took) {
			return written, err
		}
	}
}

// goesOn reports whether an attempt to write, which sent n bytes, is to be followed by another one. took is when a part
// of the timeout ended in which the client took something; zero at first.
func (w *wire) goesOn(n int, err error, took *time.Time) bool {
	if w.until.Load() != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	now, progress := time.Now(), w.gate.progress()
	if n > 0 || took.IsZero() {
		*took = now
		return true
	}
	return now.Sub(*took) < progress-progress/progressParts // timers are not exact
}

// progressParts is how many times in a progress timeout a client that takes nothing is checked.
const progressParts = 8

// renew moves the deadline on now and then: a client is checked after one to two parts of the timeout.
func (w *wire) renew() {
	now, progress := time.Now(), w.gate.progress()
	until := w.until.Load()
	part := progress / progressParts
	if until == 0 && now.UnixNano()-w.renewed.Load() < int64(part) && w.renewedFor.Load() == int64(progress) {
		return
	}
	deadline := now.Add(2 * part)
	w.renewed.Store(now.UnixNano())
	w.renewedFor.Store(int64(progress))
	if until != 0 && until < deadline.UnixNano() {
		deadline = time.Unix(0, until)
		w.renewed.Store(0)
	}
	_ = w.socket.SetWriteDeadline(deadline)
}

// SetWriteDeadline also ends a write that is under way.
func (w *wire) SetWriteDeadline(t time.Time) error {
	w.renewed.Store(0)
	if t.IsZero() {
		w.until.Store(0)
	} else {
		w.until.Store(max(t.UnixNano(), 1))
	}
	return w.socket.SetWriteDeadline(t)
}

func (w *wire) SetDeadline(t time.Time) error {
	return errors.Join(w.SetReadDeadline(t), w.SetWriteDeadline(t))
}
