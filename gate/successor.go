package gate

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// successorVariable hands the sockets of a weir to the one that takes its place in the same process: its id, then
// DESCRIPTOR=NAME for each socket, separated by colons.
const successorVariable = "WEIR_SOCKETS"

// remember keeps a socket that a gate has opened by itself, so that it can be handed to a successor.
func (s *Sockets) remember(listen string, socket any) {
	known, ok := socket.(interface {
		syscall.Conn
		File() (*os.File, error)
	})
	if s == nil || !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	still := s.opened[:0]
	for _, o := range s.opened {
		if o.open() {
			still = append(still, o)
		}
	}
	s.opened = append(still, opened{listen, known})
}

// ForSuccessor returns the environment for a program that takes the place of this one, by exec, and listens on the same
// sockets. They stay open from now on, whatever becomes of the gates.
func (s *Sockets) ForSuccessor() (environment string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := []string{strconv.Itoa(os.Getpid())}
	pass := func(f *os.File, name string) error {
		if len(parts) > MaxHanded {
			return ErrTooManySockets
		}
		parts = append(parts, fmt.Sprintf("%d=%s", f.Fd(), name))
		return keepOnExec(f)
	}
	for _, h := range s.all {
		if err := pass(h.file, h.name); err != nil {
			return "", err
		}
	}
	for _, o := range s.opened {
		if !o.open() {
			continue
		}
		if unix, ok := o.socket.(*net.UnixListener); ok {
			unix.SetUnlinkOnClose(false)
		}
		f, err := o.socket.File()
		if err != nil {
			return "", err
		}
		s.kept = append(s.kept, f)
		if err := pass(f, SocketName(o.listen)); err != nil {
			return "", err
		}
	}
	return successorVariable + "=" + strings.Join(parts, ":"), nil
}

// errHandedOver is returned for a variable that no weir has written.
var errHandedOver = errors.New(successorVariable + " is not what a weir has written")

// succeed takes the sockets of the weir before it in this process.
func (s *Sockets) succeed(text string) error {
	parts := strings.Split(text, ":")
	if parts[0] != strconv.Itoa(os.Getpid()) {
		return nil
	}
	if len(parts)-1 > MaxHanded {
		return ErrTooManySockets
	}
	for _, part := range parts[1:] {
		number, name, found := strings.Cut(part, "=")
		fd, err := strconv.Atoi(number)
		if !found || err != nil || fd < firstHanded {
			return errHandedOver
		}
		if err := s.add(fd, name); err != nil {
			return err
		}
	}
	return nil
}
