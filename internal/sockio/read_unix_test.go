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

func TestQuiet(t *testing.T) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			one, other := pair(t, network)
			raw, err := one.(Socket).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			var quiet bool
			look := func(fd uintptr) { quiet = Quiet(fd) }
			if err := raw.Control(look); err != nil || !quiet {
				t.Fatalf("before anything came: quiet %t, %v", quiet, err)
			}
			comes := func(fd uintptr) bool { look(fd); return !quiet }
			if _, err := other.Write([]byte{1}); err != nil {
				t.Fatal(err)
			}
			if err := raw.Read(comes); err != nil || quiet {
				t.Errorf("a byte: quiet %t, %v", quiet, err)
			}
			if n, err := one.Read(make([]byte, 8)); n != 1 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			if err := raw.Read(comes); err != nil || quiet {
				t.Errorf("the end: quiet %t, %v", quiet, err)
			}
		})
	}
}
