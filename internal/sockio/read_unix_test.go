//go:build unix

package sockio

import (
	"net"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	one, other := pair(t, "tcp")
	raw, err := one.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	p, n := make([]byte, 8), 0
	look := func(fd uintptr) { n, err = Read(fd, p) }
	if failed := raw.Control(look); failed != nil || err != syscall.EAGAIN {
		t.Errorf("before anything came: %d, %v, %v", n, err, failed)
	}
	if _, err := other.Write([]byte("there")); err != nil {
		t.Fatal(err)
	}
	came := func(fd uintptr) bool { look(fd); return err != syscall.EAGAIN }
	if failed := raw.Read(came); failed != nil || err != nil || string(p[:n]) != "there" {
		t.Errorf("%q, %v, %v", p[:n], err, failed)
	}
}
