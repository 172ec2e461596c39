//go:build unix

package gate

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// What a weir hands to its successor are the sockets that its gates have open, under the names that the successor's
// gates ask for, and they stay open when the gates close.
func TestForSuccessor(t *testing.T) {
	t.Parallel()
	s, path := &Sockets{}, filepath.Join(t.TempDir(), "s")
	tcp, err := s.Listen("127.0.0.1:0", Socket{})
	if err != nil {
		t.Fatal(err)
	}
	unix, err := s.Listen("unix:"+path, Socket{})
	if err != nil {
		t.Fatal(err)
	}
	udp, err := s.ListenPacket("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone, err := s.Listen("127.0.0.1:0", Socket{})
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	text, err := s.ForSuccessor()
	if err != nil {
		t.Fatal(err)
	}
	tcp.Close()
	unix.Close()
	udp.Close()
	text, ok := strings.CutPrefix(text, successorVariable+"=")
	if !ok || strings.Count(text, ":") != 3 {
		t.Fatalf("%q", text)
	}
	// Here both live in one process: the next one gets descriptors of its own.
	parts := strings.Split(text, ":")
	for i, part := range parts[1:] {
		number, name, _ := strings.Cut(part, "=")
		fd, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		if fd, err = syscall.Dup(fd); err != nil {
			t.Fatal(err)
		}
		parts[i+1] = fmt.Sprintf("%d=%s", fd, name)
	}
	for _, f := range s.kept {
		f.Close()
	}
	next := &Sockets{}
	if err := next.succeed(strings.Join(parts, ":")); err != nil {
		t.Fatal(err)
	}
	for _, h := range next.all {
		defer h.file.Close()
	}
	l, err := next.Listen("127.0.0.1:0", Socket{})
	if err != nil || l.Addr().String() != tcp.Addr().String() {
		t.Fatalf("%v, %v", l, err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Errorf("the socket is gone: %v", err)
	} else {
		c.Close()
	}
	if left := next.Untaken(); len(left) != 2 {
		t.Errorf("%q are not taken", left)
	}
}

func TestSuccessionBounds(t *testing.T) {
	t.Parallel()
	pid := fmt.Sprint(os.Getpid())
	for text, want := range map[string]error{
		"": nil, "1:3=x": nil, pid: nil,
		pid + ":x=y": errHandedOver, pid + ":0=y": errHandedOver, pid + ":7": errHandedOver,
		pid + strings.Repeat(":3=", MaxHanded+1): ErrTooManySockets,
	} {
		s := &Sockets{}
		if err := s.succeed(text); !errors.Is(err, want) || len(s.all) > 0 {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
