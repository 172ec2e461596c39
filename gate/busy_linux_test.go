package gate

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The socket of a server that is too busy to take another connection stays where it is.
func TestBusySocketStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 10 { // nobody takes them
		c, err := net.Dial("unix", path)
		if errors.Is(err, syscall.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	if err := clearSocket(path); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("cleared: %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}
