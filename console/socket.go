package console

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrRunning is returned when another weir uses the control socket.
var ErrRunning = errors.New("another weir is running here")

// maxSocketPath is what fits into the address of a unix socket on every system.
const maxSocketPath = 103

// listenSocket binds a unix socket that only this user can open. It replaces a socket that a dead weir left behind.
func listenSocket(path string) (net.Listener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("control: %s is %d bytes long; the path of a socket has at most %d", path, len(path),
			maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	own := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return keepOthersOut(c) }}
	l, err := own.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("control: %w", err)
	}
	return l, nil
}

// clearSocket removes a socket that no process listens on any more.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("control: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("control: %s exists and is not a socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		c.Close()
	}
	// Only a refused connection proves that no process listens: a busy weir may time out.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("control: %w: %s answers (weir reload applies a changed configuration; "+
			"a second weir needs its own data folder)", ErrRunning, path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("control: %w", err)
	}
	return nil
}
