//go:build unix

package httpgate

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// Where the system does not tell of clients that leave, they are found by looking.
func TestPolledHangups(t *testing.T) {
	h := newPolledHangups()
	pair := func() (client net.Conn, server syscall.Conn) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close(); accepted.Close() })
		return client, accepted.(syscall.Conn)
	}
	gone := make(chan string, 3)
	watch := func(name string) (net.Conn, func()) {
		client, server := pair()
		remove := h.add(server, func() { gone <- name })
		if remove == nil {
			t.Fatal("not watched")
		}
		return client, remove
	}
	leaves, _ := watch("leaves")
	forgotten, remove := watch("forgotten")
	talks, _ := watch("talks")
	_, _ = io.WriteString(talks, "more")
	remove()
	forgotten.Close()
	leaves.Close()
	select {
	case name := <-gone:
		if name != "leaves" {
			t.Errorf("%s is gone", name)
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody noticed")
	}
	h.close()
	if _, server := pair(); h.add(server, func() {}) != nil {
		t.Error("watched after the end")
	}
	if len(gone) > 0 {
		t.Errorf("%s is gone too", <-gone)
	}
}
